"""Limits on checks: what validating a JSON Schema may cost, and how many checks run at once."""

import asyncio
import threading
from pathlib import Path

import httpx
import pytest

from headway.agents.checks.runner import WORK_LIMIT, CheckSlots, find_mismatch
from headway.ledger.errors import Invalid
from tests.surfaces.in_process_app import open_app

CONSTANTS = {"anyOf": [{"const": f"number {n}"} for n in range(300)]}
SLOW_SCHEMA = {"items": CONSTANTS}
SLOW_VALUE = ["number 299"] * 1_500  # takes seconds
FROZEN = {"anyOf": [{"const": n} for n in range(599)]}


def test_large_work_has_the_same_result_as_small_work() -> None:
    assert find_mismatch(["number 1"] * 20, SLOW_SCHEMA) == ""
    assert find_mismatch(["number 1", "two"], SLOW_SCHEMA) == "[1]: 'two' is not valid under any of the given schemas"
    with pytest.raises(Invalid, match=r"uses \$ref, which checks do not support"):
        find_mismatch("x" * 1_000, {"anyOf": [CONSTANTS, {"$ref": "#"}]})


def test_work_that_takes_too_long_is_ended() -> None:
    with pytest.raises(Invalid, match=r"took longer than 0\.1 seconds"):
        find_mismatch(SLOW_VALUE, SLOW_SCHEMA, limit_s=0.1)


def test_work_is_interrupted_with_its_caller() -> None:
    canceled = threading.Event()
    canceled.set()
    with pytest.raises(Invalid, match="interrupted"):
        find_mismatch(SLOW_VALUE, SLOW_SCHEMA, canceled)


@pytest.mark.parametrize(
    ("value", "schema", "reason"),
    [
        ("x", {"pattern": "(?=x)"}, "pattern is not valid"),
        (float("inf"), {"multipleOf": 0.5}, "a number that is too large"),
        ("x", {"multipleOf": 0}, "multipleOf must be larger than 0"),
    ],
)
def test_what_cannot_be_computed_is_refused(value: object, schema: dict[str, object], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        find_mismatch(value, schema)


def test_a_pattern_is_never_compiled_by_python() -> None:
    """It would take a second for these ranges without regard to case, and cannot count so far."""
    assert find_mismatch("x", {"pattern": f"a{{{'9' * 30}}}"})
    assert not find_mismatch("x", {"pattern": "(?i)^[\0-\U0010ffff]$"})


def test_too_much_work_is_refused_at_once() -> None:
    with pytest.raises(Invalid, match="Check a smaller part"):
        find_mismatch("x" * (WORK_LIMIT // 1_000), CONSTANTS)


def test_a_schema_that_multiplies_the_work_is_refused_when_it_is_written(tmp_path: Path) -> None:
    async def add() -> None:
        async with open_app(tmp_path) as app:
            check = {"kind": "outcome", "schema": FROZEN}
            answer = await app.client.post("/v1/todos", json={"subject": "x", "checks": [check]})
            assert answer.status_code == 422
            assert "may have at most 1,000 keywords and values" in answer.json()["detail"]

    asyncio.run(add())


def test_other_requests_are_answered_while_schemas_are_validated(tmp_path: Path) -> None:
    """40 completions, each of which takes seconds, do not delay a request, and end when the server stops."""

    async def run() -> list[httpx.Response]:
        async with open_app(tmp_path) as app:
            check = {"kind": "outcome", "schema": SLOW_SCHEMA}
            todos = [await app.client.post("/v1/todos", json={"subject": "x", "checks": [check]}) for _ in range(40)]
            body = {"status": "completed", "outcome": str(SLOW_VALUE).replace("'", '"')}
            paths = [f"/v1/todos/{todo.json()['todo']['id']}" for todo in todos]
            slow = [asyncio.create_task(app.client.patch(path, json=body)) for path in paths]
            assert (await app.client.get("/v1/todos")).status_code == 200
            assert not all(task.done() for task in slow)  # most of them wait for a slot
            app.app.state.headway.feed.close()  # as when the server stops
            return await asyncio.gather(*slow)

    answers = asyncio.run(run())
    assert 503 in {answer.status_code for answer in answers}


# Slots


async def hold(slots: CheckSlots, tenant_id: int, log: list[int], end: asyncio.Event) -> None:
    async with slots.take(tenant_id):
        log.append(tenant_id)
        await end.wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_tenant_has_few_slots_and_the_process_has_a_limit() -> None:
    async def run() -> None:
        slots, log, end = CheckSlots(5, 2), list[int](), asyncio.Event()
        tasks = [asyncio.create_task(hold(slots, tenant_id, log, end)) for tenant_id in (1, 1, 1, 1, 2, 3, 3, 3)]
        await settle()
        assert log == [1, 1, 2, 3, 3]
        end.set()
        await asyncio.gather(*tasks)
        assert sorted(log) == [1, 1, 1, 1, 2, 3, 3, 3]
        assert (slots.running, slots.queues) == ({}, {})

    asyncio.run(run())


def test_tenants_take_turns() -> None:
    async def run() -> None:
        slots, log, end = CheckSlots(1, 1), list[int](), asyncio.Event()
        end.set()
        await asyncio.gather(*(hold(slots, tenant_id, log, end) for tenant_id in (1, 1, 1, 2, 2)))
        assert log == [1, 1, 2, 1, 2]

    asyncio.run(run())


def test_one_that_gives_up_leaves_the_queue() -> None:
    async def run() -> None:
        slots, log, end = CheckSlots(1, 1), list[int](), asyncio.Event()
        first, second, third = (asyncio.create_task(hold(slots, tenant_id, log, end)) for tenant_id in (1, 2, 3))
        await settle()
        second.cancel()
        await settle()
        end.set()
        await asyncio.gather(first, third)
        assert (log, slots.running, slots.queues) == ([1, 3], {}, {})

    asyncio.run(run())
