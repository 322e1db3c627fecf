"""The engine compared with other job runners: DBOS and procrastinate, on the same server and in the same run.

The jobs do nothing, so the overhead around them is measured. Each side is started, warmed up, measured and stopped before the other
side starts, so that neither one's polling disturbs the other. The scripts of the references describe their setup.

For jobs per second, all jobs are enqueued before work starts. Only DBOS works from the start, because it is faster that way.
Enqueuing and working are timed together. The references' clocks stop when the last job has run, ours when it is recorded as
completed.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import NamedTuple
from uuid import uuid4

import psycopg

from bench.harness import Measurements, Pace, Workshop, at_least, at_most, benchmark, in_turns, progress
from bench.peer import DBOS, PROCRASTINATE, Peer
from bench.peers.queueing import BATCH, CONCURRENCY, JOBS, KIND, PATIENCE_S, idle_s
from bench.postgres import new_database, new_tenant, server_url
from headway.actions.runs import jobs
from headway.engine.engine import Engine
from headway.engine.external import Dispatcher
from headway.engine.runner import EngineLimits, JobHandler
from headway.ledger.job import Job
from headway.storage.database import Database
from headway.storage.direct import is_sqlite
from headway.storage.stores import jobs as job_store
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction

ROUNDS = 5
BATCHES = 5  # batches of samples of how long a single job waits: 50 samples
WORKLOAD = "500 jobs that do nothing, enqueued by 16 callers in a commit each, then run by one process, 16 at once"
POLLED = "DBOS, a queue polled every 0.1 s"
LISTENING = "procrastinate, LISTEN/NOTIFY"
Enqueue = Callable[[], Awaitable[object]]


def bury(tx: Transaction, job: Job, error: str) -> None:
    jobs.fail_permanently(tx, job, error)


class Ours:
    def __init__(self, shop: Workshop, url: str, dispatcher: Dispatcher | None = None) -> None:
        self.dispatcher = dispatcher  # None: the built-in one
        self.runner = asyncio.Runner()
        shop.cleanup.callback(self.runner.close)
        self.starts: asyncio.Queue[float] = asyncio.Queue()
        self.done: asyncio.Queue[None] = asyncio.Queue()
        self.url = url
        self.tenant_id = new_tenant(url)
        self.whole_database = Database(url)
        self.database = self.whole_database.of(self.tenant_id)
        shop.cleanup.callback(self.whole_database.close)

    def jobs_a_second(self) -> float:
        return self.runner.run(self._jobs_a_second())

    async def _jobs_a_second(self) -> float:
        async with self.open():
            async with self.working():
                await self.warm_up()
            rest = iter(range(JOBS))

            async def caller() -> None:
                for _ in rest:
                    await self.enqueue()

            start = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(CONCURRENCY)))
            async with self.working():
                for _ in range(JOBS):
                    await self.done.get()
                return JOBS / (time.perf_counter() - start)

    def waits(self, enqueue: Enqueue | None = None) -> list[float]:
        """Return the milliseconds that single jobs wait on an idle engine."""
        return self.runner.run(self._waits(enqueue or self.enqueue))

    async def _waits(self, enqueue: Enqueue) -> list[float]:
        async with self.open(), self.working():
            await self.warm_up()
            return [await self.wait(enqueue) for _ in range(BATCH)]

    async def wait(self, enqueue: Enqueue) -> float:
        await asyncio.sleep(idle_s())
        start = time.perf_counter()
        await enqueue()
        started = await self.starts.get()
        await self.done.get()
        return (started - start) * 1000

    async def warm_up(self) -> None:
        for _ in range(3):
            await self.enqueue()
            await self.done.get()
        self.starts, self.done = asyncio.Queue(), asyncio.Queue()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Prepare a round, and check at its end that every job has been completed."""
        tidy(self.url)
        async with asyncio.timeout(PATIENCE_S):
            yield
        for state in ("queued", "delayed", "running", "dead"):
            unfinished = await self.database.read(
                partial(job_store.list_job_page, tenant_id=self.tenant_id, state=state, limit=JOBS)
            )
            assert not unfinished, f"{len(unfinished)} jobs are {state}"

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        handler = JobHandler(self.work, bury)
        self.engine = Engine(self.whole_database, f"bench:{uuid4()}", {KIND: handler}, EngineLimits(slots=CONCURRENCY))
        self.engine.start(self.dispatcher)
        try:
            yield
        finally:
            await self.engine.stop()

    async def work(self, job: Job) -> None:
        self.starts.put_nowait(time.perf_counter())
        try:
            await self.database.write(partial(self.complete, job=job))
        finally:  # the engine's heartbeat may find the job completed just after the commit, and cancel this task
            self.done.put_nowait(None)

    def complete(self, tx: Transaction, job: Job) -> None:
        locked = jobs.get_locked_job(tx, job.tenant_id, job.id)
        assert locked.state == "running"
        assert locked.owner == self.engine.owner
        jobs.complete_job(tx, locked)

    async def enqueue(self) -> None:
        await self.enqueue_elsewhere()
        self.engine.nudge()

    async def enqueue_elsewhere(self) -> None:
        """Enqueue a job as another process does: without waking this engine."""
        await self.database.write(partial(jobs.create_job, tenant_id=self.tenant_id, kind=KIND, payload={}))

    async def begin(self) -> None:
        """Start a job as interactive turns do: owned by this engine from the start, bypassing the queue."""
        self.engine.take(await self.database.write(self.begin_owned))

    def begin_owned(self, tx: Transaction) -> Job:
        worker_leases.record_heartbeat(tx, self.engine.owner)
        return jobs.create_job(tx, self.tenant_id, KIND, {}, owner=self.engine.owner)

    def direct(self) -> float:
        return median(self.waits(self.begin))


