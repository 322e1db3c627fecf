"""Announces waiting jobs to an external engine that dispatches them, and starts schedules.

Announcements are sent after the commit that let the job wait, from an outbox (`storage/stores/job_announcements.py`). While a job
waits after its due time, its announcement is repeated.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from time import monotonic

from headway.engine.polling import TENANTS_PER_CLAIM, wait_until_due
from headway.engine.port import Dispatcher, DueJob
from headway.engine.runner import JobRunner
from headway.engine.schedule_ticks import ScheduleTicks
from headway.ledger.errors import StorageError
from headway.storage.stores import halts as halt_store
from headway.storage.stores import job_announcements
from headway.storage.stores import jobs as job_store
from headway.storage.stores import schedules as schedule_store
from headway.storage.stores.job_announcements import UnannouncedJob
from headway.storage.transaction import Transaction

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
            lambda tx: (job_announcements.find_next_time(tx, runner.handlers), schedule_store.find_next_due(tx), tx.now)
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
        if await self.runner.database.read(job_announcements.has_overlooked):
            await self.runner.database.write(job_announcements.announce_overlooked)
            self.runner.bell.set()

    def _take_batch(self, tx: Transaction) -> tuple[list[UnannouncedJob], int]:
        """Lock jobs and mark them as announced. If there are more, also take the first job of other tenants, which might be far
        back in the queue."""
        if halt_store.find_active(tx):
            return [], tx.now
        handlers = self.runner.handlers
        batch = job_announcements.lock_unannounced(tx, handlers, self.batch_size)
        if len(batch) == self.batch_size > 1:
            waiting = job_store.list_first_due(tx, handlers, self.runner.limits.per_family, self.last_tenant, TENANTS_PER_CLAIM)
            self.last_tenant = waiting[-1].tenant_id if len(waiting) == TENANTS_PER_CLAIM else 0
            seen = {job.tenant_id for job in batch}
            others = [first.job_id for first in waiting if first.job_id and first.tenant_id not in seen]
            batch += job_announcements.lock_unannounced(tx, handlers, TENANTS_PER_CLAIM, others) if others else []
        if batch:
            job_announcements.mark_announced(tx, [job.job_id for job in batch])
        return batch, tx.now

    async def _announce_batch(self, batch: Sequence[UnannouncedJob], now: int) -> None:
        """Send the batch, and mark what the dispatcher does not accept as not announced."""
        job_ids = [job.job_id for job in batch]
        try:
            refused, reason = await self._send([DueJob(job.job_id, max(0, job.due_at - now), job.build_key(now)) for job in batch])
        except asyncio.CancelledError:
            with suppress(StorageError):  # then they are announced again after their due times
                await self.runner.database.write(partial(job_announcements.announce_again, job_ids=job_ids))
            raise
        again = [job_id for job_id in job_ids if job_id in refused]
        is_away = len(again) == len(batch)
        self.batch_size = 1 if is_away else BATCH_SIZE  # one job shows whether the dispatcher is back
        if again:
            pause_ms = int(REFUSED_PAUSE_S * 1000)
            await self.runner.database.write(partial(job_announcements.announce_again, job_ids=again, delay_ms=pause_ms))
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
