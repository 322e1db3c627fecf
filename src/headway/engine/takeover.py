"""Takes over the jobs of processes that have died: their session has ended, or their lease has expired."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from headway.actions.runs import jobs
from headway.engine.runner import JobRunner
from headway.ledger.errors import StorageError
from headway.ledger.job import LEASE_MS, SESSION_LEASE_MS, Job, LeaseWatch
from headway.storage.clocks import read_steady_ms
from headway.storage.stores import jobs as job_store
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.engine")

SWEEP_S = 1.0
RECOVERY_BATCH = 500
MAX_LOST_WORKERS = 10  # how many processes a job may lose without making progress
INTERRUPTED_ERROR = "The process that ran this job was interrupted."


class Takeover:
    def __init__(self, runner: JobRunner, on_recovery: Callable[[Transaction, list[Job]], None]) -> None:
        self.runner = runner
        self.on_recovery = on_recovery  # called with the jobs that were taken over
        self.lease_watch = LeaseWatch()

    @property
    def leases(self) -> worker_leases.Leases:
        """How old the last heartbeat of another process may be. The locks of sessions count once this process has a settled
        session, because an outage of the server ends every session."""
        return worker_leases.Leases(LEASE_MS, SESSION_LEASE_MS if self.runner.session.is_settled else LEASE_MS)

    async def sweep(self) -> None:
        """Take over the jobs of dead processes, then wait a second."""
        database = self.runner.database
        try:
            has_orphans = await database.read(partial(worker_leases.has_orphans, leases=self.leases))
        except StorageError:
            self.lease_watch.record_outage()
            raise
        if self.lease_watch.may_judge(read_steady_ms()) and has_orphans:
            count = await database.write(self.recover)
            if count:
                log.warning("took over %d jobs of workers whose session ended or whose lease expired", count)
                self.runner.bell.set()
        await asyncio.sleep(SWEEP_S)

    def recover(self, tx: Transaction, job_ids: Sequence[str] | None = None) -> int:
        """Requeue jobs whose worker's session ended or whose lease expired, the first at once and the others evenly over
        `stagger_s`. A job that has lost MAX_LOST_WORKERS workers in a row without progress is marked dead."""
        if self.runner.tasks:
            self.runner.record_heartbeat(tx)  # a process that was suspended must not take over its own jobs
        job_store.lock_family(tx, "recovery")  # so that one process recovers all jobs of a dead one and reports it once
        orphans = worker_leases.lock_orphans(tx, self.leases, RECOVERY_BATCH, job_ids)
        requeued = []
        for index, job in enumerate(orphans):
            if job.count_trailing_failures(INTERRUPTED_ERROR) + 1 >= MAX_LOST_WORKERS:
                self.runner.mark_locked_dead(tx, job, INTERRUPTED_ERROR)
                continue
            due_at = tx.now + int(index / len(orphans) * self.runner.limits.stagger_s * 1000)
            requeued.append(jobs.move(tx, job, "queued", due_at, errors=jobs.append_error(job, INTERRUPTED_ERROR)))
        if requeued:
            self.on_recovery(tx, requeued)
        return len(orphans)
