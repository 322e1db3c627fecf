"""The engine: runs jobs until they have ended, without knowing what they are for.

A job is a row, created in the same transaction as the work it is for and updated in the same transaction as its results. This
process claims jobs that are due, runs them, and records heartbeats meanwhile. Jobs of a process whose heartbeats have stopped are
taken over. Before each change a handler checks in the row that this process still owns the job, so a process that returns late
changes nothing.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from headway.actions import jobs, schedules
from headway.ledger.errors import Closed, StorageError
from headway.ledger.job import LEASE_MS, SESSION_LEASE_MS, Job, LeaseWatch, choose_jobs
from headway.ledger.tenancy import Quotas
from headway.storage.database import Database
from headway.storage.fair_queue import current_tenant
from headway.storage.retry import StorageRetry, repeat_forever, retry_storage
from headway.storage.server_session import ServerSession
from headway.storage.stores import halts as halt_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import schedules as schedule_store
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.engine")

HEARTBEAT_S = 0.9
GRACE_S = 0.1
IDLE_HEARTBEAT_S = 3.0
SWEEP_S = 1.0
PRUNE_OWN_JOBS_AT = 1_000  # number of own job ids at which ended ones are removed
POLL_S = 0.25  # how soon a job that another process created is noticed
RECOVERY_BATCH = 500
TENANTS_PER_CLAIM = 200  # tenants whose queues are examined when jobs wait for a slot
FAR_FUTURE_MS = 2**62  # makes the first round check for a clock that was set back while no process ran
MAX_LOST_WORKERS = 10  # how many processes a job may lose without making progress
INTERRUPTED_ERROR = "The process that ran this job was interrupted."
INTERNAL_ERROR = "Headway hit an internal error. See its log for details."


class JobHandler(NamedTuple):
    """Functions for one kind of job: `run` does the work, and `on_dead` records that the job has failed for good."""

    run: Callable[[Job], Awaitable[None]]
    on_dead: Callable[[Transaction, Job, str], None]


class EngineLimits(NamedTuple):
    slots: int = 64  # jobs that one process runs at once
    per_family: int = 4  # jobs of one family that run at once, across all processes
    stagger_s: float = 2.0  # window over which recovered jobs are restarted
    per_tenant: int = Quotas().jobs  # jobs of one tenant that one process runs at once


class Engine:
    def __init__(
        self,
        database: Database,
        owner: str,
        handlers: Mapping[str, JobHandler],
        limits: EngineLimits | None = None,
        tick: Callable[[Transaction], None] = schedules.tick,
        on_recovery: Callable[[Transaction, list[Job]], None] = lambda _tx, _jobs: None,
        session: ServerSession | None = None,
    ) -> None:
        self.database = database.unrestricted  # it runs the jobs of all tenants
        self.tick = tick
        self.on_recovery = on_recovery  # called with the jobs that were taken over
        self.owner = owner
        self.session = session or ServerSession()  # one that is closed: only the lease shows that this process is alive
        self.handlers = handlers
        self.limits = limits or EngineLimits()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.running: Counter[int] = Counter()  # jobs that run in this process, by tenant
        self.last_tenant = 0  # the last tenant whose queue was examined
        self.waiters: dict[str, asyncio.Future[None]] = {}
        self.background: list[asyncio.Task[None]] = []
        self.claim: asyncio.Future[list[Job]] | None = None
        self.bell = asyncio.Event()
        self.own_jobs: set[str] | None = None
        self.prune_own_jobs_at = PRUNE_OWN_JOBS_AT  # size of `own_jobs` at which ended jobs are removed from it
        self.unattended: set[str] = set()  # own jobs that had no task at the last heartbeat
        self.last_heartbeat_at = -IDLE_HEARTBEAT_S
        self.last_time = FAR_FUTURE_MS
        self.lease_watch = LeaseWatch()

    def start(self, *, alone: bool = False) -> None:
        """Start working. With `alone`, run only jobs that this process created, for short-lived processes."""
        self.own_jobs = set() if alone else None
        steps = [self._work, self._beat] if alone else [self._work, self._beat, self._sweep]
        self.background = [asyncio.create_task(repeat_forever(step, "the engine")) for step in steps]

    @property
    def alive(self) -> bool:
        return bool(self.background) and not any(task.done() for task in self.background)

    def nudge(self) -> None:
        """Wake the engine, because a job may be due."""
        self.bell.set()

    def adopt(self, job_id: str) -> None:
        """Run this job when it is due, even in `alone` mode."""
        if self.own_jobs is not None:
            self.own_jobs.add(job_id)
        self.bell.set()

    def take(self, job: Job) -> None:
        """Run a job that this process owns. If its tenant already runs as many as it may, it is queued."""
        self.adopt(job.id)
        has_slot = self.running[job.tenant_id] < self.limits.per_tenant
        task = asyncio.create_task(self._run(job) if has_slot else self._requeue(job), name=f"{job.kind} {job.id}")
        self.tasks[job.id] = task
        self.running[job.tenant_id] += has_slot
        task.add_done_callback(lambda _task: self._done(job, used_slot=has_slot))

    def ended(self, job_id: str) -> "asyncio.Future[None]":
        """Return a future that resolves when the job has ended in any way."""
        if job_id not in self.waiters:
            self.waiters[job_id] = asyncio.get_running_loop().create_future()
        return self.waiters[job_id]

    def interrupt(self, job_id: str) -> None:
        """Cancel the task that runs the job. The job's row decides how it continues."""
        task = self.tasks.get(job_id)
        if task:
            task.cancel()

    async def stop(self) -> None:
        """Stop cleanly: cancel all tasks and requeue unfinished jobs at once, without waiting for the lease to expire."""
        tasks = [*self.background, *self.tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.claim:
            await asyncio.wait([self.claim])  # jobs that it claims must be requeued too
        try:
            await self.database.write(partial(job_store.release_owner, owner=self.owner))
        except StorageError as error:
            log.warning("could not requeue unfinished jobs; other workers take them over when the lease expires: %s", error)
        for waiter in self.waiters.values():
            if not waiter.done():
                waiter.set_exception(Closed())
                waiter.exception()  # marks it as retrieved, in case no caller waits any more

    # One job

    async def _run(self, job: Job) -> None:
        current_tenant.set(job.tenant_id)
        task = f"{job.kind} {job.id}"
        try:
            await self.handlers[job.kind].run(job)
        except Exception as error:
            if isinstance(error, StorageError) and error.is_transient:
                await StorageRetry(task).wait(error)  # the job itself is not at fault
            else:
                # A bug in Headway would recur, so the job is not retried but left for an operator.
                log.exception("%s stopped by a fault", task)
                mark_dead = partial(self._mark_dead, job=job, error=INTERNAL_ERROR)
                await retry_storage(lambda: self.database.of(job.tenant_id).write(mark_dead), task)
        settle = partial(self._settle, job=job)
        if await retry_storage(lambda: self.database.of(job.tenant_id).write(settle), task):
            self._resolve_waiter(job.id)

    def _mark_dead(self, tx: Transaction, job: Job, error: str) -> None:
        locked = job_store.find_locked(tx, job.tenant_id, job.id)
        if not locked or locked.state != "running" or locked.owner != self.owner:
            return
        self._mark_locked_dead(tx, locked, error)

    def _mark_locked_dead(self, tx: Transaction, job: Job, error: str) -> None:
        if job.kind in self.handlers:
            self.handlers[job.kind].on_dead(tx, job, error)
        else:  # for example, created by a newer Headway
            jobs.fail_permanently(tx, job, f"This version of Headway has no handler for jobs of kind {job.kind}.")

    def _settle(self, tx: Transaction, job: Job) -> bool:
        """Return whether the job has ended. A job that stopped without a change (for example, because of a halt) is requeued."""
        locked = job_store.find_locked(tx, job.tenant_id, job.id)
        if locked and locked.state == "running" and locked.owner == self.owner:
            jobs.requeue(tx, locked)
        return locked is None or locked.over

    async def _requeue(self, job: Job) -> None:
        requeue = partial(job_store.requeue, owner=self.owner, job_ids=[job.id])
        await retry_storage(lambda: self.database.write(requeue), f"{job.kind} {job.id}")

    def _done(self, job: Job, *, used_slot: bool) -> None:
        self.tasks.pop(job.id, None)
        self.running[job.tenant_id] -= used_slot
        if not self.running[job.tenant_id]:
            del self.running[job.tenant_id]
        self.bell.set()

    def _resolve_waiter(self, job_id: str) -> None:
        waiter = self.waiters.pop(job_id, None)
        if waiter and not waiter.done():
            waiter.set_result(None)

    # All jobs

    async def _work(self) -> None:
        """Claim jobs that are due, then sleep until the next one is due or the engine is woken."""
        self.bell.clear()
        # Only known kinds: jobs created by a newer Headway are left for it.
        next_due, next_tick, now = await self.database.read(
            lambda tx: (job_store.find_next_due(tx, self.handlers), schedule_store.find_next_due(tx), tx.now)
        )
        if now + schedules.CLOCK_TOLERANCE_MS < self.last_time and self.own_jobs is None:
            await self.database.write(schedules.realign)
        self.last_time = now
        if self.own_jobs is not None and not self.own_jobs:
            next_due = None
        if self.own_jobs is not None and len(self.own_jobs) >= self.prune_own_jobs_at:
            self.own_jobs -= await self.database.read(partial(job_store.list_settled_ids, job_ids=tuple(self.own_jobs)))
            self.prune_own_jobs_at = max(PRUNE_OWN_JOBS_AT, 2 * len(self.own_jobs))
        if next_tick is not None and next_tick <= now and self.own_jobs is None:
            await self.database.write(self.tick)
            next_due = 0
        claimed: list[Job] = []
        if next_due is not None and next_due <= now:
            self.claim = asyncio.ensure_future(self.database.write(partial(self._claim, running=Counter(self.running))))
            claimed = await asyncio.shield(self.claim)
            for job in claimed:
                self.take(job)
        if not claimed:
            delay_s = min((due - now) / 1000 for due in (next_due, next_tick, now + POLL_S * 1000) if due is not None and due > now)
            await wait_with_timeout(self.bell, max(delay_s, 0.005))

    def _claim(self, tx: Transaction, running: Counter[int]) -> list[Job]:
        if halt_store.find_active(tx):
            return []
        due_jobs = choose_jobs(self._lock_due(tx, running), running, self.limits.slots, self.limits.per_tenant)
        for family in sorted({job.family for job in due_jobs if job.family}):  # in a fixed order, to prevent deadlocks
            job_store.lock_family(tx, family)
        claimed = []
        for job in due_jobs:
            if job.id in self.tasks:
                continue  # its last task has not ended yet, and two tasks of one owner are indistinguishable
            if job.family and job_store.count_running_in_family(tx, job.tenant_id, job.family) >= self.limits.per_family:
                continue
            claimed.append(jobs.move(tx, job._replace(owner=self.owner), "running"))
        if claimed:
            self._record_heartbeat(tx)  # in the same commit, so that they never look orphaned
        return claimed

    def _lock_due(self, tx: Transaction, running: Counter[int]) -> list[Job]:
        """Lock as many due jobs as there are free slots. If more may be due, also lock the first job of other tenants, which might
        be far back in the queue."""
        limit = max(1, self.limits.slots - running.total())
        due_jobs = job_store.lock_due(tx, self.handlers, self.limits.per_family, limit, self.own_jobs)
        if len(due_jobs) < limit or self.own_jobs is not None:
            return due_jobs
        waiting = job_store.list_first_due(tx, self.handlers, self.limits.per_family, self.last_tenant, TENANTS_PER_CLAIM)
        self.last_tenant = waiting[-1].tenant_id if len(waiting) == TENANTS_PER_CLAIM else 0
        seen = {job.tenant_id for job in due_jobs}
        others = [first.job_id for first in waiting if first.job_id and first.tenant_id not in seen]
        return due_jobs + job_store.lock_waiting(tx, others)

    async def _beat(self) -> None:
        """Record a heartbeat, and reconcile the running tasks with the job rows."""
        await asyncio.sleep(HEARTBEAT_S)
        for job_id in await self.database.read(lambda tx: job_store.list_ended_ids(tx, list(self.waiters))):
            self._resolve_waiter(job_id)  # another process ended it
        if not self.tasks and not self.unattended and not self._is_heartbeat_due:
            return
        self.last_heartbeat_at = time.monotonic()
        tasks = dict(self.tasks)  # taken before the read, so that jobs that start meanwhile do not look lost
        await self.database.write(self._record_heartbeat)
        own_ids = await self.database.read(partial(job_store.list_running_ids, owner=self.owner))
        await asyncio.sleep(GRACE_S)  # a task that has just ended its own job is about to finish
        for job_id, task in tasks.items():
            if job_id not in own_ids:  # ended, or taken over by another process
                task.cancel()
        # Owned by this process but without a task, because a write that should have moved the job failed. Jobs that have only just
        # started get until the next heartbeat.
        unattended = own_ids - set(tasks) - set(self.tasks)
        if forgotten := unattended & self.unattended:
            await self.database.write(partial(job_store.requeue, owner=self.owner, job_ids=forgotten))
        self.unattended = unattended

    @property
    def _is_heartbeat_due(self) -> bool:
        """Whether an idle process should record a heartbeat. It does so less often, because each costs a write."""
        return self.own_jobs is None and time.monotonic() - self.last_heartbeat_at >= IDLE_HEARTBEAT_S

    def _record_heartbeat(self, tx: Transaction) -> None:
        job_store.record_heartbeat(tx, self.owner, self.session.lock)

    @property
    def _leases(self) -> job_store.Leases:
        """How old the last heartbeat of another process may be. The locks of sessions count once this process has a settled
        session, because an outage of the server ends every session."""
        return job_store.Leases(LEASE_MS, SESSION_LEASE_MS if self.session.is_settled else LEASE_MS)

    async def _sweep(self) -> None:
        try:
            has_orphans = await self.database.read(partial(job_store.has_orphans, leases=self._leases))
        except StorageError:
            self.lease_watch.record_outage()
            raise
        if self.lease_watch.may_judge(time.monotonic_ns() // 1_000_000) and has_orphans:
            count = await self.database.write(self.recover)
            if count:
                log.warning("took over %d jobs of workers whose session ended or whose lease expired", count)
                self.bell.set()
        await asyncio.sleep(SWEEP_S)

    def recover(self, tx: Transaction, job_ids: Sequence[str] | None = None) -> int:
        """Requeue jobs whose worker's session ended or whose lease expired, the first at once and the others evenly over
        `stagger_s`. A job that has lost MAX_LOST_WORKERS workers in a row without progress is marked dead."""
        if self.tasks:
            self._record_heartbeat(tx)  # a process that was suspended must not take over its own jobs
        job_store.lock_family(tx, "recovery")  # so that one process recovers all jobs of a dead one and reports it once
        orphans = job_store.lock_orphans(tx, self._leases, RECOVERY_BATCH, job_ids)
        requeued = []
        for place, job in enumerate(orphans):
            if job.count_trailing_failures(INTERRUPTED_ERROR) + 1 >= MAX_LOST_WORKERS:
                self._mark_locked_dead(tx, job, INTERRUPTED_ERROR)
                continue
            due_at = tx.now + int(place / len(orphans) * self.limits.stagger_s * 1000)
            requeued.append(jobs.move(tx, job, "queued", due_at, errors=jobs.append_error(job, INTERRUPTED_ERROR)))
        if requeued:
            self.on_recovery(tx, requeued)
        return len(orphans)


async def wait_with_timeout(bell: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return
