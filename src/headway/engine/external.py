"""Dispatch by an external engine: jobs are announced to it, and it delivers each to some process when it is due."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic
from typing import NamedTuple, Protocol

from headway.engine.polling import POLL_S, TENANTS_PER_CLAIM, ScheduleTicks, wait_until_due, wait_with_timeout
from headway.engine.runner import JobRunner
from headway.ledger.errors import StorageError
from headway.ledger.job import Job
from headway.storage.stores import installation
from headway.storage.stores import jobs as job_store
from headway.storage.stores import schedules as schedule_store
from headway.storage.stores.jobs import UnannouncedJob
from headway.storage.transaction import Transaction


class DueJob(NamedTuple):
    job_id: str
    delay_ms: int  # from now; 0 if the job is due
    key: str  # announcements with the same key may be merged into one delivery


class NotNow(Exception):
    """The job is due, but this process cannot run it now. Deliver it again a little later."""


Deliver = Callable[[str], Awaitable[None]]  # with a job id; returns when the row has moved on or was not for this process


class Dispatcher(Protocol):
    async def announce(self, jobs: Sequence[DueJob]) -> list[str]:
        """Accept jobs to deliver when they are due. Return the ids of jobs that were not accepted."""
        ...

    async def serve(self, deliver: Deliver) -> None:
        """Receive deliveries until canceled, and call `deliver` for each, on this event loop. Several calls may be under way at
        once. Canceling a call does not stop the job.

        A call that raises NotNow is delivered again a little later, and so is one that raises anything else or is canceled.
        """
        ...


# Announces waiting jobs to an external engine that dispatches them, and starts schedules.


log = logging.getLogger("headway.engine")

BATCH_SIZE = 200
ANNOUNCE_TIMEOUT_S = 20.0
REFUSED_PAUSE_S = 1.0  # after announcements that the dispatcher did not accept
LOG_AGAIN_S = 60.0
CHECK_OVERLOOKED_S = 5.0


class Announcements:
    def __init__(self, runner: JobRunner, ticks: ScheduleTicks, dispatcher: Dispatcher) -> None:
        self.runner = runner
        self.ticks = ticks
        self.dispatcher = dispatcher
        self.batch_size = BATCH_SIZE
        self.last_tenant = 0  # the last tenant whose queue was examined
        self.check_overlooked_at = 0.0
        self.log_again_at = 0.0

    async def announce(self) -> None:
        """Announce a batch, then sleep until the next job is to be announced or the engine is woken."""
        runner = self.runner
        runner.bell.clear()
        next_time, next_tick, now = await runner.database.read(
            lambda tx: (job_store.find_next_time(tx, runner.handlers), schedule_store.find_next_due(tx), tx.now)
        )
        has_started = await self.ticks.check(next_tick, now)
        await self._check_overlooked()
        if has_started or (next_time is not None and next_time <= now):
            batch, batch_now = await runner.database.write(self._take_batch)
            if batch:
                await self._announce_batch(batch, batch_now)
                return  # there may be more
        await wait_until_due(runner.bell, now, next_time, next_tick)

    async def _check_overlooked(self) -> None:
        if monotonic() < self.check_overlooked_at:
            return
        self.check_overlooked_at = monotonic() + CHECK_OVERLOOKED_S
        if await self.runner.database.read(job_store.has_overlooked):
            await self.runner.database.write(job_store.announce_overlooked)
            self.runner.bell.set()

    def _take_batch(self, tx: Transaction) -> tuple[list[UnannouncedJob], int]:
        """Lock jobs and mark them as announced. If there are more, also take the first job of other tenants, which might be far
        back in the queue."""
        if installation.find_active(tx):
            return [], tx.now
        handlers = self.runner.handlers
        batch = job_store.lock_unannounced(tx, handlers, self.batch_size)
        if len(batch) == self.batch_size > 1:
            waiting = job_store.list_first_due(tx, handlers, self.runner.limits.per_family, self.last_tenant, TENANTS_PER_CLAIM)
            self.last_tenant = waiting[-1].tenant_id if len(waiting) == TENANTS_PER_CLAIM else 0
            seen = {job.tenant_id for job in batch}
            others = [first.job_id for first in waiting if first.job_id and first.tenant_id not in seen]
            batch += job_store.lock_unannounced(tx, handlers, TENANTS_PER_CLAIM, others) if others else []
        if batch:
            job_store.mark_announced(tx, [job.job_id for job in batch])
        return batch, tx.now

    async def _announce_batch(self, batch: Sequence[UnannouncedJob], now: int) -> None:
        """Send the batch, and mark what the dispatcher does not accept as not announced."""
        job_ids = [job.job_id for job in batch]
        try:
            refused, reason = await self._send([DueJob(job.job_id, max(0, job.due_at - now), job.build_key(now)) for job in batch])
        except asyncio.CancelledError:
            with suppress(StorageError):  # then they are announced again after their due times
                await self.runner.database.write(partial(job_store.announce_again, job_ids=job_ids))
            raise
        again = [job_id for job_id in job_ids if job_id in refused]
        is_away = len(again) == len(batch)
        self.batch_size = 1 if is_away else BATCH_SIZE  # one job shows whether the dispatcher is back
        if again:
            pause_ms = int(REFUSED_PAUSE_S * 1000)
            await self.runner.database.write(partial(job_store.announce_again, job_ids=again, delay_ms=pause_ms))
            if monotonic() >= self.log_again_at:
                self.log_again_at = monotonic() + LOG_AGAIN_S
                log.warning("the dispatcher did not accept %d of %d jobs, which wait: %s", len(again), len(batch), reason)
        if is_away:
            await asyncio.sleep(REFUSED_PAUSE_S)

    async def _send(self, due_jobs: Sequence[DueJob]) -> tuple[set[str], str]:
        """Return the ids that the dispatcher did not accept, and why."""
        try:
            async with asyncio.timeout(ANNOUNCE_TIMEOUT_S):
                return set(await self.dispatcher.announce(due_jobs)), "it refused them"
        except Exception as error:  # noqa: BLE001  whatever an adapter raises, the jobs were not accepted
            return {job.job_id for job in due_jobs}, str(error) or type(error).__name__


# Claims the jobs that an external engine delivers to this process.


CLAIM_BATCH = 500
HOLD_S = 0.5  # how long a delivery waits while this process claims no job; another process may have a free slot
EARLY_MS = 2_000  # a delivery that is early by less than this waits for the due time
ID_LIMIT = 200  # in characters


class HeldJob:
    """A job that was delivered to this process and is not claimed yet."""

    __slots__ = ("answer", "expires_at", "job", "retry_at")

    def __init__(self) -> None:
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()  # whether this process has claimed the job
        self.expires_at = monotonic() + HOLD_S
        self.job: Job | None = None  # its row, once it was read
        self.retry_at = 0.0

    def resolve(self, *, is_claimed: bool) -> None:
        if not self.answer.done():
            self.answer.set_result(is_claimed)

    def refuse(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(NotNow(reason))
            self.answer.exception()  # marks it as retrieved, in case the dispatcher waits no more


class ClaimResult(NamedTuple):
    claimed: list[Job]
    waiting: dict[str, tuple[Job, float]]  # jobs to try again, with the pause until then in seconds; 0: when there is a free slot
    unknown: list[str]  # jobs of a kind that only a newer Headway knows


class Deliveries:
    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner
        self.held: dict[str, HeldJob] = {}
        self.arrival = asyncio.Event()  # set when a claim may succeed
        self.last_claim_at = -inf
        self.is_closed = False

    async def deliver(self, job_id: str) -> None:
        """Run the job, if it is due and free. Returns when its row has moved on, or if it was not for this process."""
        if not (len(job_id) <= ID_LIMIT and job_id.isascii() and job_id.isprintable()):
            return
        if task := self.runner.tasks.get(job_id):  # delivered twice, or the row waits again while its last task is about to end
            await asyncio.wait([task])
        if self.is_closed:
            raise NotNow("This process is stopping.")
        delivery = self.held.setdefault(job_id, HeldJob())
        self.arrival.set()
        if not await asyncio.shield(delivery.answer):
            return
        if task := self.runner.tasks.get(job_id):
            await asyncio.wait([task])
            if task.cancelled():
                raise NotNow("This process has stopped the job.")

    def close(self) -> None:
        """Have jobs delivered to another process."""
        self.is_closed = True
        for delivery in self.held.values():
            delivery.refuse("This process is stopping.")
        self.held.clear()

    async def claim(self) -> None:
        """Wait for deliveries, and claim them together in one transaction."""
        if self.held:
            await wait_with_timeout(self.arrival, POLL_S)
        else:
            await self.arrival.wait()
        self.arrival.clear()
        job_ids = self._choose_ids()
        if job_ids:
            claim = partial(self._claim_delivered, job_ids=job_ids, running=Counter(self.runner.running))
            try:
                result = await self.runner.claim(claim)
            except Exception:
                for job_id in job_ids:
                    self._remove(job_id).refuse("The database could not be reached.")
                raise
            self._answer(job_ids, result)
        self._refuse_expired()

    def _choose_ids(self) -> list[str]:
        """Choose the deliveries to look up: new ones, and ones that would now get a slot."""
        now = monotonic()
        ready = {job_id: delivery for job_id, delivery in self.held.items() if delivery.retry_at <= now}
        arrived = [job_id for job_id, delivery in ready.items() if delivery.job is None]
        if len(arrived) > CLAIM_BATCH:
            self.arrival.set()  # the others follow in the next round
        known = sorted((delivery.job for delivery in ready.values() if delivery.job), key=lambda job: (job.due_at, job.id))
        return [*arrived[:CLAIM_BATCH], *(job.id for job in self.runner.choose(known, Counter(self.runner.running)))]

    def _claim_delivered(self, tx: Transaction, job_ids: Sequence[str], running: Counter[int]) -> ClaimResult:
        locked = job_store.lock_waiting(tx, job_ids)
        missing = set(job_ids) - {job.id for job in locked}
        busy = job_store.list_waiting_jobs(tx, list(missing)) if tx.dialect.skip_locked and missing else []
        waiting, due_jobs, unknown = {}, [], []
        for job in (*locked, *busy):
            if job.kind not in self.runner.handlers:
                unknown.append(job.id)
            elif job.due_at <= tx.now:
                waiting[job.id] = (job, POLL_S)
                due_jobs.append(job)
            elif job.due_at <= tx.now + EARLY_MS:
                waiting[job.id] = (job, (job.due_at - tx.now) / 1000)
        if installation.find_active(tx):
            return ClaimResult([], waiting, unknown)
        lockable = [job for job in due_jobs if job.id not in missing]
        chosen = self.runner.choose(lockable, running)
        claimed = self.runner.claim_locked(tx, chosen)
        for job in set(lockable) - set(chosen):
            waiting[job.id] = (job, 0.0)
        for job in claimed:
            del waiting[job.id]
        return ClaimResult(claimed, waiting, unknown)

    def _answer(self, job_ids: Sequence[str], result: ClaimResult) -> None:
        now = monotonic()
        for job in result.claimed:
            self.last_claim_at = now
            self.runner.take(job)
            self.runner.tasks[job.id].add_done_callback(lambda _task: self.arrival.set())
            self._remove(job.id).resolve(is_claimed=True)
        for job_id in result.unknown:
            self._remove(job_id).refuse("This version of Headway has no handler for the job.")
        for job_id in set(job_ids) - {job.id for job in result.claimed} - set(result.unknown):
            if job_id not in result.waiting:  # ended, running elsewhere, or due much later
                self._remove(job_id).resolve(is_claimed=False)
            elif delivery := self.held.get(job_id):
                delivery.job, pause_s = result.waiting[job_id]
                delivery.retry_at = now + pause_s
                if pause_s > POLL_S:
                    delivery.expires_at = delivery.retry_at + HOLD_S

    def _refuse_expired(self) -> None:
        """Give up on deliveries that waited long enough. They wait longer while this process claims jobs."""
        now = monotonic()
        if now < self.last_claim_at + HOLD_S:
            return
        for job_id, delivery in list(self.held.items()):
            if delivery.job and now >= delivery.expires_at:
                self._remove(job_id).refuse("The job has to wait.")

    def _remove(self, job_id: str) -> HeldJob:
        """Remove a delivery. A stop may have done it before."""
        return self.held.pop(job_id, None) or HeldJob()


# Dispatch by an external engine behind `port`: it decides which process looks at which job, and when. The rows decide the
# rest.


SERVE_AGAIN_S = 5.0


class Dispatched:
    def __init__(self, runner: JobRunner, ticks: ScheduleTicks, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.deliveries = Deliveries(runner)
        self.steps = (Announcements(runner, ticks, dispatcher).announce, self.deliveries.claim, self._serve)

    def close(self) -> None:
        self.deliveries.close()

    async def _serve(self) -> None:
        try:
            await self.dispatcher.serve(self.deliveries.deliver)
            log.error("the dispatcher stopped delivering jobs to this process; starting it again")
        except Exception:
            log.exception("the dispatcher cannot deliver jobs to this process; trying again")
        await asyncio.sleep(SERVE_AGAIN_S)