class Theirs:
    """A peer with its own database."""

    def __init__(self, peer: Peer, url: str) -> None:
        self.peer = peer
        self.url = url

    def jobs_a_second(self) -> float:
        tidy(self.url)
        return float(self.peer.ask("jobs_a_second", url=self.url))

    def waits(self) -> list[float]:
        tidy(self.url)
        return [float(wait) for wait in self.peer.ask("waits", url=self.url)]

    def direct(self) -> float:
        tidy(self.url)
        return float(median(self.peer.ask("direct", url=self.url)))


def own_database(shop: Workshop) -> str:
    """Create an empty database on this run's server. It is dropped at the end."""
    url = new_database(shop)
    shop.cleanup.callback(drop, shop.once(server_url), url.partition("?")[0].rpartition("/")[2])
    return url


def tidy(url: str) -> None:
    """Run the vacuum that Postgres runs once a minute, so that no side's tables are in better shape by chance."""
    if not is_sqlite(url):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


def drop(server: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())


def ours_on_postgres(shop: Workshop) -> Ours:
    return Ours(shop, own_database(shop))


def dbos_on_postgres(shop: Workshop) -> Theirs:
    return Theirs(shop.once(DBOS), own_database(shop))


def procrastinate_on_postgres(shop: Workshop) -> Theirs:
    theirs = Theirs(shop.once(PROCRASTINATE), own_database(shop))
    theirs.peer.ask("prepare", url=theirs.url)
    return theirs


# Jobs per second


@benchmark("engine.jobs.dbos", f"Postgres: {WORKLOAD}", POLLED, at_least(1.0))
def jobs_beside_dbos(shop: Workshop) -> Measurements:
    theirs, ours = shop.once(dbos_on_postgres), shop.once(ours_on_postgres)
    return in_turns(ours.jobs_a_second, theirs.jobs_a_second, ROUNDS)


@benchmark("engine.jobs.procrastinate", f"Postgres: {WORKLOAD}", LISTENING, at_least(1.0))
def jobs_beside_procrastinate(shop: Workshop) -> Measurements:
    theirs, ours = shop.once(procrastinate_on_postgres), shop.once(ours_on_postgres)
    return in_turns(ours.jobs_a_second, theirs.jobs_a_second, ROUNDS)


