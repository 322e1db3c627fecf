"""Jobs. A job is created in the same transaction as the work it is for, and updated in the same transaction as its results."""

import json
import random
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from headway.actions.access import audit
from headway.ledger import text
from headway.ledger.cursors import NEWEST, CursorCodec
from headway.ledger.errors import Conflict, NotFound
from headway.ledger.events import Event, encode_json
from headway.ledger.job import LEASE_MS, MAX_ATTEMPTS, NEVER, Job, JobState, compute_backoff_ms
from headway.ledger.limits import Limits
from headway.ledger.webhook import JOB_KIND as WEBHOOK_KIND
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction

ERROR_LIMIT = 2_000
ERROR_HISTORY_LIMIT = 20
RETENTION_MS = 30 * 24 * 3600 * 1000
DELETE_BATCH = 1_000  # small, so that other writers get their turn in between
TOOL = "tool"  # the kind of a job that calls one tool


def create_job(
    tx: Transaction,
    tenant_id: int,
    kind: str,
    payload: dict[str, Any],
    *,
    job_id: str = "",
    family: str = "",
    owner: str = "",
    max_attempts: int = MAX_ATTEMPTS,
) -> Job:
    """Create a queued job. With an owner it is running from the start and skips the queue."""
    job = Job(
        id=job_id or str(uuid4()),
        tenant_id=tenant_id,
        kind=kind,
        state="running" if owner else "queued",
        payload=encode_json(payload),
        family=family,
        attempts=0,
        max_attempts=max_attempts,
        errors="[]",
        result="null",
        owner=owner,
        due_at=tx.now,
        created_at=tx.now,
        updated_at=tx.now,
    )
    job_store.insert_job(tx, job)
    return job


def move(tx: Transaction, job: Job, state: JobState, due_at: int | None = None, **changes: Any) -> Job:
    """Change the job's state. Unless it keeps running, it no longer has an owner."""
    owner = job.owner if state == "running" else ""
    changed_job = job._replace(state=state, owner=owner, due_at=tx.now if due_at is None else due_at, updated_at=tx.now, **changes)
    job_store.save_job(tx, changed_job)
    return changed_job


def complete_job(tx: Transaction, job: Job, result: Any = None) -> Job:
    return move(tx, job, "completed", result=json.dumps(result, ensure_ascii=False))


def clear_failures(tx: Transaction, job: Job) -> Job:
    """Clear the error history after progress, because the earlier failures are resolved."""
    return move(tx, job, "running", attempts=0, errors="[]") if job.errors != "[]" else job


def find_owned(tx: Transaction, tenant_id: int, job_id: str, owner: str) -> Job | None:
    """Return the job, locked, if this owner is running it. Only the owner may change what the job is for."""
    job = job_store.find_locked_job(tx, tenant_id, job_id)
    return job if job and job.state == "running" and job.owner == owner else None


def close(tx: Transaction, tenant_id: int, job_id: str, status: str, error: str) -> None:
    """Close a job whose work was completed, canceled or failed. An ended job stays as it is."""
    job = job_store.find_locked_job(tx, tenant_id, job_id)
    if job:
        close_locked(tx, job, status, error)


def close_locked(tx: Transaction, job: Job, status: str, error: str) -> None:
    if job.over:
        return
    if status == "failed":
        fail_permanently(tx, job, error)
    else:
        move(tx, job, "canceled" if status == "canceled" else "completed")


def delay(tx: Transaction, job: Job, until: int = NEVER) -> Job:
    """Let the job wait without a slot, until a given time or until it is woken. It no longer counts as waiting for a retry."""
    return move(tx, job, "delayed", until, attempts=0)


def delete_old(tx: Transaction) -> bool:
    """Delete jobs that ended long ago and heartbeats of dead processes. Returns whether more may be left."""
    worker_leases.delete_stale_leases(tx, RETENTION_MS)
    return job_store.delete_ended(tx, tx.now - RETENTION_MS, DELETE_BATCH) == DELETE_BATCH


def wake_job(tx: Transaction, tenant_id: int, job_id: str) -> None:
    job = job_store.find_locked_job(tx, tenant_id, job_id)
    if job and job.state == "delayed" and not job.attempts:  # a job that waits for a retry keeps waiting
        move(tx, job, "queued")


def requeue(tx: Transaction, job: Job) -> Job:
    return move(tx, job, "queued")


def retry_later(tx: Transaction, job: Job, error: str, limits: Limits, retry_after_s: float | None = None) -> Job:
    """Retry after a transient failure, with a delay, up to the job's limit of attempts. A failure for which the provider asked for
    a delay counts as an attempt too."""
    attempts = job.attempts + 1
    job = job._replace(attempts=attempts, errors=append_error(job, error))
    if attempts >= job.max_attempts:
        return mark_dead(tx, job)
    chance = random.random()  # noqa: S311  not security-relevant
    return move(tx, job, "delayed", tx.now + compute_backoff_ms(attempts, limits, chance, retry_after_s))


def fail_permanently(tx: Transaction, job: Job, error: str) -> Job:
    """Mark the job dead after a failure that no retry can fix."""
    return mark_dead(tx, job._replace(attempts=job.attempts + 1, errors=append_error(job, error)))


def mark_dead(tx: Transaction, job: Job) -> Job:
    job = move(tx, job, "dead")
    tx.emit(Event(job.tenant_id, "job_dead", encode_json({"job": job.as_json()}), subject=f"job:{job.id}"))
    return job


def add_dead_letter(tx: Transaction, source: Job, kind: str, payload: dict[str, Any], error: str) -> Job:
    """Store a dead job for one part of another job's work that failed for good, with the failures counted so far."""
    job = create_job(tx, source.tenant_id, kind, payload, max_attempts=source.max_attempts)
    return fail_permanently(tx, job._replace(attempts=source.attempts, errors=source.errors), error)


