"""The engine room beside what others run jobs with: DBOS and procrastinate, on the same server, in the same run.

A job does nothing here; what is measured is everything around it. Each side runs in this process, one at a time: it is started,
warmed up, measured, and stopped before the other's turn comes, so that nobody's polling disturbs anybody. The references are set
up as their manuals would have them for speed:

- DBOS takes all that is queued at every poll (0.1 s) and works on it in 16 threads. A limit of 16 on its queue would make that
  160 jobs a second at most. JSON instead of pickle; on SQLite WAL, which it does not set by itself, and FULL, its default.
- procrastinate works on 16 at once, hears of new jobs by LISTEN/NOTIFY, and has a connection for each.

When jobs a second are counted, all are enqueued before anybody begins to work; only DBOS works from the start, because that is
how it is quicker. The time is that of both. Their clocks stop when the last job has run, ours when it is recorded as completed.
"""

import asyncio
import logging
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from statistics import median
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg

from bench.harness import Measurements, Unavailable, Workshop, at_least, at_most, benchmark, in_turns, progress
from bench.http import stop
from bench.postgres import new_database, new_tenant, server_url
from headway import settings
from headway.actions import conversations, jobs, tenants, turns
from headway.engine import Engine, EngineLimits, Handler
from headway.ledger.job import Job
from headway.storage import job_store
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase, is_sqlite
from headway.storage.transaction import Transaction

JOBS = 500
CONCURRENCY = 16
ROUNDS = 5
BATCHES, BATCH = 5, 10  # samples of how long a single job waits: 50
POLL_S = 0.1
PATIENCE_S = 60.0
KIND = "nothing"
WORKLOAD = "500 jobs that do nothing, enqueued by 16 callers in a commit each, then worked off by one process, 16 at once"
INSTALL = "pip install 'headway[bench]'"
Enqueue = Callable[[], Awaitable[object]]


# Sides. Each tells how many jobs a second it does, and how many milliseconds single jobs wait on an idle engine.


class LoopSide:
    """What the two have in common that live on an event loop."""

    def __init__(self, shop: Workshop) -> None:
        self.runner = asyncio.Runner()
        shop.closing.callback(self.runner.close)
        self.begun: asyncio.Queue[float] = asyncio.Queue()
        self.done: asyncio.Queue[None] = asyncio.Queue()

    def open(self) -> AbstractAsyncContextManager[object]:
        """Jobs can be enqueued; in the end all must have been worked off."""
        raise NotImplementedError

    def working(self) -> AbstractAsyncContextManager[object]:
        """And are worked on."""
        raise NotImplementedError

    async def enqueue(self) -> None:
        raise NotImplementedError

    def jobs_a_second(self) -> float:
        return self.runner.run(self._jobs_a_second())

    def waits(self, enqueue: Enqueue | None = None) -> list[float]:
        return self.runner.run(self._waits(enqueue or self.enqueue))

    async def _jobs_a_second(self) -> float:
        async with self.open(), asyncio.timeout(PATIENCE_S):
            async with self.working():
                await self._warm_up()
            rest = iter(range(JOBS))

            async def caller() -> None:
                for _ in rest:
                    await self.enqueue()

            began = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(CONCURRENCY)))
            async with self.working():
                for _ in range(JOBS):
                    await self.done.get()
                return JOBS / (time.perf_counter() - began)

    async def _waits(self, enqueue: Enqueue) -> list[float]:
        async with self.open(), asyncio.timeout(PATIENCE_S), self.working():
            await self._warm_up()
            return [await self._wait(enqueue) for _ in range(BATCH)]

    async def _wait(self, enqueue: Enqueue) -> float:
        await asyncio.sleep(idle_s())
        began = time.perf_counter()
        await enqueue()
        started = await self.begun.get()
        await self.done.get()
        return (started - began) * 1000

    async def _warm_up(self) -> None:
        for _ in range(3):
            await self.enqueue()
            await self.done.get()
        self.begun, self.done = asyncio.Queue(), asyncio.Queue()


def idle_s() -> float:
    """For how long an engine is left alone before the next sample: in no step with anybody's polling."""
    return random.uniform(0.02, 0.27)


def bury(tx: Transaction, job: Job, error: str) -> None:
    jobs.die(tx, job, error)


