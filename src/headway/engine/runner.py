"""Runs the jobs that this process has claimed, each in a task, until they have ended or wait again."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from importlib import metadata
from typing import Any, NamedTuple, TypeVar

from headway.actions.runs import jobs
from headway.ledger.errors import Closed, StorageError
from headway.ledger.job import Job, choose_jobs
from headway.ledger.tenancy import Quotas
from headway.storage.database import Database
from headway.storage.fair_queue import current_tenant
from headway.storage.retry import StorageRetry, retry_storage
from headway.storage.server_session import ServerSession
from headway.storage.stores import jobs as job_store
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction, Work

log = logging.getLogger("headway.engine")

T = TypeVar("T")

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


@cache
def find_version() -> str:
    """Return the installed version of Headway. Empty: it runs from a folder that was not installed."""
    try:
        return metadata.version("headway")
    except metadata.PackageNotFoundError:
        return ""


class JobRunner:
    def __init__(
        self,
        database: Database,
        owner: str,
        handlers: Mapping[str, JobHandler],
        limits: EngineLimits,
        session: ServerSession,
    ) -> None:
        self.database = database.unrestricted  # it runs the jobs of all tenants
        self.owner = owner
        self.handlers = handlers
        self.limits = limits
        self.session = session
        started_at = time.time_ns() // 1_000_000
        self.facts = worker_leases.WorkerFacts(started_at, limits.slots, find_version())
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.running: Counter[int] = Counter()  # jobs that run in this process, by tenant
        self.ended_jobs: Counter[tuple[str, str]] = Counter()  # jobs that ended in this process, by kind and state
        self.waiters: dict[str, asyncio.Future[None]] = {}
        self.bell = asyncio.Event()  # rung when a job may be due
        self.claiming: asyncio.Future[Any] | None = None

    def take(self, job: Job) -> None:
        """Run a job that this process owns. If its tenant already runs as many as it may, it is queued."""
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

    def resolve_waiter(self, job_id: str) -> None:
        waiter = self.waiters.pop(job_id, None)
        if waiter and not waiter.done():
            waiter.set_result(None)

    async def claim(self, work: Work[T]) -> T:
        """Run a transaction that claims jobs. A stop waits for its end, because the jobs must be requeued."""
        claiming = self.claiming = asyncio.ensure_future(self.database.write(work))
        return await asyncio.shield(claiming)

    async def release(self) -> None:
        """Requeue unfinished jobs at once, without waiting for the lease to expire. No task runs any more."""
        if self.claiming:
            await asyncio.wait([self.claiming])  # jobs that it claims must be requeued too
        try:
            await self.database.write(partial(worker_leases.release_owner, owner=self.owner))
        except StorageError as error:
            log.warning("could not requeue unfinished jobs; other workers take them over when the lease expires: %s", error)
        for waiter in self.waiters.values():
            if not waiter.done():
                waiter.set_exception(Closed())
                waiter.exception()  # marks it as retrieved, in case no caller waits any more

    # In transactions

    def choose(self, due_jobs: Sequence[Job], running: Counter[int]) -> list[Job]:
        """Choose which of these jobs this process would start now."""
        return choose_jobs(due_jobs, running, self.limits.slots, self.limits.per_tenant)

    def claim_locked(self, tx: Transaction, chosen: Sequence[Job]) -> list[Job]:
        """Make this process the owner of jobs that are locked and due. Jobs whose family is full are left."""
        for family in sorted({job.family for job in chosen if job.family}):  # in a fixed order, to prevent deadlocks
            job_store.lock_family(tx, family)
        claimed = []
        for job in chosen:
            if job.id in self.tasks:
                continue  # its last task has not ended yet, and two tasks of one owner are indistinguishable
            if job.family and job_store.count_running_in_family(tx, job.tenant_id, job.family) >= self.limits.per_family:
                continue
            claimed.append(jobs.move(tx, job._replace(owner=self.owner), "running"))
        if claimed:
            self.record_heartbeat(tx)  # in the same commit, so that they never look orphaned
        return claimed

    def record_heartbeat(self, tx: Transaction) -> None:
        worker_leases.record_heartbeat(tx, self.owner, self.session.lock, self.facts)

    def mark_locked_dead(self, tx: Transaction, job: Job, error: str) -> None:
        if job.kind in self.handlers:
            self.handlers[job.kind].on_dead(tx, job, error)
        else:  # for example, created by a newer Headway
            jobs.fail_permanently(tx, job, f"This version of Headway has no handler for jobs of kind {job.kind}.")

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
        ended = await retry_storage(lambda: self.database.of(job.tenant_id).write(settle), task)
        if ended is None:
            return
        self.ended_jobs[job.kind, ended] += 1
        self.resolve_waiter(job.id)

    def _mark_dead(self, tx: Transaction, job: Job, error: str) -> None:
        locked = job_store.find_locked_job(tx, job.tenant_id, job.id)
        if not locked or locked.state != "running" or locked.owner != self.owner:
            return
        self.mark_locked_dead(tx, locked, error)

    def _settle(self, tx: Transaction, job: Job) -> str | None:
        """Return the state in which the job has ended, if it has. A job that stopped without a change (for example, because of a
        halt) is requeued."""
        locked = job_store.find_locked_job(tx, job.tenant_id, job.id)
        if locked and locked.state == "running" and locked.owner == self.owner:
            jobs.requeue(tx, locked)
        if locked is None:
            return "deleted"
        return locked.state if locked.over else None

    async def _requeue(self, job: Job) -> None:
        requeue = partial(job_store.requeue, owner=self.owner, job_ids=[job.id])
        await retry_storage(lambda: self.database.write(requeue), f"{job.kind} {job.id}")

    def _done(self, job: Job, *, used_slot: bool) -> None:
        self.tasks.pop(job.id, None)
        self.running[job.tenant_id] -= used_slot
        if not self.running[job.tenant_id]:
            del self.running[job.tenant_id]
        self.bell.set()
