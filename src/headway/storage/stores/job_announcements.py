"""SQL for announcing waiting jobs to an external engine that dispatches them: `announce_at` says when a job is announced next.

It is an outbox: a statement of jobs.py that lets a job wait, or changes when it is due, sets `announce_at` to 0, which means at
once. A process that announces the job sets it to the time of the repetition, in case the announcement is lost. Like due times, it
is stored by the steady clock.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from headway.ledger.job import NEVER
from headway.storage.stores.jobs import WAITING_CONDITION, to_steady_time
from headway.storage.transaction import Transaction

REPEAT_MS: Final = 8_000  # how long after its due time a job that still waits is announced again
MAX_REPEAT_MS: Final = 60_000  # it is repeated after twice the time that the job is late, but at least this often
# With the number itself, because both databases then use the index of this condition. Jobs that are never due are not announced.
ANNOUNCED_CONDITION = f"{WAITING_CONDITION} AND due_at < {NEVER}"


class UnannouncedJob(NamedTuple):
    tenant_id: int
    job_id: str
    due_at: int
    updated_at: int

    def build_key(self, now: int) -> str:
        """Identify this move of the job, and which repetition of the announcement it is."""
        return f"{self.job_id}:{self.updated_at}:{self.due_at}:{max(0, now - self.due_at) // REPEAT_MS}"


def find_next_time(tx: Transaction, kinds: Collection[str]) -> int | None:
    """Return when the next job of these kinds is to be announced."""
    marks = ", ".join("?" * len(kinds))
    # Without the lower limit, SQLite would read the jobs in the order of their due times and sort them.
    row = tx.one(
        f"""SELECT announce_at FROM jobs WHERE {ANNOUNCED_CONDITION} AND announce_at >= 0 AND kind IN ({marks})
            ORDER BY announce_at LIMIT 1""",
        *kinds,
    )
    return int(row[0]) - tx.drift if row else None


def lock_unannounced(
    tx: Transaction, kinds: Collection[str], limit: int, job_ids: Collection[str] | None = None
) -> list[UnannouncedJob]:
    """Lock and return jobs of these kinds that are to be announced now. Jobs locked by other processes are skipped. `job_ids`
    restricts this to the given jobs."""
    condition = "" if job_ids is None else f"AND id IN ({', '.join('?' * len(job_ids)) or 'NULL'})"
    rows = tx.all(
        f"""SELECT tenant_id, id, due_at, updated_at FROM jobs
            WHERE {ANNOUNCED_CONDITION} AND announce_at <= ? AND kind IN ({", ".join("?" * len(kinds))}) {condition}
            ORDER BY announce_at, due_at LIMIT ?{tx.dialect.skip_locked}""",
        to_steady_time(tx, tx.now),
        *kinds,
        *(job_ids or ()),
        limit,
    )
    return [UnannouncedJob(int(tenant_id), str(job_id), int(due_at) - tx.drift, int(at)) for tenant_id, job_id, due_at, at in rows]


def mark_announced(tx: Transaction, job_ids: Sequence[str]) -> None:
    """Record that the jobs are being announced, and when to repeat it if they still wait."""
    now = to_steady_time(tx, tx.now)
    tx.run(
        f"""UPDATE jobs SET announce_at = CASE
                WHEN due_at > ? THEN due_at + ? WHEN due_at > ? THEN ? WHEN due_at > ? THEN ? - due_at ELSE ? END
            WHERE {WAITING_CONDITION} AND id IN ({", ".join("?" * len(job_ids))})""",
        now,
        REPEAT_MS,
        now - REPEAT_MS,
        now + REPEAT_MS,
        now - MAX_REPEAT_MS,
        2 * now,
        now + MAX_REPEAT_MS,
        *job_ids,
    )


def announce_again(tx: Transaction, job_ids: Sequence[str], delay_ms: int = 0) -> None:
    """Have jobs announced again, because the dispatcher did not accept them. With a delay, others are announced before them. Jobs
    locked by other processes are skipped, to prevent deadlocks: most of them are about to change, and the rest is repeated."""
    marks = ", ".join("?" * len(job_ids))
    tx.run(
        f"""UPDATE jobs SET announce_at = ? WHERE (tenant_id, id) IN (
                SELECT tenant_id, id FROM jobs WHERE {ANNOUNCED_CONDITION} AND id IN ({marks}){tx.dialect.skip_locked})""",
        to_steady_time(tx, tx.now) + delay_ms,
        *job_ids,
    )


def has_overlooked(tx: Transaction) -> bool:
    """Whether a due job is to be announced later than any repetition. A process that dispatches
    jobs itself may have made it due."""
    now = to_steady_time(tx, tx.now)
    sql = f"SELECT 1 FROM jobs WHERE {WAITING_CONDITION} AND due_at <= ? AND announce_at > ? LIMIT 1"
    return tx.one(sql, now, now + MAX_REPEAT_MS) is not None


def announce_overlooked(tx: Transaction) -> None:
    """Have those jobs announced at once."""
    now = to_steady_time(tx, tx.now)
    tx.run(
        f"""UPDATE jobs SET announce_at = 0 WHERE (tenant_id, id) IN (
                SELECT tenant_id, id FROM jobs
                WHERE {WAITING_CONDITION} AND due_at <= ? AND announce_at > ?{tx.dialect.skip_locked})""",
        now,
        now + MAX_REPEAT_MS,
    )