class Ours(LoopSide):
    def __init__(self, shop: Workshop, url: str) -> None:
        super().__init__(shop)
        self.url = url
        self.tenant_id = new_tenant(url)
        self.database = Database(url)
        shop.closing.callback(self.database.close)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        tidy(self.url)
        yield
        for state in ("queued", "delayed", "running", "dead"):
            left = await self.database.read(partial(job_store.page, tenant_id=self.tenant_id, state=state, limit=JOBS))
            assert not left, f"{len(left)} jobs are {state}"

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        handler = Handler(self.work, bury)
        self.engine = Engine(self.database, f"bench:{uuid4()}", {KIND: handler}, EngineLimits(slots=CONCURRENCY))
        self.engine.start()
        try:
            yield
        finally:
            await self.engine.stop()

    async def work(self, job: Job) -> None:
        self.begun.put_nowait(time.perf_counter())
        try:
            await self.database.write(partial(self.complete, job=job))
        finally:  # the engine's heart may beat just after the commit, find the job ended, and end this, too
            self.done.put_nowait(None)

    def complete(self, tx: Transaction, job: Job) -> None:
        held = jobs.locked(tx, job.tenant_id, job.id)
        assert held.state == "running"
        assert held.owner == self.engine.owner
        jobs.complete(tx, held)

    async def enqueue(self) -> None:
        await self.enqueue_elsewhere()
        self.engine.nudge()

    async def enqueue_elsewhere(self) -> None:
        """As another process does it: nobody rings here."""
        await self.database.write(partial(jobs.new, tenant_id=self.tenant_id, kind=KIND, payload={}))

    async def begin(self) -> None:
        """As interactive turns begin: ours from the start, past the queue."""
        self.engine.take(await self.database.write(self.begin_owned))

    def begin_owned(self, tx: Transaction) -> Job:
        job_store.beat(tx, self.engine.owner)
        return jobs.new(tx, self.tenant_id, KIND, {}, owner=self.engine.owner)

    def direct(self) -> float:
        return median(self.waits(self.begin))


