"""What programs can rely on when they follow events: each kind has its data, in the library, in OpenAPI and in the log."""

import ast
import re
from pathlib import Path
from typing import assert_type, get_args, get_type_hints

import headway
from headway.feed import TENANT_MOVED
from headway.ledger.events import StreamedKind
from headway.surfaces.http.openapi import list_events
from tests.event_log import find_undeclared
from tests.parsed_sources import list_nodes

SOURCE = Path(headway.__file__).parent
EMITTERS = {"Event", "FeedEvent", "broadcast", "_broadcast", "emit", "emit_after_list", "emit_event", "emit_to_all_tenants"}


def list_emitted_kinds(module: Path) -> set[str]:
    """Return the kinds that a module emits, as far as it names them in the call."""
    calls = [node for node in list_nodes(module) if isinstance(node, ast.Call)]
    arguments = [argument for call in calls if get_name(call.func) in EMITTERS for argument in call.args]
    texts = [argument.value for argument in arguments if isinstance(argument, ast.Constant) and isinstance(argument.value, str)]
    return {text for text in texts if text.isidentifier()}


def get_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def test_every_kind_is_declared_once_with_its_data() -> None:
    declared = [event.kind for event in list_events()]
    assert sorted(declared) == sorted({*get_args(StreamedKind), TENANT_MOVED})
    assert len({event.data for event in list_events()}) == len(declared)
    assert all(event.meaning for event in list_events())


def test_every_kind_that_the_source_emits_is_declared() -> None:
    emitted = {kind for path in SOURCE.rglob("*.py") for kind in list_emitted_kinds(path)}
    assert len(emitted) > 35  # the others are chosen from a table
    assert emitted <= {event.kind for event in list_events()}


def test_the_kind_of_an_event_says_what_its_data_is() -> None:
    """The type checker checks this function."""

    def describe(event: headway.TypedEvent) -> str:
        if event.kind == "turn_failed":
            return assert_type(event.data["error"], str)
        if event.kind == "waiting_changed":
            return str(assert_type(event.data["approvals"], int))
        return event.kind

    failed = headway.Event("turn_failed", {"turn_id": "t", "error": "It broke.", "code": "tool_failed"})
    assert describe(failed) == "It broke."  # type: ignore[arg-type]  # only streams yield typed events


def test_the_page_about_http_names_every_kind_and_fields_that_exist() -> None:
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    declared = {event.kind: get_type_hints(event.data).keys() for event in list_events()}
    assert [kind for kind in declared if f"`{kind}" not in page] == []
    described = re.findall(r"`(\w+) \{([^}]*)\}`", page)
    fields = {(kind, name.strip(" ?")) for kind, names in described if kind in declared for name in names.split(",")}
    assert len(fields) > 30
    assert {(kind, name) for kind, name in fields if name != "…" and name not in declared[kind]} == set()


def test_data_that_is_not_declared_is_found() -> None:
    whole = '{"approvals":0,"questions":0,"decisions":0}'
    assert find_undeclared([("waiting_changed", whole)]) == []
    assert len(find_undeclared([("waiting_changed", '{"approvals":0,"questions":0}')])) == 1
    assert len(find_undeclared([("waiting_changed", whole[:-1] + ',"others":0}')])) == 1
