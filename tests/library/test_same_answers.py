"""Odd calls get the same answer from a Headway in the program and from a server. They are made from the table of operations."""

import asyncio
import math
import random
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import TypeAdapter

from headway import Client, HeadwayError, Invalid
from headway.actions.access.rights import NEEDED_SCOPES
from headway.operations.operation import Operation, list_tables
from tests.library.contract import Variant, build_embedded, build_remote, build_sync, build_sync_remote
from tests.surfaces.server_harness import Service

SEED = 20
CALLS_PER_OPERATION = 6
# No row has one of these ids: both tenants have the same rows, but not the same ids.
IDS = ["0", "-1", "1.5", "x", "", "..", "99999999999999999999", "888888888888", "888888888888", "888888888888"]
NAMES = ["nothing", "", ".", "a b/c?d", "ü", "\ud800", "0"]
VALUES: list[Any] = [
    None, "", " ", "x", "tenant", "pending", "1", "-1", 0, 1, -1, 1.5, 3.0, 2**70, True, math.nan, math.inf,
    [], ["1"], [404], [{}], {}, {"name": "x"}, {"kind": "command"}, "\ud800", "\x00", "y" * 100_001,
]  # fmt: skip
OPERATIONS = [
    operation
    for table in list_tables()
    for operation in table.operations
    # The program acts for the operator, and the token is an administrator's.
    if not operation.is_served_apart
    and (operation.right is None or NEEDED_SCOPES[operation.right] == "admin")
    and operation.right != "set_limit"
]


class OddCall(NamedTuple):
    operation: Operation
    path: tuple[str, ...]
    query: dict[str, Any]
    body: dict[str, Any]


def build_calls(chance: random.Random) -> list[OddCall]:
    return [build_call(chance, operation) for operation in OPERATIONS for _ in range(CALLS_PER_OPERATION)]


def build_call(chance: random.Random, operation: Operation) -> OddCall:
    path = tuple(chance.choice(IDS if kind is int else NAMES) for kind in operation.path_types.values())
    query_names = list(operation.query.model_json_schema()["properties"]) if operation.query else []
    return OddCall(operation, path, choose_fields(chance, query_names), choose_fields(chance, list_body_fields(operation)))


def list_body_fields(operation: Operation) -> list[str]:
    if operation.body is None:
        return []
    shape: Any = operation.body
    schema = TypeAdapter(shape).json_schema()
    shapes = [schema, *schema.get("$defs", {}).values()] if "oneOf" in schema else [schema]
    return sorted({name for part in shapes for name in part.get("properties", {})})


def choose_fields(chance: random.Random, names: list[str]) -> dict[str, Any]:
    """Give about half of the fields values, most of which are wrong, and now and then a field that does not exist."""
    chosen = [name for name in names if chance.random() < 0.5] + (["nonsense"] if names and chance.random() < 0.1 else [])
    return {name: chance.choice(VALUES) for name in chosen}


async def describe_answer(client: Client, call: OddCall) -> object:
    """Return the kind and the sentence of a refusal, or the members of an answer."""
    query = {name: value for name, value in call.query.items() if value is not None}
    try:
        answer = await client.transport.send(call.operation.route, *call.path, query=query, body=call.body)
    except HeadwayError as error:
        return type(error).__name__, str(error)
    return sorted(answer)


def test_odd_calls_get_the_same_answer_embedded_and_remote(served_sqlite: Service, sqlite_url: str, tmp_path: Path) -> None:
    calls = build_calls(random.Random(SEED))

    async def story() -> list[str]:
        async with build_embedded(sqlite_url, tmp_path / "home").open() as embedded, build_remote(served_sqlite).open() as remote:
            different = []
            for call in calls:
                here, there = await describe_answer(embedded, call), await describe_answer(remote, call)
                if here != there:
                    shown = f"{call.operation.route} {call.path} {call.query} {call.body}"
                    different.append(f"{shown[:300]}\n    embedded: {here}\n    remote:   {there}")
            return different

    different = asyncio.run(story())
    assert not different, f"seed {SEED}, {len(different)} of {len(calls)}:\n" + "\n".join(different[:20])


# Calls that were answered differently when each way had a parser of its own, and others about the messages of turns, which have
# requests of their own. All are refused.
REFUSED_CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("goals.list", (), {"status": "nonsense"}),
    ("approvals.list", (), {"state": "nonsense"}),
    ("jobs.list", (), {"state": "nonsense"}),
    ("todos.add", (5,), {}),
    ("todos.add", ("a",), {"position": 1.5}),
    ("todos.add", ("a",), {"depends_on": ["1"]}),
    ("todos.add", ("a",), {"conversation_id": -1}),
    ("todos.add", ("a" * 10_001,), {}),
    ("todos.add", ("a" * 1_048_577,), {}),
    ("todos.add", ("a",), {"labels": "home"}),
    ("todos.add", ("a",), {"labels": 5}),
    ("todos.add_many", ([5],), {}),
    ("todos.add_many", (["a" * 3_000] * 500,), {}),
    ("todos.add_many", ([{"subject": "a", "labels": [""] * 1_000}] * 40,), {}),
    ("todos.add", ("a" * 20_000,), {"position": 10**200}),
    ("todos.claim", ("ada",), {"lease_s": math.nan}),
    ("todos.list", (), {"status": "\ud800"}),
    ("webhooks.add", ("https://example.com/",), {"kinds": ["turn_finish"]}),
    ("goals.add", ("g",), {"priority": "high"}),
    ("goals.add", ("g" * 10_001,), {}),
    ("conversations.add", (), {"title": 5}),
    ("conversations.find", ([],), {}),
    ("ask", (5,), {}),
    ("ask", ("",), {}),
    ("ask", (" ",), {"conversation": "key"}),
    ("ask", ("a" * 200_001,), {}),
    ("ask", ("a" * 1_048_577,), {}),
    ("ask", ("\ud800",), {}),
    ("ask", ("a",), {"mode": "nonsense"}),
    ("ask", ("a",), {"mode": "nonsense", "conversation": "key"}),
    ("ask", ("a",), {"continues": 5}),
    ("ask", ("a",), {"attachments": [b"x"] * 11}),
    ("ask", ("a",), {"conversation": ""}),
    ("ask", ("a",), {"conversation": 1.5}),
    ("ask", ("a",), {"conversation": []}),
    ("turns.start", ("a",), {"conversation": True}),
    ("turns.start", ("a",), {"conversation": -1}),
    ("turns.start", ("a",), {"conversation": "k" * 201}),
]


def test_every_way_refuses_calls_with_the_same_sentence(served_sqlite: Service, sqlite_url: str, tmp_path: Path) -> None:
    ways = [
        build_embedded(sqlite_url, tmp_path / "home"),
        build_sync(sqlite_url, tmp_path / "home"),
        build_remote(served_sqlite),
        build_sync_remote(served_sqlite),
    ]

    async def collect_refusals(way: Variant) -> list[tuple[str, str]]:
        refusals = []
        async with way.open() as client:
            for name, given, named in REFUSED_CALLS:
                with pytest.raises(Invalid) as refusal:
                    await attrgetter(name)(client)(*given, **named)
                refusals.append((refusal.type.__name__, str(refusal.value)))
        return refusals

    embedded, *others = (asyncio.run(collect_refusals(way)) for way in ways)
    for other in others:
        assert other == embedded
