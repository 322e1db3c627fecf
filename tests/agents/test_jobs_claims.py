"""Engines that share a database: one engine runs each job, no family exceeds its limit, and lost processes lose no job."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.engine.engine import Engine
from headway.engine.polling import POLL_S, PRUNE_OWN_JOBS_AT
from headway.engine.runner import EngineLimits
from headway.ledger.errors import CommitUncertain, DatabaseUnreachable
from headway.ledger.job import Job
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.agents.timed_jobs import (
    TimedRun,
    build_engine,
    count_most_at_once,
    count_unfinished,
    enqueue,
    list_runs,
    run_until_empty,
)

SLOTS, PER_FAMILY = 8, 2
STAGGER_S = 40
ALONE, FAMILIES = 100, 5
PATIENCE_S = 60
SCRIPT = f"""
import runpy, sys
sys.argv = ["timed_jobs", sys.argv[1], "{SLOTS}", "{PER_FAMILY}"]
runpy.run_path({str(Path(__file__).with_name("timed_jobs.py"))!r}, run_name="__main__")
"""


@pytest.fixture
def ledger(database_url: str) -> Iterator[TenantHarness]:
    with DirectDatabase(database_url) as database:
        yield TenantHarness(database)
        database.write(lambda tx: tx.run("DROP TABLE IF EXISTS ran"))


@contextmanager
def open_database(url: str) -> Iterator[Database]:
    with closing(Database(url)) as database:
        yield database


def list_recorded_runs(desk: TenantHarness) -> list[TimedRun]:
    return desk.database.read(list_runs)


def run_with_timeout(scenario: "asyncio.Future[None] | object") -> None:
    async def wait() -> None:
        await asyncio.wait_for(scenario, PATIENCE_S)  # type: ignore[arg-type]

    asyncio.run(wait())


def list_running_owners(desk: TenantHarness) -> list[str]:
    return [str(owner) for (owner,) in desk.database.read(lambda tx: tx.all("SELECT owner FROM jobs WHERE state = 'running'"))]


def test_four_processes_work_two_hundred_jobs_off_each_once_and_within_the_limits(
    ledger: TenantHarness, database_url: str, at_once: Callable[..., list[str]]
) -> None:
    families = [""] * ALONE + [f"family {place % FAMILIES}" for place in range(100)]
    random.Random(7).shuffle(families)
    ledger.write(enqueue, families)
    at_once(SCRIPT, database_url, processes=4)
    timed_runs = list_recorded_runs(ledger)
    assert Counter(run.job for run in timed_runs).most_common(1)[0][1] == 1
    assert len(timed_runs) == 200
    assert {job.state for job in ledger.read(job_store.list_job_page, None, 500)} == {"completed"}
    owners = {run.owner for run in timed_runs}
    assert len(owners) > 1
    for family in (f"family {place}" for place in range(FAMILIES)):
        assert 0 < count_most_at_once([run for run in timed_runs if run.family == family]) <= PER_FAMILY
    for owner in owners:
        assert count_most_at_once([run for run in timed_runs if run.owner == owner]) <= SLOTS


@pytest.mark.usefixtures("dispatch")
def test_families_taken_in_different_orders_never_wait_for_each_other_in_a_circle(quiet_postgres_url: str) -> None:
    """If two engines locked the families in different orders, they would deadlock, and one would be rolled back after a second."""

    async def scenario(databases: list[Database]) -> None:
        limits = EngineLimits(slots=16, per_family=50)
        engines = [build_engine(database, f"engine {n}", limits, partial(asyncio.sleep, 0)) for n, database in enumerate(databases)]
        await asyncio.gather(*map(run_until_empty, engines))

    chance = random.Random(7)
    with DirectDatabase(quiet_postgres_url) as database, ExitStack() as stack:
        databases = [stack.enter_context(open_database(quiet_postgres_url)) for _ in range(4)]
        desk = TenantHarness(database)
        desk.write(enqueue, [f"family {chance.randrange(12)}" for _ in range(300)])
        before = count_deadlocks(quiet_postgres_url)
        run_with_timeout(scenario(databases))
        assert len(list_recorded_runs(desk)) == 300
        database.write(lambda tx: tx.run("DROP TABLE ran"))
    assert count_deadlocks(quiet_postgres_url) == before


def count_deadlocks(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_stat_force_next_flush()")
        row = admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.usefixtures("honest_dispatch")
def test_the_longest_waiting_job_comes_first(ledger: TenantHarness, database_url: str) -> None:
    created = ledger.write(enqueue, [""] * 20)
    order = random.Random(7).sample(created, 20)

    def shuffle(tx: Transaction, _tenant_id: int) -> None:
        for place, job in enumerate(order):
            job_store.save_job(tx, job._replace(due_at=job.due_at - 1000 + place, state="delayed" if place % 2 else "queued"))

    ledger.write(shuffle)
    with open_database(database_url) as database:
        run_with_timeout(run_until_empty(build_engine(database, "one", EngineLimits(slots=1))))
    assert [run.job for run in list_recorded_runs(ledger)] == [job.id for job in order]


@pytest.mark.usefixtures("honest_dispatch")
def test_nothing_is_taken_before_it_is_due(ledger: TenantHarness, database_url: str) -> None:
    (job,) = ledger.write(enqueue, [""])
    due_at = job.due_at + 700
    ledger.write(lambda tx, _: job_store.save_job(tx, job._replace(state="delayed", due_at=due_at)))
    taken = list[Job]()

    async def look() -> None:
        taken.append(ledger.read(jobs.get_job, job.id))

    with open_database(database_url) as database:
        run_with_timeout(run_until_empty(build_engine(database, "one", during=look)))
    (running,) = taken
    assert running.updated_at >= due_at


@pytest.mark.usefixtures("dispatch")
def test_a_kind_that_only_a_newer_headway_knows_is_left_to_it(ledger: TenantHarness, database_url: str) -> None:
    async def scenario(engine: Engine) -> None:
        engine.start()
        await wait_until(lambda: len(list_recorded_runs(ledger)) == 3)
        await engine.stop()

    unknown_job = ledger.write(
        lambda tx, tenant_id: jobs.create_job(tx, tenant_id, "from the future", {})
    )  # it is first in the queue
    ledger.write(enqueue, [""] * 3)
    with open_database(database_url) as database:
        run_with_timeout(scenario(build_engine(database, "one", EngineLimits(slots=1))))
    assert ledger.read(jobs.get_job, unknown_job.id) == unknown_job


def test_jobs_of_a_dead_process_restart_spread_over_time(ledger: TenantHarness, database_url: str) -> None:
    for job in ledger.write(enqueue, [""] * 200):
        ledger.database.write(lambda tx, job=job: job_store.save_job(tx, job._replace(state="running", owner="no more")))  # type: ignore[misc]
    with open_database(database_url) as database:
        engine = build_engine(database, "one", EngineLimits(stagger_s=STAGGER_S))
        assert ledger.database.write(engine.takeover.recover) == 200
    rows = ledger.database.read(lambda tx: tx.all("SELECT due_at - updated_at FROM jobs WHERE state = 'queued' AND owner = ''"))
    delays = sorted(int(delay) for (delay,) in rows)
    assert len(delays) == 200
    assert 0 <= delays[0] <= delays[-1] < STAGGER_S * 1000
    quarters = Counter(delay * 4 // (STAGGER_S * 1000) for delay in delays)
    assert len(quarters) == 4  # the chance that a quarter stays empty is 1 in 10^24
    assert max(quarters.values()) < 150


@pytest.mark.usefixtures("dispatch")
def test_a_process_has_no_more_at_work_than_it_has_slots(ledger: TenantHarness, database_url: str) -> None:
    ledger.write(enqueue, [""] * 30)
    with open_database(database_url) as database:
        run_with_timeout(run_until_empty(build_engine(database, "one", EngineLimits(slots=3))))
    assert count_most_at_once(list_recorded_runs(ledger)) == 3


@pytest.mark.usefixtures("dispatch")
def test_a_full_family_does_not_block_others(ledger: TenantHarness, database_url: str) -> None:
    async def scenario(engine: Engine, gate: asyncio.Event) -> None:
        engine.start()
        await wait_until(lambda: len(list_running_owners(ledger)) == 2)
        ledger.write(enqueue, ["", "another family"])
        await wait_until(lambda: len(list_running_owners(ledger)) == 4)
        await asyncio.sleep(2 * POLL_S)
        assert len(list_running_owners(ledger)) == 4
        gate.set()
        await wait_until(lambda: ledger.database.read(count_unfinished) == 0)
        await engine.stop()

    gate = asyncio.Event()
    ledger.write(enqueue, ["full"] * 20)
    with open_database(database_url) as database:
        run_with_timeout(scenario(build_engine(database, "one", EngineLimits(per_family=2), gate.wait), gate))
    assert len(list_recorded_runs(ledger)) == 22


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("dispatch")
def test_nothing_is_taken_while_halted_and_everything_after(ledger: TenantHarness, database_url: str) -> None:
    async def scenario(engine: Engine) -> None:
        engine.start()
        await asyncio.sleep(3 * POLL_S)
        assert list_running_owners(ledger) == [] == list_recorded_runs(ledger)
        ledger.database.write(halts.unhalt)
        await wait_until(lambda: ledger.database.read(count_unfinished) == 0)
        await engine.stop()

    ledger.write(enqueue, [""] * 5)
    ledger.database.write(halts.halt)
    with open_database(database_url) as database:
        run_with_timeout(scenario(build_engine(database, "one")))
    assert len(list_recorded_runs(ledger)) == 5


def test_old_ended_jobs_are_deleted_in_batches_and_dead_ones_are_kept(ledger: TenantHarness) -> None:
    ledger.write(enqueue, [""] * (jobs.DELETE_BATCH + 10))
    ledger.database.write(lambda tx: tx.run("UPDATE jobs SET state = 'completed', updated_at = 0"))
    (dead, recent) = ledger.write(enqueue, ["", ""])
    ledger.database.write(lambda tx: job_store.save_job(tx, dead._replace(state="dead", updated_at=0)))
    ledger.database.write(lambda tx: job_store.save_job(tx, recent._replace(state="completed")))
    assert [ledger.database.write(jobs.delete_old) for _ in range(2)] == [True, False]
    assert {job.id for job in ledger.read(job_store.list_job_page, None, 500)} == {dead.id, recent.id}


@pytest.mark.usefixtures("dispatch")
def test_a_clean_stop_at_any_moment_leaves_no_job_with_the_stopped_process(ledger: TenantHarness, database_url: str) -> None:
    async def scenario(database: Database) -> None:
        chance = random.Random(7)
        for number in range(25):
            engine = build_engine(database, f"engine {number}", EngineLimits(slots=10), partial(asyncio.sleep, 60))
            engine.start()
            await asyncio.sleep(chance.random() * 0.02)
            await engine.stop()
            assert list_running_owners(ledger) == [], number
            assert ledger.count("jobs") == 40

    ledger.write(enqueue, [""] * 40)
    with open_database(database_url) as database:
        run_with_timeout(scenario(database))
    assert ledger.database.read(lambda tx: tx.all("SELECT * FROM worker_leases")) == []
    assert [kind for kind, _ in ledger.events()] == []


@pytest.mark.usefixtures("dispatch")
def test_a_process_that_was_silent_for_too_long_does_not_take_over_its_own_jobs(ledger: TenantHarness, database_url: str) -> None:
    """For example, a laptop wakes from sleep and the lease of its process has expired."""

    async def scenario(engine: Engine, gate: asyncio.Event) -> None:
        engine.start()
        await wait_until(lambda: len(engine.tasks) == 3)
        ledger.database.write(lambda tx: tx.run("UPDATE worker_leases SET beat_at = 0"))
        assert ledger.database.write(engine.takeover.recover) == 0
        gate.set()
        await wait_until(lambda: ledger.database.read(count_unfinished) == 0)
        await engine.stop()

    gate = asyncio.Event()
    ledger.write(enqueue, [""] * 3)
    with open_database(database_url) as database:
        run_with_timeout(scenario(build_engine(database, "one", EngineLimits(stagger_s=0), gate.wait), gate))
    assert len(list_recorded_runs(ledger)) == 3
    assert [kind for kind, _ in ledger.events()] == []


@pytest.mark.usefixtures("dispatch")
def test_a_job_owned_by_this_process_without_a_task_is_claimed_again(ledger: TenantHarness, database_url: str) -> None:
    """The engine claimed it in a commit whose result was lost."""

    async def scenario(engine: Engine, gate: asyncio.Event) -> None:
        engine.start()
        await wait_until(lambda: len(list_running_owners(ledger)) == 1)  # so the engine has recorded a heartbeat
        ledger.write(lambda tx, tenant_id: jobs.create_job(tx, tenant_id, "count", {}, owner=engine.owner))
        await wait_until(lambda: len(list_recorded_runs(ledger)) == 1)
        gate.set()
        await wait_until(lambda: ledger.database.read(count_unfinished) == 0)
        await engine.stop()

    gate, calls = asyncio.Event(), []

    async def block_first() -> None:
        calls.append(1)
        if len(calls) == 1:
            await gate.wait()

    ledger.write(enqueue, [""])
    with open_database(database_url) as database:
        run_with_timeout(scenario(build_engine(database, "one", during=block_first), gate))
    assert len(list_recorded_runs(ledger)) == 2


@pytest.mark.usefixtures("dispatch")
def test_a_database_that_is_away_for_a_moment_kills_no_job(ledger: TenantHarness, database_url: str) -> None:
    outages = iter([DatabaseUnreachable("away"), CommitUncertain()])

    async def during() -> None:
        for error in outages:
            raise error

    ledger.write(enqueue, [""])
    with open_database(database_url) as database:
        run_with_timeout(run_until_empty(build_engine(database, "one", during=during)))
    (job,) = ledger.read(job_store.list_job_page, None, 5)
    assert (job.state, job.attempts, job.errors) == ("completed", 0, "[]")


def test_a_process_that_runs_alone_forgets_ended_jobs(ledger: TenantHarness, database_url: str) -> None:
    """Otherwise the list of its own jobs would grow without limit in a long-running process."""
    (own,) = ledger.write(enqueue, [""])

    async def scenario(engine: Engine) -> None:
        engine.start(alone=True)
        for _ in range(20_000):
            engine.adopt(str(uuid4()))  # such jobs have ended long ago
        engine.adopt(own.id)
        await engine.ended(own.id)
        assert len(engine.own_jobs or ()) < PRUNE_OWN_JOBS_AT
        await engine.stop()

    with open_database(database_url) as database:
        run_with_timeout(scenario(build_engine(database, "one")))
    assert len(list_recorded_runs(ledger)) == 1
