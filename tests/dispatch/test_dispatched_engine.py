"""The engine over a dispatcher: what is announced, and what becomes of deliveries."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing

import psycopg
import pytest

from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.actions.runs import jobs
from headway.engine.engine import Engine
from headway.engine.external import BATCH_SIZE, Dispatched, DueJob, NotNow
from headway.engine.runner import EngineLimits, JobHandler
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.agents.timed_jobs import build_engine, count_unfinished, enqueue, fail_job, list_runs
from tests.dispatch.local_dispatch import DISHONEST, LocalDispatcher, age_announcements, hurry, list_announce_times

PATIENCE_S = 60
HOUR_MS = 3_600_000
LATEST_REPETITION_MS = 10_000  # after the due time


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[TenantHarness]:
    with DirectDatabase(sqlite_url) as database:
        yield TenantHarness(database)


class Scene:
    """An engine over a dispatcher, on the database of a tenant."""

    def __init__(self, ledger: TenantHarness, database: Database, dispatcher: LocalDispatcher, limits: EngineLimits) -> None:
        self.ledger, self.database, self.dispatcher = ledger, database, dispatcher
        self.gate = asyncio.Event()
        self.gate.set()
        self.engine = build_engine(database, "one", limits, self.gate.wait)

    def start(self) -> None:
        self.engine.start(self.dispatcher)

    def enqueue(self, count: int = 1, delay_ms: int = 0) -> list[str]:
        def create(tx: Transaction, tenant_id: int) -> list[str]:
            created = enqueue(tx, tenant_id, [""] * count)
            for job in created if delay_ms else ():
                jobs.delay(tx, job, tx.now + delay_ms)
            return [job.id for job in created]

        created = self.ledger.write(create)
        self.engine.nudge()
        return created

    def list_runs(self) -> list[str]:
        return [run.job for run in self.ledger.database.read(list_runs)]

    def list_announce_times(self) -> dict[str, int]:
        return self.ledger.database.read(list_announce_times)

    def get_announced(self) -> list[str]:
        return [job.job_id for job in self.dispatcher.announced]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    async def until_done(self) -> None:
        await self.until(lambda: self.ledger.database.read(count_unfinished) == 0)


def play(
    ledger: TenantHarness,
    url: str,
    scenario: Callable[[Scene], Awaitable[None]],
    dispatcher: LocalDispatcher | None = None,
    limits: EngineLimits | None = None,
) -> None:
    async def run() -> None:
        with closing(Database(url)) as database:
            scene = Scene(ledger, database, dispatcher or LocalDispatcher(), limits or EngineLimits())
            try:
                await asyncio.wait_for(scenario(scene), PATIENCE_S)
            finally:
                await scene.engine.stop()

    asyncio.run(run())


def test_a_dispatcher_that_loses_and_doubles_jobs_delays_them(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.start()
        hurry(scene.engine)
        job_ids = scene.enqueue(150)
        await scene.until_done()
        assert sorted(scene.list_runs()) == sorted(job_ids)
        assert len(scene.dispatcher.announced) > len(job_ids)

    play(ledger, sqlite_url, scenario, LocalDispatcher(DISHONEST))


def test_an_announcement_is_repeated_within_ten_seconds_of_the_due_time(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.start()
        (lost,) = scene.enqueue()
        (later,) = scene.enqueue(delay_ms=HOUR_MS)
        await scene.until(lambda: set(scene.get_announced()) == {lost, later})
        await scene.until(lambda: all(0 < after_ms < LATEST_REPETITION_MS for after_ms in scene.list_announce_times().values()))
        assert [job.delay_ms > HOUR_MS - PATIENCE_S * 1000 for job in scene.dispatcher.announced] == [False, True]
        ledger.database.write(lambda tx: age_announcements(tx, LATEST_REPETITION_MS))
        await scene.until(lambda: scene.get_announced() == [lost, later, lost])
        assert len({job.key for job in scene.dispatcher.announced}) == 2  # less than a repetition has really passed

    play(ledger, sqlite_url, scenario, DeafDispatcher())


class DeafDispatcher(LocalDispatcher):
    """Accepts jobs and never delivers them."""

    async def announce(self, jobs: Sequence[DueJob]) -> list[str]:
        self.announced += jobs
        return []


def test_jobs_wait_while_the_dispatcher_is_away(ledger: TenantHarness, sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        scene.dispatcher.is_away = True
        job_ids = scene.enqueue(5)
        scene.start()
        await scene.until(lambda: "did not accept 5 of 5 jobs" in caplog.text)
        assert scene.list_announce_times().keys() == set(job_ids)
        scene.dispatcher.is_away = False
        await scene.until_done()
        assert sorted(scene.list_runs()) == sorted(job_ids)

    play(ledger, sqlite_url, scenario)


def test_jobs_that_the_dispatcher_forgot_are_announced_again(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.start()
        (job_id,) = scene.enqueue(delay_ms=HOUR_MS)
        await scene.until(lambda: bool(scene.dispatcher.pending))
        scene.dispatcher.wipe()
        ledger.database.write(lambda tx: tx.run("UPDATE jobs SET due_at = ?, announce_at = ?", tx.now, tx.now))
        await scene.until_done()
        assert scene.list_runs() == [job_id]
        assert scene.get_announced() == [job_id, job_id]

    play(ledger, sqlite_url, scenario)


def test_a_job_that_a_process_of_an_older_version_made_due_is_announced(ledger: TenantHarness, sqlite_url: str) -> None:
    """Such a process does not know the column `announce_at`."""

    async def scenario(scene: Scene) -> None:
        (job_id,) = scene.enqueue(delay_ms=HOUR_MS)
        ledger.database.write(lambda tx: tx.run("UPDATE jobs SET announce_at = due_at + 8000, due_at = 0, state = 'queued'"))
        scene.start()
        await scene.until_done()
        assert scene.list_runs() == [job_id]

    play(ledger, sqlite_url, scenario)


def test_a_long_queue_of_one_tenant_does_not_delay_the_announcements_of_another(ledger: TenantHarness, sqlite_url: str) -> None:
    other = TenantHarness(ledger.database, "modest")

    async def scenario(scene: Scene) -> None:
        scene.enqueue(3 * BATCH_SIZE)
        (modest,) = other.write(enqueue, [""])
        scene.start()
        await scene.until(lambda: len(scene.dispatcher.announced) == 3 * BATCH_SIZE + 1)
        assert scene.get_announced().index(modest.id) == BATCH_SIZE  # with the first batch

    play(ledger, sqlite_url, scenario, DeafDispatcher())


def test_a_process_that_works_alone_does_not_use_the_dispatcher(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        own, foreign = scene.enqueue(2)
        scene.engine.start(scene.dispatcher, alone=True)
        scene.engine.adopt(own)
        await scene.engine.ended(own)
        assert scene.list_runs() == [own]
        assert (scene.dispatcher.announced, scene.dispatcher.receivers) == ([], [])
        assert ledger.read(jobs.get_job, foreign).state == "queued"

    play(ledger, sqlite_url, scenario)


def test_schedules_are_started(ledger: TenantHarness, sqlite_url: str) -> None:
    def put(tx: Transaction, tenant_id: int) -> None:
        schedules.put(tx, tenant_id, "often", Timing(every_ms=60_000), {"tool": {"name": "now", "arguments": {}}})
        tx.run("UPDATE schedules SET next_at = 0")

    async def scenario(database: Database) -> None:
        ran = asyncio.Event()

        async def run(job: object) -> None:
            ran.set()

        engine = Engine(database, "one", {jobs.TOOL: JobHandler(run, fail_job)})
        engine.start(LocalDispatcher())
        await asyncio.wait_for(ran.wait(), PATIENCE_S)
        await engine.stop()

    ledger.write(put)
    with closing(Database(sqlite_url)) as database:
        asyncio.run(scenario(database))
    assert len(ledger.read(job_store.list_job_page, None, 10)) == 1


# Stopping


def test_a_stop_hands_announcements_back_that_were_being_sent(ledger: TenantHarness, sqlite_url: str) -> None:
    class HangingDispatcher(LocalDispatcher):
        async def announce(self, jobs: Sequence[DueJob]) -> list[str]:
            self.announced += jobs
            await asyncio.Event().wait()
            return []

    async def scenario(scene: Scene) -> None:
        scene.start()
        job_ids = scene.enqueue(3)
        await scene.until(lambda: len(scene.dispatcher.announced) == 3)
        now = ledger.database.read(lambda tx: tx.now + tx.drift)
        await scene.engine.stop()
        times = ledger.database.read(lambda tx: tx.all("SELECT announce_at FROM jobs"))
        assert [announce_at - now < 5_000 for (announce_at,) in times] == [True] * len(
            job_ids
        )  # not repeated, but announced at once

    play(ledger, sqlite_url, scenario, HangingDispatcher())


def test_a_stop_has_running_and_waiting_jobs_delivered_again(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.gate.clear()
        scene.start()
        scene.enqueue(3)
        await scene.until(lambda: scene.engine.running.total() == 1 and len(scene.dispatcher.pending) == 3)
        before = scene.dispatcher.refusals
        await scene.engine.stop()
        await scene.until(lambda: scene.dispatcher.refusals >= before + 3)
        assert [job.state for job in ledger.read(job_store.list_job_page, None, 10)] == ["queued"] * 3
        assert len(scene.dispatcher.pending) == 3

    play(ledger, sqlite_url, scenario, limits=EngineLimits(slots=1))


# Deliveries that an honest dispatcher makes seldom, or never


def test_a_job_that_is_due_much_later_is_left_as_it_is(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.start()
        (later,) = scene.enqueue(delay_ms=HOUR_MS)
        await scene.until(lambda: scene.get_announced() == [later])
        before = ledger.read(jobs.get_job, later)
        await scene.dispatcher.receivers[0](later)
        assert ledger.read(jobs.get_job, later) == before

    play(ledger, sqlite_url, scenario, DeafDispatcher())


def test_a_job_of_a_newer_version_is_delivered_again(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.start()
        unknown = ledger.write(lambda tx, tenant_id: jobs.create_job(tx, tenant_id, "from the future", {}))
        await scene.until(lambda: bool(scene.dispatcher.receivers))
        with pytest.raises(NotNow):
            await scene.dispatcher.receivers[0](unknown.id)
        assert ledger.read(jobs.get_job, unknown.id) == unknown
        assert scene.dispatcher.announced == []  # this version does not announce it

    play(ledger, sqlite_url, scenario, DeafDispatcher())


def test_a_job_for_which_a_full_process_has_no_slot_is_refused_and_stays_as_it_is(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.gate.clear()
        scene.start()
        job_ids = scene.enqueue(2)
        await scene.until(lambda: bool(scene.dispatcher.receivers))
        (deliver,) = scene.dispatcher.receivers
        deliveries = [asyncio.ensure_future(deliver(job_id)) for job_id in job_ids]
        done, (running,) = await asyncio.wait(deliveries, return_when=asyncio.FIRST_COMPLETED)
        assert [type(delivery.exception()) for delivery in done] == [NotNow]
        assert sorted(job.state for job in ledger.read(job_store.list_job_page, None, 10)) == ["queued", "running"]
        scene.gate.set()
        await running

    play(ledger, sqlite_url, scenario, DeafDispatcher(), EngineLimits(slots=1))


def test_deliveries_of_a_job_that_runs_wait_for_it_and_run_it_once(ledger: TenantHarness, sqlite_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.gate.clear()
        scene.start()
        (job_id,) = scene.enqueue()
        await scene.until(lambda: bool(scene.dispatcher.receivers))
        (deliver,) = scene.dispatcher.receivers
        deliveries = [asyncio.ensure_future(deliver(job_id)) for _ in range(5)]
        await scene.until(lambda: bool(scene.engine.tasks))
        deliveries[0].cancel()  # the dispatcher lost its connection: the job continues
        deliveries += [asyncio.ensure_future(deliver(job_id)) for _ in range(5)]
        await asyncio.sleep(0)
        assert not any(delivery.done() for delivery in deliveries[1:])
        scene.gate.set()
        await asyncio.gather(*deliveries[1:])
        assert scene.list_runs() == [job_id]

    play(ledger, sqlite_url, scenario, DeafDispatcher())


def test_a_delivery_waits_for_a_row_that_another_transaction_has_locked(postgres_url: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.start()
        (job_id,) = scene.enqueue()
        await scene.until(lambda: bool(scene.dispatcher.receivers))
        with psycopg.connect(postgres_url) as other:
            other.execute("SET headway.tenant = 'all'")
            other.execute("SELECT 1 FROM jobs WHERE id = %s FOR UPDATE", (job_id,))
            delivery = asyncio.ensure_future(scene.dispatcher.receivers[0](job_id))
            await scene.until(lambda: is_held(scene))
            assert scene.list_runs() == []
        await delivery
        assert scene.list_runs() == [job_id]

    with DirectDatabase(postgres_url) as database:
        play(TenantHarness(database), postgres_url, scenario, DeafDispatcher())
        database.write(lambda tx: tx.run("DROP TABLE ran"))


def is_held(scene: Scene) -> bool:
    """Whether a delivered job was looked at and has to wait."""
    dispatch = scene.engine.dispatch
    assert isinstance(dispatch, Dispatched)
    return any(delivery.job for delivery in dispatch.deliveries.held.values())