class Procrastinate(LoopSide):
    def __init__(self, shop: Workshop, url: str) -> None:
        super().__init__(shop)
        try:
            import procrastinate
        except ImportError:
            raise Unavailable(INSTALL) from None
        self.library = procrastinate
        self.url = url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(procrastinate.schema.SchemaManager.get_schema().encode())

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        tidy(self.url)
        connector = self.library.PsycopgConnector(conninfo=self.url, min_size=CONCURRENCY, max_size=CONCURRENCY)
        self.app = self.library.App(connector=connector)
        self.task = self.app.task(name=KIND)(self.nothing)
        async with self.app.open_async():
            yield
            for state in ("todo", "doing", "failed"):
                left = list(await self.app.job_manager.list_jobs_async(status=state))
                assert not left, f"{len(left)} jobs are {state}"

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        worker = asyncio.create_task(self.app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
        try:
            yield
        finally:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker

    async def nothing(self) -> None:
        self.begun.put_nowait(time.perf_counter())
        self.done.put_nowait(None)

    async def enqueue(self) -> None:
        await self.task.defer_async()


class Dbos:
    """DBOS has threads instead, and there is one of it in a process."""

    def __init__(self, shop: Workshop, url: str) -> None:
        self.library, self.nothing, self.begun = shop.once(dbos_workflow)
        self.url = url

    @contextmanager
    def running(self) -> Iterator[None]:
        from dbos import DBOSPortableJSONSerializer

        config = {
            "name": "bench",
            "system_database_url": self.url,
            "application_version": "1",
            "executor_id": str(uuid4()),
            "serializer": DBOSPortableJSONSerializer(),
            "max_executor_threads": CONCURRENCY,
            "sys_db_pool_size": CONCURRENCY + 4,
            "log_level": "ERROR",
        }
        tidy(self.url)
        self.library(config=config)
        self.library.launch()
        try:
            self.library.register_queue(KIND, polling_interval_sec=POLL_S)
            for _ in range(3):
                self.enqueue()
                self.begun.get(timeout=PATIENCE_S)
            yield
            self.come_to_rest()
        finally:
            self.library.destroy(workflow_completion_timeout_sec=5)

    def come_to_rest(self) -> None:
        """Its last results may not be recorded yet."""
        deadline = time.monotonic() + PATIENCE_S
        while self.library.list_workflows(status=["ENQUEUED", "PENDING"]):
            assert time.monotonic() < deadline, "not all workflows were worked off"
            time.sleep(0.02)
        assert not self.library.list_workflows(status=["ERROR"])

    def enqueue(self, _: int = 0) -> None:
        self.library.enqueue_workflow(KIND, self.nothing)

    def start(self) -> None:
        self.library.start_workflow(self.nothing)

    def jobs_a_second(self) -> float:
        with self.running(), ThreadPoolExecutor(CONCURRENCY) as callers:
            list(callers.map(lambda _: None, range(CONCURRENCY)))  # threads are there
            began = time.perf_counter()
            list(callers.map(self.enqueue, range(JOBS)))
            for _ in range(JOBS):
                self.begun.get(timeout=PATIENCE_S)
            return JOBS / (time.perf_counter() - began)

    def waits(self, begin: Callable[[], None] | None = None) -> list[float]:
        with self.running():
            return [self.wait(begin or self.enqueue) for _ in range(BATCH)]

    def wait(self, begin: Callable[[], None]) -> float:
        time.sleep(idle_s())
        began = time.perf_counter()
        begin()
        return (self.begun.get(timeout=PATIENCE_S) - began) * 1000

    def direct(self) -> float:
        return median(self.waits(self.start))


def dbos_workflow(_shop: Workshop) -> tuple[Any, Any, "SimpleQueue[float]"]:
    """DBOS, a workflow that does nothing, and when it began each time."""
    try:
        from dbos import DBOS
        from sqlalchemy import event
        from sqlalchemy.engine import Engine as SqlEngine
    except ImportError:
        raise Unavailable(INSTALL) from None
    begun: SimpleQueue[float] = SimpleQueue()

    @DBOS.workflow(name=KIND)
    def nothing() -> None:
        begun.put(time.perf_counter())

    @event.listens_for(SqlEngine, "connect")
    def durable_and_quick(connection: Any, _record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")

    return DBOS, nothing, begun


def own_database(shop: Workshop) -> str:
    """An empty database on this run's server, dropped at its end."""
    url = new_database(shop)
    shop.closing.callback(drop, shop.once(server_url), url.partition("?")[0].rpartition("/")[2])
    return url


def tidy(url: str) -> None:
    """What Postgres does once in a minute is done before each round, so that nobody's tables are in a better shape by chance."""
    if not is_sqlite(url):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


def drop(server: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())


def ours_on_postgres(shop: Workshop) -> Ours:
    return Ours(shop, own_database(shop))


def dbos_on_postgres(shop: Workshop) -> Dbos:
    return Dbos(shop, own_database(shop))


def procrastinate_on_postgres(shop: Workshop) -> Procrastinate:
    return Procrastinate(shop, own_database(shop))


# Jobs a second


@benchmark("engine.jobs.dbos", f"Postgres: {WORKLOAD}", "DBOS, a queue polled every 0.1 s", at_least(1.0))
def jobs_beside_dbos(shop: Workshop) -> Measurements:
    theirs, ours = shop.once(dbos_on_postgres), shop.once(ours_on_postgres)
    return in_turns(ours.jobs_a_second, theirs.jobs_a_second, ROUNDS)


@benchmark("engine.jobs.procrastinate", f"Postgres: {WORKLOAD}", "procrastinate, LISTEN/NOTIFY", at_least(1.0))
def jobs_beside_procrastinate(shop: Workshop) -> Measurements:
    theirs, ours = shop.once(procrastinate_on_postgres), shop.once(ours_on_postgres)
    return in_turns(ours.jobs_a_second, theirs.jobs_a_second, ROUNDS)


@benchmark("engine.jobs.sqlite", f"SQLite: {WORKLOAD}", "DBOS on SQLite with WAL, a queue polled every 0.1 s", at_least(1.0))
def jobs_on_sqlite(shop: Workshop) -> Measurements:
    theirs = Dbos(shop, f"sqlite:///{shop.folder / 'dbos.db'}")
    ours = Ours(shop, f"sqlite:///{shop.folder / 'engine.db'}")
    return in_turns(ours.jobs_a_second, theirs.jobs_a_second, ROUNDS)


# How long a single job waits for an idle engine


class Waits(NamedTuple):
    """Milliseconds, in batches taken in turns."""

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
    taken = Waits([], [])
    for number in range(BATCHES):
        progress(f"batch {number + 1} of {BATCHES}")
        taken.ours.append(ours())
        taken.reference.append(reference())
    return taken


def waits_beside_dbos(shop: Workshop) -> Waits:
    theirs, ours = shop.once(dbos_on_postgres), shop.once(ours_on_postgres)
    return waits_in_turns(ours.waits, theirs.waits)


def waits_beside_procrastinate(shop: Workshop) -> Waits:
    theirs, ours = shop.once(procrastinate_on_postgres), shop.once(ours_on_postgres)
    return waits_in_turns(ours.waits, theirs.waits)


SINGLE = "Postgres: enqueue → start of a single job on an idle engine"
SLOWEST = "p99 of 50, that is the slowest"


@benchmark("engine.start.p50.dbos", f"{SINGLE}, p50", "DBOS, a queue polled every 0.1 s", at_most(1.0))
def median_beside_dbos(shop: Workshop) -> Measurements:
    return shop.once(waits_beside_dbos).p50


@benchmark("engine.start.p99.dbos", f"{SINGLE}, {SLOWEST}", "DBOS, a queue polled every 0.1 s", at_most(1.0))
def slowest_beside_dbos(shop: Workshop) -> Measurements:
    return shop.once(waits_beside_dbos).p99


@benchmark("engine.start.p50.procrastinate", f"{SINGLE}, p50", "procrastinate, LISTEN/NOTIFY", at_most(1.0))
def median_beside_procrastinate(shop: Workshop) -> Measurements:
    return shop.once(waits_beside_procrastinate).p50


@benchmark("engine.start.p99.procrastinate", f"{SINGLE}, {SLOWEST}", "procrastinate, LISTEN/NOTIFY", at_most(1.0))
def slowest_beside_procrastinate(shop: Workshop) -> Measurements:
    return shop.once(waits_beside_procrastinate).p99


@benchmark("engine.start.elsewhere", f"{SINGLE}, enqueued by another process, p50", "procrastinate, LISTEN/NOTIFY", None)
def median_from_elsewhere(shop: Workshop) -> Measurements:
    theirs, ours = shop.once(procrastinate_on_postgres), shop.once(ours_on_postgres)
    return waits_in_turns(partial(ours.waits, ours.enqueue_elsewhere), theirs.waits).p50


@benchmark(
    "engine.direct", "Postgres: begin → start of a job that we own from the start, p50", "DBOS' start_workflow", at_most(1.0)
)
def direct(shop: Workshop) -> Measurements:
    theirs, ours = shop.once(dbos_on_postgres), shop.once(ours_on_postgres)
    return in_turns(ours.direct, theirs.direct, BATCHES, unit="ms")


# A whole server with nothing to do

WATCHED_S = 10.0
IDLE_PERCENT = 3.0


@benchmark("engine.idle", "CPU of an idle `headway serve` on SQLite over 10 s, its engine at work", "3 % of a core", at_most(1.0))
def idle(shop: Workshop) -> Measurements:
    try:
        import psutil
    except ImportError:
        raise Unavailable("needs psutil: pip install psutil") from None
    home = shop.folder / "idle"
    command = [sys.executable, "-m", "headway", "serve", "--port", "0", "--json", "--home", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    shop.closing.callback(stop, process)
    assert process.stdout is not None
    process.stdout.readline()
    see_it_work(f"sqlite:///{home / 'headway.db'}")
    time.sleep(1)
    watched = psutil.Process(process.pid)
    before, began = cpu_s(watched), time.perf_counter()
    time.sleep(WATCHED_S)
    percent = 100 * (cpu_s(watched) - before) / (time.perf_counter() - began)
    stop(process)
    return Measurements([percent], [IDLE_PERCENT], "%")


def see_it_work(url: str) -> None:
    """The engine begins a while after the doors open: once it has done a job, it is there."""
    with DirectDatabase(url) as database:
        tenant_id = database.write(tenants.ensure_local).id
        wanted = {"name": "now", "arguments": {}}
        job = database.write(partial(jobs.new, tenant_id=tenant_id, kind="tool", payload=wanted))
        deadline = time.monotonic() + PATIENCE_S
        while (state := database.read(partial(jobs.get, tenant_id=tenant_id, job_id=job.id)).state) != "completed":
            assert time.monotonic() < deadline, f"the job is {state}"
            time.sleep(0.1)


def cpu_s(process: Any) -> float:
    return sum(one.cpu_times().user + one.cpu_times().system for one in [process, *process.children(recursive=True)])


# What a killed process left behind

TURNS = 100
STEPS = 3
REQUEST = "What time is it? Look twice."
ENDED_WELL = {("finished", STEPS)}


class Survivors:
    """Turns of three steps each, with a model that answers at once, on SQLite: begun here, or by a process that is no more."""

    def __init__(self, shop: Workshop) -> None:
        from headway.testing import scripted_model

        logging.getLogger("headway.engine").setLevel(logging.ERROR)  # that work is taken over is no news here
        self.runner = asyncio.Runner()
        shop.closing.callback(self.runner.close)
        chosen = {"home": str(shop.folder / "survivors"), "model": "test:scripted", "restart_stagger_s": "0"}
        self.settings = settings.load(chosen)
        self.models = {"test:scripted": scripted_model(answer)}

    @asynccontextmanager
    async def headway(self) -> AsyncIterator[Any]:
        """One that was just started, by the time somebody asks it to begin."""
        from headway.assembly import Headway

        headway = Headway(self.settings, self.models)
        assert headway.engine.owner  # what it is made of is loaded
        try:
            yield headway
        finally:
            await headway.stop_agents()
            headway.close()

    def left_behind(self) -> float:
        return self.runner.run(self._left_behind())

    async def _left_behind(self) -> float:
        async with self.headway() as headway, asyncio.timeout(PATIENCE_S):
            tenant_id, places = await self.places(headway)
            dead = f"dead:{uuid4()}"  # it has no lease
            begun: list[str] = await headway.database.write(
                lambda tx: [turns.start(tx, tenant_id, place, turns.Beginning(REQUEST, owner=dead)).id for place in places]
            )
            ended = [headway.engine.ended(job_id) for job_id in begun]
            began = time.perf_counter()
            self.start(headway)
            await asyncio.gather(*ended)
            took = time.perf_counter() - began
            await self.check(headway, tenant_id, begun)
            return TURNS / took

    def fresh(self) -> float:
        return self.runner.run(self._fresh())

    async def _fresh(self) -> float:
        async with self.headway() as headway, asyncio.timeout(PATIENCE_S):
            tenant_id, places = await self.places(headway)
            began = time.perf_counter()
            self.start(headway)
            shown = await asyncio.gather(*(headway.run_turn(tenant_id, place, REQUEST) for place in places))
            took = time.perf_counter() - began
            assert {(one["status"], one["iterations"]) for one in shown} == ENDED_WELL, shown[0]
            return TURNS / took

    def start(self, headway: Any) -> None:
        headway.start()
        headway.start_agents()

    async def places(self, headway: Any) -> tuple[int, list[int]]:
        """A conversation for each turn."""

        def make(tx: Transaction) -> tuple[int, list[int]]:
            tenant_id = tenants.ensure_local(tx).id
            return tenant_id, [conversations.add(tx, tenant_id=tenant_id).id for _ in range(TURNS)]

        made: tuple[int, list[int]] = await headway.database.write(make)
        return made

    async def check(self, headway: Any, tenant_id: int, begun: list[str]) -> None:
        """All of them ended well. (Nobody works on a job that a dead process owns, unless it was taken over.)"""

        def look(tx: Transaction) -> set[tuple[str, int]]:
            owned = [jobs.get(tx, tenant_id, job_id) for job_id in begun]
            shown = [turns.show(tx, tenant_id, turns.turn_of(job), self.settings.limits) for job in owned]
            return {(one["status"], one["iterations"]) for one in shown}

        found = await headway.database.read(look)
        assert found == ENDED_WELL, found


def answer(messages: Any) -> Any:
    """Two calls of a tool that does next to nothing, and a word."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    said = sum(isinstance(message, ModelResponse) for message in messages)
    if said < STEPS - 1:
        return ModelResponse([ToolCallPart("now", {}, f"call_{uuid4().hex}")], finish_reason="tool_call")
    return ModelResponse([TextPart("Late.")], finish_reason="stop")


@benchmark(
    "engine.resume",
    "100 turns of 3 steps that a killed process left behind, from the next one's start until all have ended",
    "the same, begun anew",
    at_least(0.5),
)
def resume(shop: Workshop) -> Measurements:
    survivors = Survivors(shop)
    return in_turns(survivors.left_behind, survivors.fresh, ROUNDS)
