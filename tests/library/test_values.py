"""A value has the members of the document that REST answers with: the library drops none, and the OpenAPI document names all."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from headway.operations.operation import AnswerShape, find_operation
from headway.values.value import Meaning, Value
from tests.library.contract import build_embedded

REQUESTS: list[tuple[str, tuple[int, ...]]] = [
    ("GET /todos", ()),
    ("GET /todos/{}", (1,)),
    ("GET /todos/{}/comments", (1,)),
    ("GET /todos/{}/receipts", (1,)),
    ("GET /goals", ()),
    ("GET /goals/{}", (1,)),
    ("GET /goals/{}/journal", (1,)),
    ("GET /goals/{}/runs", (1,)),
    ("GET /conversations", ()),
    ("GET /conversations/{}", (1,)),
    ("GET /memory", ()),
    ("GET /tokens", ()),
    ("GET /halt", ()),
    ("GET /costs", ()),
    ("GET /jobs", ()),
]


def list_differences(hint: Any, document: Any) -> set[str]:
    """Compare a document with the type that describes it. Returns the members that only one of them has."""
    if get_origin(hint) in (Union, UnionType):
        options = [option for option in get_args(hint) if option is not NoneType]
        return list_differences(options[0], document) if document is not None and len(options) == 1 else set()
    if get_origin(hint) in (tuple, list):
        return set().union(*(list_differences(get_args(hint)[0], item) for item in document))
    if isinstance(hint, type) and issubclass(hint, Value) and isinstance(document, Mapping):
        hints = get_type_hints(hint)
        required = {field.name for field in fields(hint) if not is_omitted(hint, field.name)}  # type: ignore[arg-type]
        different = (document.keys() - hints.keys()) | (required - document.keys())
        below = (list_differences(hints[name], value) for name, value in document.items() if name in hints)
        return {f"{hint.__name__}.{name}" for name in different}.union(*below)
    return set()


def is_omitted(kind: type, name: str) -> bool:
    metadata = getattr(get_type_hints(kind, include_extras=True)[name], "__metadata__", ())
    return any(isinstance(one, Meaning) and one.is_omitted for one in metadata)


def test_the_values_have_every_member_of_the_answers(sqlite_url: str, tmp_path: Path) -> None:
    async def collect() -> set[str]:
        async with build_embedded(sqlite_url, tmp_path).open() as headway:
            await headway.todos.add("Write the tests.", checks=[{"kind": "file", "path": "tests.py"}])
            await headway.todos.verify(1)
            await headway.todos.comment(1, "Soon.")
            await headway.goals.add("Every page has been proofread.")
            await headway.conversations.add("The manual")
            await headway.memory.add("Proofread aloud.")
            await headway.tokens.add("printer")
            different = set()
            for route, ids in REQUESTS:
                answer = find_operation(route).answers[200]
                assert isinstance(answer, AnswerShape)
                document = await headway.transport.send(route, *ids)
                different |= {f"{route}: {name}" for name in document.keys() ^ answer.members.keys()}
                for name, kind in answer.members.items():
                    different |= list_differences(kind, document[name])
            return different

    assert asyncio.run(collect()) == set()
