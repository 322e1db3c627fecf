"""The engine: runs jobs until they have ended, without knowing what they are for.

A job is a row, created in the same transaction as the work it is for and updated in the same transaction as its results. This
process claims jobs that are due, runs them, and records heartbeats meanwhile. Jobs of a process whose heartbeats have stopped are
taken over (see `takeover`). Before each change a handler checks in the row that this process still owns the job, so a process that
returns late changes nothing.

Which jobs a process claims is decided by its dispatch: `polling`, which is built in, or an external engine behind `port`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headway.actions.engine import schedules
from headway.engine.polling import Polling, ScheduleTicks
from headway.engine.runner import EngineLimits, JobHandler, JobRunner
from headway.engine.takeover import Takeover
from headway.ledger.job import Job
from headway.storage.database import Database
from headway.storage.retry import repeat_forever
from headway.storage.server_session import ServerSession
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction

if TYPE_CHECKING:
    from headway.engine.external import Dispatcher

HEARTBEAT_S = 0.9
GRACE_S = 0.1
IDLE_HEARTBEAT_S = 3.0


class Dispatch(Protocol):
    """The way in which a process finds the jobs that it claims."""

    @property
    def steps(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """Background work, each step repeated forever."""
        ...

    def close(self) -> None:
        """Called when the engine stops, before the steps are canceled."""
        ...


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
        # Without a session only the lease shows that this process is alive.
        self.runner = JobRunner(database, owner, handlers, limits or EngineLimits(), session or ServerSession())
        self.database = self.runner.database
        self.ticks = ScheduleTicks(self.database, tick)
        self.takeover = Takeover(self.runner, on_recovery)
        self.dispatch: Dispatch | None = None
        self.background: list[asyncio.Task[None]] = []
        self.own_jobs: set[str] | None = None
        self.unattended: set[str] = set()  # own jobs that had no task at the last heartbeat
        self.last_heartbeat_at = -IDLE_HEARTBEAT_S

    def start(self, dispatcher: "Dispatcher | None" = None, *, alone: bool = False) -> None:
        """Start working: on jobs that the dispatcher delivers, or without one on all that are due. With `alone`, run only jobs that
        this process created, for short-lived processes."""
        self.own_jobs = set() if alone else None
        if dispatcher is None or alone:
            self.dispatch = Polling(self.runner, self.ticks, self.own_jobs)
        else:
            from headway.engine.external import Dispatched  # noqa: PLC0415  not loaded without a dispatcher

            self.dispatch = Dispatched(self.runner, self.ticks, dispatcher)
        steps = [*self.dispatch.steps, self._beat] if alone else [*self.dispatch.steps, self._beat, self.takeover.sweep]
        self.background = [asyncio.create_task(repeat_forever(step, "the engine")) for step in steps]

    @property
    def alive(self) -> bool:
        return bool(self.background) and not any(task.done() for task in self.background)

    @property
    def owner(self) -> str:
        return self.runner.owner

    @property
    def tasks(self) -> dict[str, "asyncio.Task[None]"]:
        """The tasks of the jobs that run in this process, by job id."""
        return self.runner.tasks

    @property
    def running(self) -> Counter[int]:
        """The number of jobs that run in this process, by tenant."""
        return self.runner.running

    def nudge(self) -> None:
        """Wake the engine, because a job may be due."""
        self.runner.bell.set()

    def adopt(self, job_id: str) -> None:
        """Run this job when it is due, even in `alone` mode."""
        if self.own_jobs is not None:
            self.own_jobs.add(job_id)
        self.runner.bell.set()

    def take(self, job: Job) -> None:
        """Run a job that this process owns. If its tenant already runs as many as it may, it is queued."""
        self.adopt(job.id)
        self.runner.take(job)

    def ended(self, job_id: str) -> "asyncio.Future[None]":
        """Return a future that resolves when the job has ended in any way."""
        return self.runner.ended(job_id)

    def interrupt(self, job_id: str) -> None:
        """Cancel the task that runs the job. The job's row decides how it continues."""
        task = self.tasks.get(job_id)
        if task:
            task.cancel()

    async def stop(self) -> None:
        """Stop cleanly: cancel all tasks and requeue unfinished jobs at once, without waiting for the lease to expire."""
        if self.dispatch:
            self.dispatch.close()
        tasks = [*self.background, *self.tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.runner.release()

    async def _beat(self) -> None:
        """Record a heartbeat, and reconcile the running tasks with the job rows."""
        await asyncio.sleep(HEARTBEAT_S)
        runner = self.runner
        for job_id in await self.database.read(lambda tx: job_store.list_ended_ids(tx, list(runner.waiters))):
            runner.resolve_waiter(job_id)  # another process ended it
        if not self.tasks and not self.unattended and not self._is_heartbeat_due:
            return
        self.last_heartbeat_at = time.monotonic()
        tasks = dict(self.tasks)  # taken before the read, so that jobs that start meanwhile do not look lost
        await self.database.write(runner.record_heartbeat)
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
