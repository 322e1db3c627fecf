"""Odd calls get the same answer from a Headway in the program and from a server. They are made from the table of operations."""

import asyncio
import math
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import TypeAdapter

from headway import Client, HeadwayError, Invalid
from headway.actions.access.rights import NEEDED_SCOPES
from headway.operations.operation import Operation
from headway.operations.tables import list_tables
from tests.library.contract import build_embedded, build_remote
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


# Calls that were answered differently when each had a parser of its own.
@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_values_of_the_wrong_kind_are_refused(kind: str, served_sqlite: Service, sqlite_url: str, tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        untyped: Any = client
        for refused in (
            untyped.goals.list(status="nonsense"),
            untyped.approvals.list(state="nonsense"),
            untyped.jobs.list(state="nonsense"),
            untyped.todos.add(5),
            untyped.todos.add("a", position=1.5),
            untyped.todos.add("a", depends_on=["1"]),
            untyped.todos.add("a", conversation_id=-1),
            untyped.todos.claim("ada", lease_s=math.nan),
            untyped.goals.add("g", priority="high"),
            untyped.conversations.add(title=5),
            untyped.todos.add("a" * 10_001),
            untyped.todos.list(status="\ud800"),
        ):
            with pytest.raises(Invalid):
                await refused

    variant = build_embedded(sqlite_url, tmp_path / "home") if kind == "embedded" else build_remote(served_sqlite)
    variant.run(scenario)
