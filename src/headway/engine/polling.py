"""The built-in dispatch: asks the table for jobs that are due, and for schedules."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

from headway.actions.engine import schedules
from headway.engine.runner import JobRunner
from headway.ledger.job import Job
from headway.storage.database import UnrestrictedView
from headway.storage.stores import installation as halt_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import schedules as schedule_store
from headway.storage.transaction import Transaction

FAR_FUTURE_MS = 2**62  # makes the first round check for a clock that was set back while no process ran


class ScheduleTicks:
    def __init__(self, database: UnrestrictedView, tick: Callable[[Transaction], None]) -> None:
        self.database = database
        self.tick = tick
        self.last_time = FAR_FUTURE_MS

    async def check(self, next_tick: int | None, now: int) -> bool:
        """Start what is due, and return whether anything was. If the clock was set back, the next times are computed again."""
        if now + schedules.CLOCK_TOLERANCE_MS < self.last_time:
            await self.database.write(schedules.realign)
        self.last_time = now
        if next_tick is None or next_tick > now:
            return False
        await self.database.write(self.tick)
        return True


# The built-in dispatch: this process looks for due jobs in the table, and claims as many as it has slots for.


POLL_S = 0.25  # how soon a job that another process created is noticed
PRUNE_OWN_JOBS_AT = 1_000  # number of own job ids at which ended ones are removed
TENANTS_PER_CLAIM = 200  # tenants whose queues are examined when jobs wait for a slot


class Polling:
    """`own_jobs` are the ids of jobs that this process created; if given, it runs only these and the jobs that they start."""

    def __init__(self, runner: JobRunner, ticks: ScheduleTicks, own_jobs: set[str] | None) -> None:
        self.runner = runner
        self.ticks = ticks
        self.own_jobs = own_jobs
        self.prune_own_jobs_at = PRUNE_OWN_JOBS_AT  # size of `own_jobs` at which ended jobs are removed from it
        self.last_tenant = 0  # the last tenant whose queue was examined
        self.steps = (self._work,)

    def close(self) -> None:
        """No other process waits for this one."""

    async def _work(self) -> None:
        """Claim jobs that are due, then sleep until the next one is due or the engine is woken."""
        runner = self.runner
        runner.bell.clear()
        # Only known kinds: jobs created by a newer Headway are left for it.
        next_due, next_tick, now = await runner.database.read(
            lambda tx: (job_store.find_next_due(tx, runner.handlers), schedule_store.find_next_due(tx), tx.now)
        )
        if self.own_jobs is None:
            if await self.ticks.check(next_tick, now):
                next_due = 0
        elif not self.own_jobs:
            next_due = None
        else:
            await self._prune_own_jobs(self.own_jobs)
        claimed: list[Job] = []
        if next_due is not None and next_due <= now:
            claimed = await runner.claim(partial(self._claim, running=Counter(runner.running)))
            for job in claimed:
                runner.take(job)
            if self.own_jobs is not None:
                self.own_jobs.update(job.id for job in claimed)
        if not claimed:
            await wait_until_due(runner.bell, now, next_due, next_tick)

    async def _prune_own_jobs(self, own_jobs: set[str]) -> None:
        """Forget jobs that have ended, so that the list does not grow forever."""
        if len(own_jobs) >= self.prune_own_jobs_at:
            own_jobs -= await self.runner.database.read(partial(job_store.list_settled_ids, job_ids=tuple(own_jobs)))
            self.prune_own_jobs_at = max(PRUNE_OWN_JOBS_AT, 2 * len(own_jobs))

    def _claim(self, tx: Transaction, running: Counter[int]) -> list[Job]:
        if halt_store.find_active(tx):
            return []
        return self.runner.claim_locked(tx, self.runner.choose(self._lock_due(tx, running), running))

    def _lock_due(self, tx: Transaction, running: Counter[int]) -> list[Job]:
        """Lock as many due jobs as there are free slots. If more may be due, also lock the first job of other tenants, which might
        be far back in the queue."""
        handlers, limits = self.runner.handlers, self.runner.limits
        limit = max(1, limits.slots - running.total())
        due_jobs = job_store.lock_due(tx, handlers, limits.per_family, limit, self.own_jobs)
        if len(due_jobs) < limit or self.own_jobs is not None:
            return due_jobs
        waiting = job_store.list_first_due(tx, handlers, limits.per_family, self.last_tenant, TENANTS_PER_CLAIM)
        self.last_tenant = waiting[-1].tenant_id if len(waiting) == TENANTS_PER_CLAIM else 0
        seen = {job.tenant_id for job in due_jobs}
        others = [first.job_id for first in waiting if first.job_id and first.tenant_id not in seen]
        return due_jobs + job_store.lock_waiting(tx, others)


async def wait_until_due(bell: asyncio.Event, now: int, *moments: int | None) -> None:
    """Sleep until the first of these times that is still to come, the next poll, or the bell."""
    delay_s = min((moment - now) / 1000 for moment in (*moments, now + POLL_S * 1000) if moment is not None and moment > now)
    await wait_with_timeout(bell, max(delay_s, 0.005))


async def wait_with_timeout(bell: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return
