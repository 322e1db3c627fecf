"""Slots are divided among tenants: the long jobs of one tenant never keep another tenant's job waiting."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from headway.actions.runs import jobs
from headway.engine.engine import Engine
from headway.engine.runner import EngineLimits, JobHandler
from headway.ledger.job import Job, choose_jobs
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Row, Transaction
from headway.testing import TenantHarness
from tests.agents.timed_jobs import KIND, fail_job
from tests.dispatch.local_dispatch import ChosenEngine

GREEDY_TURNS = 66
QUEUED = 300
PATIENCE_S = 60


class Desk:
    """Two tenants of one database. The jobs of the greedy one wait at a gate; the other one's end at once."""

    def __init__(self, database: DirectDatabase) -> None:
        self.greedy = TenantHarness(database, "greedy")
        self.modest = TenantHarness(database, "modest")
        self.gate = asyncio.Event()

    def enqueue(self, tenant: TenantHarness, count: int, owner: str = "") -> list[Job]:
        return tenant.write(
            lambda tx, tenant_id: [jobs.create_job(tx, tenant_id, KIND, {"place": place}, owner=owner) for place in range(count)]
        )

    def count(self, tenant: TenantHarness, state: str) -> int:
        rows = tenant.database.read(
            lambda tx: tx.all("SELECT id FROM jobs WHERE tenant_id = ? AND state = ?", tenant.tenant.id, state)
        )
        return len(rows)

    def build_engine(self, database: Database, owner: str, limits: EngineLimits) -> Engine:
        async def run(job: Job) -> None:
            if job.tenant_id == self.greedy.tenant.id:
                await self.gate.wait()
            await database.of(job.tenant_id).write(lambda tx: end(tx, job))

        return ChosenEngine(database, owner, {KIND: JobHandler(run, fail_job)}, limits)


def end(tx: Transaction, job: Job) -> None:
    locked = job_store.find_locked_job(tx, job.tenant_id, job.id)
    assert locked is not None
    jobs.complete_job(tx, locked)


@pytest.fixture
def desk(database_url: str) -> Iterator[Desk]:
    with DirectDatabase(database_url) as database:
        yield Desk(database)


def run_engines(
    desk: Desk, url: str, scenario: Callable[[list[Engine]], Awaitable[None]], limits: EngineLimits, count: int = 1
) -> None:
    async def run() -> None:
        with ExitStack() as stack:
            databases = [stack.enter_context(closing(Database(url))) for _ in range(count)]
            engines = [desk.build_engine(database, f"engine {place}", limits) for place, database in enumerate(databases)]
            async with asyncio.timeout(PATIENCE_S):
                await scenario(engines)
                desk.gate.set()
                for engine in engines:
                    await engine.stop()

    asyncio.run(run())


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("dispatch")
def test_sixty_six_slow_turns_of_one_tenant_do_not_delay_another(desk: Desk, database_url: str) -> None:
    """The greedy tenant holds all slots and more, and its queue is ahead of the other tenant's job."""

    async def scenario(engines: list[Engine]) -> None:
        (engine,) = engines
        for job in desk.enqueue(desk.greedy, GREEDY_TURNS, owner=engine.owner):
            engine.take(job)
        desk.enqueue(desk.greedy, QUEUED)
        desk.enqueue(desk.modest, 3)
        engine.start()
        await wait_until(lambda: desk.count(desk.modest, "completed") == 3)
        assert desk.count(desk.greedy, "completed") == 0
        assert desk.count(desk.greedy, "running") == GREEDY_TURNS

    run_engines(desk, database_url, scenario, EngineLimits())


@pytest.mark.usefixtures("dispatch")
def test_a_tenant_that_fills_every_process_does_not_delay_another(desk: Desk, database_url: str) -> None:
    async def scenario(engines: list[Engine]) -> None:
        desk.enqueue(desk.greedy, 40)
        for engine in engines:
            engine.start()
        await wait_until(lambda: desk.count(desk.greedy, "running") == 16)
        desk.enqueue(desk.modest, 3)
        await wait_until(lambda: desk.count(desk.modest, "completed") == 3)
        assert desk.count(desk.greedy, "running") == 16

    run_engines(desk, database_url, scenario, EngineLimits(slots=8), count=2)


@pytest.mark.usefixtures("dispatch")
def test_a_tenant_runs_no_more_jobs_than_its_quota_and_the_rest_wait(desk: Desk, database_url: str) -> None:
    async def scenario(engines: list[Engine]) -> None:
        (engine,) = engines
        for job in desk.enqueue(desk.greedy, 5, owner=engine.owner):
            engine.take(job)
        engine.start()
        await wait_until(lambda: desk.count(desk.greedy, "queued") == 3)
        assert engine.running[desk.greedy.tenant.id] == 2
        desk.gate.set()
        await wait_until(lambda: desk.count(desk.greedy, "completed") == 5)

    run_engines(desk, database_url, scenario, EngineLimits(per_tenant=2))


def build_job(tenant_id: int) -> Job:
    return Job("", tenant_id, KIND, "queued", "{}", "", 0, 1, "[]", "null", "", 0, 0, 0)


def list_tenants(due: list[int], running: dict[int, int], slots: int, per_tenant: int = 100) -> list[int]:
    return [job.tenant_id for job in choose_jobs(map(build_job, due), running, slots, per_tenant)]


def test_free_slots_are_handed_out_in_turn() -> None:
    assert list_tenants([1, 1, 1, 1, 2, 2, 3], {}, slots=6) == [1, 2, 3, 1, 2, 1]
    assert list_tenants([1, 1, 2, 2], {1: 2}, slots=6) == [2, 2, 1, 1]
    assert list_tenants([1, 1, 1], {}, slots=2) == [1, 1]
    assert list_tenants([1, 1, 1, 2], {1: 1}, slots=6, per_tenant=2) == [2, 1]


def test_a_process_that_is_full_runs_at_most_a_share_for_each_other_tenant() -> None:
    assert list_tenants([2] * 9, {1: 8}, slots=8) == [2] * 4
    assert list_tenants([3] * 9, {1: 8, 2: 4}, slots=8) == [3] * 2
    assert list_tenants([1], {1: 8}, slots=8) == []
    assert list_tenants([9, 10], dict.fromkeys(range(1, 9), 1), slots=8) == [], "each slot has its own tenant"


class ExplainingTransaction:
    """A transaction that returns query plans of SQLite instead of rows."""

    def __init__(self, tx: Transaction) -> None:
        self.now, self.drift = tx.now, tx.drift
        self.explain = tx.all
        self.steps: list[str] = []

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        self.steps += [str(row[-1]) for row in self.explain(f"EXPLAIN QUERY PLAN {sql}", *parameters)]
        return []


def test_the_next_job_of_each_tenant_is_found_through_an_index(sqlite_url: str) -> None:
    def explain(tx: Transaction) -> list[str]:
        explaining = ExplainingTransaction(tx)
        job_store.list_first_due(explaining, [KIND], 4, 0, 10)  # type: ignore[arg-type]
        return [step for step in explaining.steps if "jobs" in step]

    with DirectDatabase(sqlite_url) as database:
        steps = database.read(explain)
    assert [step.split(" INDEX ")[1] for step in steps] == [
        "jobs_due_of_tenant (tenant_id>?)",
        "jobs_due_of_tenant (tenant_id>?)",
        "jobs_due_of_tenant (tenant_id=? AND due_at<?)",
        "jobs_of_family (family=? AND state=?)",
    ]
