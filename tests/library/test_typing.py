"""The library as a type checker and an editor see it: everything has a type and a description."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

import headway
from headway.library.blocking_client import SyncClient, SyncTurnStream
from headway.library.client import Client
from headway.library.transport import Document
from headway.values.value import Value

UNTYPED_VALUES = {"Approval.arguments", "PersonRequest.arguments", "AgentResult.data", "Job.result"}  # what tools and models define
PUBLIC_CLASSES = [getattr(headway, name) for name in headway.__all__ if inspect.isclass(getattr(headway, name))]
VALUES = [kind for kind in PUBLIC_CLASSES if issubclass(kind, Value)]


def list_groups() -> Iterator[type]:
    """The classes whose methods programs call."""
    yield from (Client, SyncClient, headway.TurnStream, SyncTurnStream)
    for client in (Client, SyncClient):
        for name, member in inspect.getmembers(client):
            function = getattr(member, "func", None)  # that of a cached property
            if function is not None and not name.startswith("_"):
                yield find_group(client, name)


def find_group(client: type, name: str) -> type:
    """Return the class of a group, which the client imports when it is first used."""
    instance: Any = object.__new__(client if client is SyncClient else type("Stub", (Client,), {"transport": None}))
    if client is SyncClient:
        instance.__dict__.update(_loop_runner=None, _client=object.__new__(type("Stub", (Client,), {"transport": None})))
    return type(getattr(instance, name))


def list_methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            yield f"{kind.__name__}.{name}", member


def mentions_any(hint: Any) -> bool:
    return hint is Any or hint is Document or any(map(mentions_any, get_args(hint)))


GROUPS = list(dict.fromkeys(list_groups()))


def test_there_are_as_many_groups_without_await() -> None:
    names = {kind.__name__ for kind in GROUPS}
    assert {"Todos", "Goals", "Turns", "Webhooks", "Tokens", "HaltSwitch", "Files", "Events"} <= names
    assert {f"Sync{name}" for name in names if not name.startswith("Sync")} == {name for name in names if name.startswith("Sync")}


@pytest.mark.parametrize("kind", GROUPS, ids=lambda kind: kind.__name__)
def test_every_method_has_a_description_and_a_type(kind: type) -> None:
    methods = list(list_methods(kind))
    assert methods
    assert inspect.getdoc(kind)
    for name, method in methods:
        assert inspect.getdoc(method), name
        returned = inspect.signature(method, eval_str=False).return_annotation
        assert returned is not inspect.Signature.empty, name
        assert "Any" not in str(returned), name
        assert "dict[" not in str(returned), name


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_every_value_has_a_description_and_types(kind: type) -> None:
    assert inspect.getdoc(kind)
    untyped = {f"{kind.__name__}.{name}" for name, hint in get_type_hints(kind).items() if hint is Any}
    assert untyped <= UNTYPED_VALUES
