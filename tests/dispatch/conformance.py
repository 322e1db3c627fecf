"""What every adapter for an external engine must pass. One class plugs it in:

class TestRestate(DispatcherConformance):
    @asynccontextmanager
    async def open_dispatchers(self, folder: Path) -> AsyncIterator[Callable[[], Dispatcher]]:
        async with started_restate(folder) as server:
            yield lambda: RestateDispatcher(server, find_ports())  # one for each worker
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, ExitStack, closing
from pathlib import Path

import pytest

from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.engine.engine import Engine
from headway.engine.external import Dispatcher, DueJob
from headway.engine.runner import EngineLimits, JobHandler
from headway.ledger.job import Job
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.agents.timed_jobs import KIND, RAN, TimedRun, count_most_at_once, count_unfinished, fail_job, list_runs

PATIENCE_S = 90
HOUR_MS = 3_600_000


class Crew:
    """Workers on one database, each an engine with its own connections and dispatcher, and the jobs of one tenant."""

    def __init__(self, url: str, desk: TenantHarness, open_dispatcher: Callable[[], Dispatcher], stack: ExitStack) -> None:
        self.url, self.desk, self.open_dispatcher, self.stack = url, desk, open_dispatcher, stack
        self.engines: list[Engine] = []
        self.gate = asyncio.Event()  # jobs whose payload says so wait for it
        self.claimed_at: dict[str, int] = {}  # when each job was claimed last, by the clock of the ledger
        self.dispatcher = open_dispatcher()

    def start_worker(self, limits: EngineLimits | None = None) -> Engine:
        database = self.stack.enter_context(closing(Database(self.url)))
        owner = f"worker {len(self.engines)}"

        async def run(job: Job) -> None:
            began = time.monotonic_ns()
            self.claimed_at[job.id] = job.updated_at
            if json.loads(job.payload).get("waits"):
                await self.gate.wait()
            await database.of(job.tenant_id).write(lambda tx: end_run(tx, job, owner, began))

        engine = Engine(database, owner, {KIND: JobHandler(run, fail_job)}, limits)
        engine.start(self.open_dispatcher() if self.engines else self.dispatcher)
        self.engines.append(engine)
        return engine

    def enqueue(self, count: int = 1, family: str = "", **payload: object) -> list[str]:
        def create(tx: Transaction, tenant_id: int) -> list[Job]:
            return [jobs.create_job(tx, tenant_id, KIND, payload, family=family) for _ in range(count)]

        created = self.desk.write(create)
        for engine in self.engines:
            engine.nudge()
        return [job.id for job in created]

    def change(self, job_id: str, change: Callable[[Transaction, Job], object]) -> None:
        """Change a waiting job as an action would."""

        def find_and_change(tx: Transaction, tenant_id: int) -> None:
            change(tx, jobs.get_locked_job(tx, tenant_id, job_id))

        self.desk.write(find_and_change)
        for engine in self.engines:
            engine.nudge()

    def list_runs(self) -> list[TimedRun]:
        return self.desk.database.read(list_runs)

    def count_runs(self) -> Counter[str]:
        return Counter(run.job for run in self.list_runs())

    def get_state(self, job_id: str) -> str:
        return self.desk.read(jobs.get_job, job_id).state

    def count_running(self, owner: str) -> int:
        return len(self.desk.database.read(lambda tx: job_store.list_running_ids(tx, owner)))

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    async def until_done(self, job_ids: Iterable[str] | None = None) -> None:
        """Wait until these jobs are completed, or all jobs."""
        if job_ids is None:
            await self.until(lambda: self.desk.database.read(count_unfinished) == 0)
        else:
            left = set(job_ids)
            await self.until(lambda: all(self.get_state(job_id) == "completed" for job_id in left))

    async def stop(self) -> None:
        self.gate.set()
        for engine in self.engines:
            await engine.stop()


def end_run(tx: Transaction, job: Job, owner: str, began: int) -> None:
    """Record a run, and let the job wait again, as often as its payload says, or complete it."""
    locked = job_store.find_locked_job(tx, job.tenant_id, job.id)
    assert locked is not None
    assert (locked.state, locked.owner) == ("running", owner)
    tx.run("INSERT INTO ran VALUES (?, ?, ?, ?, ?)", job.id, job.family, owner, began, time.monotonic_ns())
    runs = sum(run.job == job.id for run in list_runs(tx))
    delays = json.loads(job.payload).get("delays_ms", [])
    if runs <= len(delays):
        jobs.delay(tx, locked, tx.now + delays[runs - 1])
    else:
        jobs.complete_job(tx, locked)


class DispatcherConformance:
    """Jobs are run when they are due, once, within the limits, and by another worker if theirs stops or is lost."""

    crew: type[Crew] = Crew

    def open_dispatchers(self, folder: Path) -> AbstractAsyncContextManager[Callable[[], Dispatcher]]:
        """Start the external engine, and yield a function that returns a dispatcher for one more worker."""
        raise NotImplementedError

    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url

    def run(self, url: str, folder: Path, scenario: Callable[[Crew], Awaitable[None]]) -> None:
        async def run_scenario(desk: TenantHarness) -> None:
            with ExitStack() as stack:
                async with asyncio.timeout(PATIENCE_S), self.open_dispatchers(folder) as open_dispatcher:
                    crew = self.crew(url, desk, open_dispatcher, stack)
                    try:
                        await scenario(crew)
                    finally:
                        await crew.stop()

        with DirectDatabase(url) as database:
            database.write(lambda tx: tx.run(RAN))
            try:
                asyncio.run(run_scenario(TenantHarness(database)))
            finally:
                database.write(lambda tx: tx.run("DROP TABLE ran"))

    def test_each_job_is_run_once_and_within_the_limits(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            limits = EngineLimits(slots=5, per_family=2)
            workers = [crew.start_worker(limits) for _ in range(2)]
            job_ids = [*crew.enqueue(20), *crew.enqueue(8, "one"), *crew.enqueue(8, "two")]
            await crew.until_done()
            runs = crew.list_runs()
            assert crew.count_runs() == dict.fromkeys(job_ids, 1)
            for family in ("one", "two"):
                assert count_most_at_once([run for run in runs if run.family == family]) <= 2
            for worker in workers:
                assert count_most_at_once([run for run in runs if run.owner == worker.owner]) <= 5

        self.run(url, tmp_path, scenario)

    def test_a_job_is_run_when_it_is_due_and_not_before(self, url: str, tmp_path: Path) -> None:
        due_at = 0

        def delay_briefly(tx: Transaction, job: Job) -> None:
            nonlocal due_at
            due_at = tx.now + 500
            jobs.delay(tx, job, due_at)

        async def scenario(crew: Crew) -> None:
            (soon, woken, canceled) = waiting = crew.enqueue(3)
            for job_id in waiting:
                crew.change(job_id, lambda tx, job: jobs.delay(tx, job, tx.now + HOUR_MS))
            crew.start_worker()
            await crew.until(lambda: find_announced(crew) >= {*waiting})
            crew.change(canceled, lambda tx, job: jobs.move(tx, job, "canceled"))
            crew.change(woken, jobs.requeue)
            crew.change(soon, delay_briefly)
            await crew.until_done([soon, woken])
            assert crew.count_runs() == {soon: 1, woken: 1}
            assert crew.claimed_at[soon] >= due_at

        self.run(url, tmp_path, scenario)

    def test_a_job_that_waits_again_is_run_again(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            crew.start_worker()
            job_ids = crew.enqueue(3, delays_ms=[0, 100, 0])
            await crew.until_done()
            assert crew.count_runs() == dict.fromkeys(job_ids, 4)

        self.run(url, tmp_path, scenario)

    def test_announcements_that_are_wrong_or_repeated_do_nothing(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            (late,) = crew.enqueue()
            crew.change(late, lambda tx, job: jobs.delay(tx, job, tx.now + HOUR_MS))
            crew.start_worker()
            (first,) = crew.enqueue()
            await crew.until_done([first])
            before = crew.desk.read(jobs.get_job, late)
            wrong = [first, late, "no-such-job", "x" * 300]
            await crew.dispatcher.announce([DueJob(job_id, 0, f"{job_id[:40]}:{n}") for job_id in wrong for n in range(3)])
            job_ids = crew.enqueue(5)
            await crew.until_done(job_ids)
            assert crew.count_runs() == dict.fromkeys([first, *job_ids], 1)
            assert crew.desk.read(jobs.get_job, late) == before

        self.run(url, tmp_path, scenario)

    def test_a_worker_that_stops_hands_its_jobs_to_another(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            stopped = crew.start_worker()
            job_ids = crew.enqueue(4, waits=True)
            await crew.until(lambda: crew.count_running(stopped.owner) == 4)
            other = crew.start_worker()
            crew.engines.remove(stopped)
            await stopped.stop()
            await crew.until(lambda: crew.count_running(other.owner) == 4)
            crew.gate.set()
            await crew.until_done()
            assert {(run.job, run.owner) for run in crew.list_runs()} == {(job_id, other.owner) for job_id in job_ids}
            assert crew.count_runs() == dict.fromkeys(job_ids, 1)

        self.run(url, tmp_path, scenario)

    def test_the_jobs_of_a_lost_worker_are_taken_over(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            lost = crew.start_worker()
            job_ids = crew.enqueue(4, waits=True)
            await crew.until(lambda: crew.count_running(lost.owner) == 4)
            crew.engines.remove(lost)
            for task in (*lost.background, *lost.tasks.values()):  # as if it were killed: its rows stay as they are
                task.cancel()
            await asyncio.gather(*lost.background, *lost.tasks.values(), return_exceptions=True)
            crew.desk.database.write(lambda tx: tx.run("UPDATE worker_leases SET beat_at = 0"))
            other = crew.start_worker(EngineLimits(stagger_s=0))
            await crew.until(lambda: crew.count_running(other.owner) == 4)
            crew.gate.set()
            await crew.until_done()
            assert crew.count_runs() == dict.fromkeys(job_ids, 1)

        self.run(url, tmp_path, scenario)

    @pytest.mark.torture
    def test_jobs_that_a_full_worker_was_given_are_run_by_another(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            full = crew.start_worker(EngineLimits(slots=1, per_tenant=1))
            blocking = crew.enqueue(1, waits=True)
            await crew.until(lambda: crew.count_running(full.owner) == 1)
            job_ids = crew.enqueue(3)
            other = crew.start_worker()
            await crew.until_done(job_ids)
            assert {(run.job, run.owner) for run in crew.list_runs()} == {(job_id, other.owner) for job_id in job_ids}
            crew.gate.set()
            await crew.until_done(blocking)

        self.run(url, tmp_path, scenario)

    def test_nothing_is_run_while_halted_and_everything_after(self, url: str, tmp_path: Path) -> None:
        async def scenario(crew: Crew) -> None:
            crew.start_worker()
            (first,) = crew.enqueue()
            await crew.until_done([first])
            crew.desk.database.write(halts.halt)
            job_ids = crew.enqueue(3)
            await crew.dispatcher.announce([DueJob(job_id, 0, job_id) for job_id in job_ids])
            assert crew.count_runs() == {first: 1}
            crew.desk.database.write(halts.unhalt)
            await crew.until_done()
            assert crew.count_runs() == dict.fromkeys([first, *job_ids], 1)

        self.run(url, tmp_path, scenario)


def find_announced(crew: Crew) -> set[str]:
    """The ids of the waiting jobs that were announced."""
    rows = crew.desk.database.read(lambda tx: tx.all("SELECT id FROM jobs WHERE announce_at <> 0"))
    return {str(job_id) for (job_id,) in rows}
