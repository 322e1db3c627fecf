"""Leases of processes that run jobs: their heartbeats, and the jobs whose process no longer has one."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.ledger.job import Job
from headway.storage.clocks import SERVER_TIME_SQL
from headway.storage.stores.jobs import SELECT, load_job, to_steady_time
from headway.storage.transaction import Transaction

ALONE_SUFFIX = ":alone"  # suffix of the ids of processes that only run the jobs they started


class WorkerFacts(NamedTuple):
    """A process that runs jobs, as it describes itself."""

    started_at: int = 0
    slots: int = 0  # how many jobs it runs at once
    version: str = ""


def record_heartbeat(tx: Transaction, owner: str, session_lock: int | None = None, facts: WorkerFacts | None = None) -> None:
    """Renew the lease of a process. `session_lock` is the number of the lock that its session holds, or 0 if it has no session.
    What is None stays as it is."""
    changes = ["beat_at"] if session_lock is None else ["beat_at", "session_lock"]
    changes += WorkerFacts._fields if facts else ()
    clock = "? + ?" if tx.dialect.name == "sqlite" else f"GREATEST(({SERVER_TIME_SQL}), ?) + ?"  # as in `read_clock`
    tx.run(
        f"""INSERT INTO worker_leases (executor_id, beat_at, session_lock, started_at, slots, version)
            VALUES (?, {clock}, ?, ?, ?, ?)
            ON CONFLICT (executor_id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in changes)}""",
        owner,
        tx.now,
        tx.drift,
        session_lock or 0,
        *(facts or WorkerFacts()),
    )


def release_owner(tx: Transaction, owner: str) -> None:
    """Requeue the unfinished jobs of a process that stops cleanly, and delete its heartbeat."""
    tx.run(
        """UPDATE jobs SET state = 'queued', owner = '', due_at = ?, updated_at = ?, announce_at = 0
           WHERE state = 'running' AND owner = ?""",
        to_steady_time(tx, tx.now),
        tx.now,
        owner,
    )
    tx.run("DELETE FROM worker_leases WHERE executor_id = ?", owner)


def read_clock(tx: Transaction) -> int:
    """Read the clock for heartbeats. It is the same for all processes, to the millisecond, and does not jump."""
    if tx.dialect.name == "sqlite":
        return tx.now + tx.drift
    row = tx.one(SERVER_TIME_SQL)
    # The server's clock may have been set back since the transaction began.
    return max(int(row[0]) if row else 0, tx.now) + tx.drift


def count_live_workers(tx: Transaction, lease_ms: int) -> int:
    """Count the live processes that take any job that is due."""
    sql = "SELECT COUNT(*) FROM worker_leases WHERE beat_at >= ? AND executor_id NOT LIKE ?"
    row = tx.one(sql, read_clock(tx) - lease_ms, f"%{ALONE_SUFFIX}")
    return int(row[0]) if row else 0


def has_live_process(tx: Transaction, lease_ms: int) -> bool:
    """Whether any process is alive, including processes that only run their own jobs."""
    return tx.one("SELECT 1 FROM worker_leases WHERE beat_at >= ? LIMIT 1", read_clock(tx) - lease_ms) is not None


def delete_stale_leases(tx: Transaction, kept_ms: int) -> None:
    tx.run("DELETE FROM worker_leases WHERE beat_at < ?", read_clock(tx) - kept_ms)


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


# Jobs whose process has died. These functions work across all tenants.


class Leases(NamedTuple):
    """For how long after a heartbeat a process counts as alive, in milliseconds."""

    plain: int
    session: int  # once the lock of its session is free


def has_orphans(tx: Transaction, leases: Leases) -> bool:
    """Whether there are running jobs whose process has no current heartbeat. Whether the lock of its session is free is left to
    `list_ended_sessions`: looking it up here would cost a statement per second."""
    now = read_clock(tx)
    sql = """SELECT 1 FROM jobs WHERE state = 'running' AND NOT EXISTS (
                 SELECT 1 FROM worker_leases WHERE executor_id = owner AND beat_at >= CASE session_lock WHEN 0 THEN ? ELSE ? END)
             LIMIT 1"""
    return tx.one(sql, now - leases.plain, now - leases.session) is not None


def list_ended_sessions(tx: Transaction, leases: Leases) -> list[str]:
    """List the processes with running jobs whose last heartbeat is older than a session's lease, and whose session has ended: the
    server has released its lock. The locks are held until this transaction ends."""
    rows = tx.all(
        """SELECT executor_id, session_lock FROM worker_leases WHERE session_lock <> 0 AND beat_at < ?
           AND executor_id IN (SELECT owner FROM jobs WHERE state = 'running') ORDER BY executor_id""",
        read_clock(tx) - leases.session,
    )
    return [owner for owner, lock in rows if tx.one("SELECT pg_try_advisory_xact_lock(?)", lock) == (True,)]


def lock_orphans(tx: Transaction, leases: Leases, limit: int, job_ids: Sequence[str] | None = None) -> list[Job]:
    """Lock and return running jobs whose process has ended or has no current heartbeat. `job_ids` restricts this to the given
    jobs."""
    ended = list_ended_sessions(tx, leases)
    alive = f"AND executor_id NOT IN ({', '.join('?' * len(ended))})" if ended else ""
    condition = "" if job_ids is None else f"AND id IN ({', '.join('?' * len(job_ids)) or 'NULL'})"
    rows = tx.all(
        f"""{SELECT} WHERE state = 'running' AND NOT EXISTS (
                SELECT 1 FROM worker_leases WHERE executor_id = owner AND beat_at >= ? {alive}) {condition}
            ORDER BY created_at, id LIMIT ?{tx.dialect.skip_locked}""",
        read_clock(tx) - leases.plain,
        *ended,
        *(job_ids or ()),
        limit,
    )
    return [load_job(tx, row) for row in rows]
