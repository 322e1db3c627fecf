"""SQL for the queue as a whole: what waits and runs, and the processes that work on it."""

from typing import NamedTuple

from headway.ledger.job import Job
from headway.storage.stores.jobs import SELECT, load_job, read_clock
from headway.storage.transaction import Transaction

DUE_CONDITION = "state IN ('queued', 'delayed') AND due_at <= ?"


class JobCount(NamedTuple):
    state: str
    kind: str
    number: int


def count_by_state_and_kind(tx: Transaction, tenant_id: int) -> list[JobCount]:
    """Count the tenant's jobs that have not ended, and its dead ones."""
    rows = tx.all(
        """SELECT state, kind, COUNT(*) FROM jobs WHERE tenant_id = ? AND state IN ('queued', 'running', 'delayed', 'dead')
           GROUP BY state, kind ORDER BY state, kind""",
        tenant_id,
    )
    return [JobCount(str(state), str(kind), int(count)) for state, kind, count in rows]


def count_due(tx: Transaction, tenant_id: int) -> int:
    row = tx.one(f"SELECT COUNT(*) FROM jobs WHERE tenant_id = ? AND {DUE_CONDITION}", tenant_id, tx.now + tx.drift)
    return int(row[0]) if row else 0


def find_longest_wait_ms(tx: Transaction, tenant_id: int) -> int:
    """Return how long the tenant's job has waited that has waited longest. 0: none waits."""
    now = tx.now + tx.drift
    row = tx.one(f"SELECT due_at FROM jobs WHERE tenant_id = ? AND {DUE_CONDITION} ORDER BY due_at, id LIMIT 1", tenant_id, now)
    return now - int(row[0]) if row else 0


class Worker(NamedTuple):
    """A process that runs jobs."""

    id: str
    silent_ms: int  # since its last heartbeat
    started_at: int  # 0: a version that did not record it
    slots: int  # how many jobs it runs at once
    version: str
    running: int  # jobs of all tenants


def list_workers(tx: Transaction, kept_ms: int) -> list[Worker]:
    """List the processes with a heartbeat in the last `kept_ms` milliseconds. This works across all tenants."""
    now = read_clock(tx)
    rows = tx.all(
        """SELECT executor_id, beat_at, started_at, slots, version,
                  (SELECT COUNT(*) FROM jobs WHERE state = 'running' AND owner = executor_id)
           FROM worker_leases WHERE beat_at >= ? ORDER BY started_at, executor_id""",
        now - kept_ms,
    )
    return [
        Worker(str(name), max(0, now - int(beat_at)), int(started_at), int(slots), str(version), int(running))
        for name, beat_at, started_at, slots, version, running in rows
    ]


def list_running(tx: Transaction, tenant_id: int, limit: int) -> list[Job]:
    """List the tenant's running jobs, with the process of each."""
    sql = f"{SELECT} WHERE tenant_id = ? AND state = 'running' ORDER BY created_at DESC, id DESC LIMIT ?"
    return [load_job(tx, row) for row in tx.all(sql, tenant_id, limit)]