def append_error(job: Job, error: str) -> str:
    errors = [*json.loads(job.errors), error[:ERROR_LIMIT]]
    return json.dumps(errors[-ERROR_HISTORY_LIMIT:], ensure_ascii=False)


# The processes that run jobs


def count_live_workers(tx: Transaction) -> int:
    """Count the live processes that take any job that is due."""
    return worker_leases.count_live_workers(tx, LEASE_MS)


def count_all(tx: Transaction) -> tuple[int, int]:
    """Count the due jobs and the running jobs of all tenants."""
    return spending_store.count_all_jobs(tx)


class QueueTotals(NamedTuple):
    """The jobs of all tenants, and the processes that take them."""

    due: int
    running: int
    dead: int
    oldest_due_s: float  # how long the job has waited that has waited longest
    workers: int


def measure_queue(tx: Transaction) -> QueueTotals:
    """Measure the queue of all tenants, for the operator."""
    due, running = count_all(tx)
    oldest = spending_store.find_oldest_due(tx)
    waited_s = max(0, tx.now + tx.drift - oldest) / 1000 if oldest else 0.0
    return QueueTotals(due, running, spending_store.count_all_dead_jobs(tx), waited_s, count_live_workers(tx))


def has_orphans(tx: Transaction) -> bool:
    """Whether a running job has lost its process."""
    return worker_leases.has_orphans(tx, worker_leases.Leases(LEASE_MS, LEASE_MS))


# Requested by people


def find_job(tx: Transaction, tenant_id: int, job_id: str) -> Job | None:
    return job_store.find_job(tx, tenant_id, text.check_text(job_id, "job_id"))


def get_job(tx: Transaction, tenant_id: int, job_id: str) -> Job:
    job = find_job(tx, tenant_id, job_id)
    if job is None:
        raise NotFound(f"No job {job_id[:80]!r}.")
    return job


def get_locked_job(tx: Transaction, tenant_id: int, job_id: str) -> Job:
    job = job_store.find_locked_job(tx, tenant_id, text.check_text(job_id, "job_id"))
    if job is None:
        raise NotFound(f"No job {job_id[:80]!r}.")
    return job


def cancel_job(tx: Transaction, tenant_id: int, job_id: str) -> Job:
    """Cancel a job and stop its work. One that runs an agent is refused: cancel the agent or turn, or abandon the goal."""
    job = get_locked_job(tx, tenant_id, job_id)
    if job.over:
        raise Conflict(f"Job {job.id} has already ended: {job.state}.")
    if job.kind == WEBHOOK_KIND:
        raise Conflict(f"This job delivers to the webhook {job.id}: pause or delete the webhook instead.")
    run = run_store.find_run(tx, tenant_id, job.id)
    if run is None:
        return move(tx, job, "canceled")
    if run.is_main:
        raise Conflict(f"This job pursues goal #{run.goal_id}: pause or abandon the goal instead.")
    if run.parent_run_id is None:
        raise Conflict(f"This job answers turn {run.turn_id}: cancel the turn instead.")
    raise Conflict(f"This job is the sub-agent {run.id}: cancel the agent instead.")


def check_dead(job: Job) -> Job:
    if job.state != "dead":
        raise Conflict(f"Job {job.id} is {job.state}; only dead jobs can be retried or dropped.")
    return job


def drop(tx: Transaction, tenant_id: int, job_id: str) -> None:
    """Delete a dead job, so that it cannot be retried."""
    job = check_dead(get_locked_job(tx, tenant_id, job_id))
    job_store.delete_job(tx, tenant_id, job_id)
    record_decision(tx, job, "job.drop", None)


def record_decision(tx: Transaction, job: Job, action: str, new: dict[str, Any] | None) -> None:
    """Record what was decided about a dead job."""
    old = {"state": job.state, "kind": job.kind, "attempts": job.attempts, "errors": json.loads(job.errors)[-1:]}
    audit.record_in_audit(tx, job.tenant_id, action, f"job:{job.id}", old, new)


def revive(tx: Transaction, job: Job) -> Job:
    """Queue a dead job again, with the same payload and no failures."""
    return move(tx, check_dead(job), "queued", attempts=0, errors="[]", result="null")


def retry_times(tx: Transaction, tenant_id: int, job_ids: Sequence[str]) -> dict[str, int]:
    """Return when failed jobs are retried, by job id, in epoch seconds."""
    delayed = job_store.list_delayed(tx, tenant_id, job_ids)
    return {job.id: job.retry_at for job in delayed}


# Lists, newest first


JOB_CURSORS = CursorCodec("jobs", NEWEST)


class JobPage(NamedTuple):
    jobs: list[Job]
    next_cursor: str | None

    def as_json(self) -> dict[str, Any]:
        return {"jobs": [job.as_json() for job in self.jobs], "next_cursor": self.next_cursor}


def list_jobs(
    tx: Transaction,
    tenant_id: int,
    state: JobState | None,
    limit: int,
    cursor: str | None = None,
    kind: str | None = None,
) -> JobPage:
    kind = None if kind is None else text.check_name(kind, "kind")
    rows = job_store.list_job_page(tx, tenant_id, state, limit + 1, JOB_CURSORS.decode(cursor), kind)
    next_cursor = JOB_CURSORS.encode_next(rows, limit, lambda job: (job.created_at, job.id))
    return JobPage(rows[:limit], next_cursor)


def list_all_dead_jobs(tx: Transaction, limit: int) -> list[tuple[str, Job]]:
    """List the dead jobs of all tenants with their tenants' names, newest first. On Postgres only, for operators."""
    return spending_store.list_all_dead_jobs(tx, limit)
