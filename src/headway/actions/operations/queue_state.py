"""The queue as a whole: what waits and runs, and which processes work on it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from headway.actions import jobs
from headway.ledger.job import LEASE_MS
from headway.storage.stores import runs as run_store
from headway.storage.stores.jobs import ALONE_SUFFIX
from headway.storage.stores.operations import queue_state as queue_store
from headway.storage.stores.operations.queue_state import Worker
from headway.storage.transaction import Transaction

LOST_MS = 24 * 3600 * 1000  # how long a process that ended without a word is listed
RUNNING_LIMIT = 500


def build_queue(tx: Transaction, tenant_id: int) -> dict[str, Any]:
    """Count the tenant's jobs by state and kind, without those that have ended well, and measure the longest wait."""
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
    job = jobs.get(tx, tenant_id, job_id)
    run = run_store.find(tx, tenant_id, job.id)
    links = None
    if run:
        names = ("conversation_id", "turn_id", "goal_id", "sub_goal_id", "parent_run_id", "role")
        links = {"run_id": run.id, **{name: getattr(run, name) for name in names}}
    return {"job": job.as_json(), "links": links}


def list_workers(tx: Transaction) -> list[Worker]:
    """List the processes of all tenants that run jobs, and those that stopped answering within a day."""
    return queue_store.list_workers(tx, LOST_MS)


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
