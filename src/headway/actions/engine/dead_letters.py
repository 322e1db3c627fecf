"""The queue for operators: its state, dead jobs, and changes of many jobs at once."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from headway.actions.goals import goals
from headway.actions.installation import halts
from headway.actions.runs import jobs, runs
from headway.actions.turns import turns
from headway.ledger.errors import Conflict, HeadwayError, Invalid, StorageError
from headway.ledger.job import LEASE_MS, Job
from headway.ledger.limits import Limits
from headway.ledger.run import Run
from headway.storage.stores import jobs as queue_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import worker_leases
from headway.storage.stores.worker_leases import ALONE_SUFFIX, Worker
from headway.storage.transaction import Transaction


def retry(tx: Transaction, tenant_id: int, job_id: str, limits: Limits = goals.DEFAULT_LIMITS) -> Job:
    """Retry a dead job. A turn continues under the same id from the end of its transcript, and a goal from its last checkpoint. A
    job that is waiting for a retry is retried now."""
    halts.check(tx)
    job = jobs.get_locked_job(tx, tenant_id, job_id)
    if job.retry_at:
        return jobs.requeue(tx, job)
    jobs.check_dead(job)
    jobs.record_decision(tx, job, "job.retry", {"state": "queued"})
    run = run_store.find_run(tx, tenant_id, job.id)
    if run is not None and run.is_main:
        return retry_goal(tx, run, limits)
    if run is not None and run.sub_goal_id is not None:
        raise Conflict(f"This sub-agent worked for goal #{run.goal_id}, which has replanned without it. See the goal instead.")
    job = jobs.revive(tx, job)
    if run is not None and run.ended:
        if run.parent_run_id is None:
            turns.revive(tx, run)
        else:
            runs.revive(tx, run)
    return job


def retry_goal(tx: Transaction, run: Run, limits: Limits) -> Job:
    assert run.goal_id is not None
    goals.resume(tx, run.tenant_id, run.goal_id, limits)
    return jobs.get_job(tx, run.tenant_id, run.id)


# Retries or drops many dead letters at once, at most BULK_LIMIT in one transaction.


BULK_LIMIT: Final = 100

BulkAction = Literal["retry", "drop"]


class BulkSelection(NamedTuple):
    """Dead jobs, newest first: the given ones, or a page of all or of one kind."""

    ids: tuple[str, ...] | None = None
    kind: str | None = None
    limit: int = BULK_LIMIT
    cursor: str | None = None


def change_dead_jobs(tx: Transaction, tenant_id: int, action: BulkAction, selection: BulkSelection) -> dict[str, Any]:
    """Retry or drop the selected dead jobs. A job that cannot be changed is named with the reason, and the others are changed."""
    if selection.ids is not None and (selection.kind or selection.cursor):
        raise Invalid("Give either ids, or kind and cursor.")
    if action == "retry":
        halts.check(tx)
    ids, next_cursor = choose_ids(tx, tenant_id, selection)
    changed, refused = [], []
    for job_id in sorted(ids):  # two requests lock the jobs in the same order
        try:
            tx.attempt(lambda tx, job_id=job_id: change_jobs(tx, tenant_id, action, job_id))  # type: ignore[misc]
            changed.append(job_id)
        except StorageError:
            raise
        except HeadwayError as error:
            refused.append({"id": job_id, "detail": str(error)})
    return {"changed": changed, "refused": refused, "next_cursor": next_cursor}


def choose_ids(tx: Transaction, tenant_id: int, selection: BulkSelection) -> tuple[list[str], str | None]:
    """Return the ids of the selected jobs, and the cursor of the next page."""
    if selection.ids is not None:
        return list(dict.fromkeys(selection.ids)), None
    page = jobs.list_jobs(tx, tenant_id, "dead", selection.limit, selection.cursor, selection.kind)
    return [job.id for job in page.jobs], page.next_cursor


def change_jobs(tx: Transaction, tenant_id: int, action: BulkAction, job_id: str) -> None:
    if action == "drop":
        jobs.drop(tx, tenant_id, job_id)
        return
    jobs.check_dead(jobs.get_locked_job(tx, tenant_id, job_id))
    retry(tx, tenant_id, job_id)


# The queue as a whole: what waits and runs, and which processes work on it.


LOST_MS = 24 * 3600 * 1000  # how long a process that ended without a word is listed
RUNNING_LIMIT = 500


def build_queue(tx: Transaction, tenant_id: int) -> dict[str, Any]:
    """Count the tenant's jobs by state and kind, without jobs that ended well, and measure the longest wait."""
    return {
        "counts": [
            {"state": row.state, "kind": row.kind, "count": row.number}
            for row in queue_store.count_by_state_and_kind(tx, tenant_id)
        ],
        "due": queue_store.count_due(tx, tenant_id),
        "oldest_due_s": queue_store.find_longest_wait_ms(tx, tenant_id) / 1000,
    }


def show_job(tx: Transaction, tenant_id: int, job_id: str) -> dict[str, Any]:
    """Return a job, and the turn, goal or agent that it works for."""
    job = jobs.get_job(tx, tenant_id, job_id)
    run = run_store.find_run(tx, tenant_id, job.id)
    links = None
    if run:
        names = ("conversation_id", "turn_id", "goal_id", "sub_goal_id", "parent_run_id", "role")
        links = {"run_id": run.id, **{name: getattr(run, name) for name in names}}
    return {"job": job.as_json(), "links": links}


def list_workers(tx: Transaction) -> list[Worker]:
    """List the processes of all tenants that run jobs, and processes that stopped answering within a day."""
    return worker_leases.list_workers(tx, LOST_MS)


def group_running_jobs(tx: Transaction, tenant_id: int) -> dict[str, list[dict[str, Any]]]:
    """Return the tenant's running jobs by the process that runs them."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for job in queue_store.list_running(tx, tenant_id, RUNNING_LIMIT):
        groups.setdefault(job.owner, []).append({"id": job.id, "kind": job.kind, "since": job.updated_at // 1000})
    return groups


def encode_worker(
    worker: Worker, now_ms: int, jobs_by_worker: Mapping[str, list[dict[str, Any]]] = MappingProxyType({})
) -> dict[str, Any]:
    """Return a process as JSON, with the jobs of one tenant only."""
    host, pid, _ = worker.id.removesuffix(ALONE_SUFFIX).rsplit(":", 2) if worker.id.count(":") >= 2 else (worker.id, "", "")
    return {
        "id": worker.id,
        "host": host,
        "pid": int(pid) if pid.isdigit() else 0,
        "version": worker.version,
        "is_alive": worker.silent_ms <= LEASE_MS,
        "takes_all_jobs": not worker.id.endswith(ALONE_SUFFIX),
        "started_at": worker.started_at // 1000,
        "last_seen_at": (now_ms - worker.silent_ms) // 1000,
        "slots": worker.slots,
        "running": worker.running,
        "jobs": jobs_by_worker.get(worker.id, []),
    }