@benchmark("engine.jobs.sqlite", f"SQLite: {WORKLOAD}", "DBOS on SQLite with WAL, a queue polled every 0.1 s", at_least(1.0))
def jobs_on_sqlite(shop: Workshop) -> Measurements:
    theirs = Theirs(shop.once(DBOS), f"sqlite:///{shop.folder / 'dbos.db'}")
    ours = Ours(shop, f"sqlite:///{shop.folder / 'engine.db'}")
    return in_turns(ours.jobs_a_second, theirs.jobs_a_second, ROUNDS)


# How long a single job waits on an idle engine


class Waits(NamedTuple):
    """Milliseconds, in alternating batches."""

    ours: list[list[float]]
    reference: list[list[float]]

    @property
    def p50(self) -> Measurements:
        return Measurements([median(batch) for batch in self.ours], [median(batch) for batch in self.reference], "ms")

    @property
    def p99(self) -> Measurements:
        return Measurements([p99(self.ours)], [p99(self.reference)], "ms")


def p99(batches: list[list[float]]) -> float:
    waits = sorted(wait for batch in batches for wait in batch)
    return waits[int(len(waits) * 0.99)]


def waits_in_turns(ours: Callable[[], list[float]], reference: Callable[[], list[float]]) -> Waits:
    waits = Waits([], [])
    for number in range(Pace.rounds(BATCHES)):
        progress(f"batch {number + 1} of {BATCHES}")
        waits.ours.append(ours())
        waits.reference.append(reference())
    return waits


def waits_beside_dbos(shop: Workshop) -> Waits:
    theirs, ours = shop.once(dbos_on_postgres), shop.once(ours_on_postgres)
    return waits_in_turns(ours.waits, theirs.waits)


def waits_beside_procrastinate(shop: Workshop) -> Waits:
    theirs, ours = shop.once(procrastinate_on_postgres), shop.once(ours_on_postgres)
    return waits_in_turns(ours.waits, theirs.waits)


SINGLE = "Postgres: enqueue → start of a single job on an idle engine"
SLOWEST = "p99 of 50, that is the slowest"


@benchmark("engine.start.p50.dbos", f"{SINGLE}, p50", POLLED, at_most(1.0))
def median_beside_dbos(shop: Workshop) -> Measurements:
    return shop.once(waits_beside_dbos).p50


@benchmark("engine.start.p99.dbos", f"{SINGLE}, {SLOWEST}", POLLED, at_most(1.0))
def slowest_beside_dbos(shop: Workshop) -> Measurements:
    return shop.once(waits_beside_dbos).p99


@benchmark("engine.start.p50.procrastinate", f"{SINGLE}, p50", LISTENING, at_most(1.0))
def median_beside_procrastinate(shop: Workshop) -> Measurements:
    return shop.once(waits_beside_procrastinate).p50


@benchmark("engine.start.p99.procrastinate", f"{SINGLE}, {SLOWEST}", LISTENING, at_most(1.0))
def slowest_beside_procrastinate(shop: Workshop) -> Measurements:
    return shop.once(waits_beside_procrastinate).p99


@benchmark("engine.start.elsewhere", f"{SINGLE}, enqueued by another process that does not announce it, p50", LISTENING, None)
def median_from_elsewhere(shop: Workshop) -> Measurements:
    theirs, ours = shop.once(procrastinate_on_postgres), shop.once(ours_on_postgres)
    return waits_in_turns(partial(ours.waits, ours.enqueue_elsewhere), theirs.waits).p50


@benchmark(
    "engine.direct", "Postgres: begin → start of a job that we own from the start, p50", "DBOS' start_workflow", at_most(1.0)
)
def direct(shop: Workshop) -> Measurements:
    theirs, ours = shop.once(dbos_on_postgres), shop.once(ours_on_postgres)
    return in_turns(ours.direct, theirs.direct, BATCHES, unit="ms")
