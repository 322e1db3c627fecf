"""Rows of jobs: the queue, its state, and the jobs that are announced to an external dispatcher."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from headway.ledger.cursors import NEWEST
from headway.ledger.job import NEVER, Job, JobState
from headway.storage.columns import Columns
from headway.storage.transaction import Query, Row, Transaction

JOBS = Columns(Job, fixed=("id", "tenant_id", "kind", "payload", "family", "max_attempts", "created_at"))
SELECT = f"SELECT {JOBS.selected} FROM jobs"
INSERT = f"INSERT INTO jobs ({JOBS.stored}) VALUES ({JOBS.marks})"
UPDATE = f"UPDATE jobs SET {JOBS.assignments}, announce_at = 0 WHERE tenant_id = ? AND id = ?"
WAITING_CONDITION = "state IN ('queued', 'delayed')"
# The plus sign keeps SQLite from reading all running jobs of the tenant through that column's index.
FAMILY_CONDITION = """(family = '' OR (
    SELECT COUNT(*) FROM jobs sibling
    WHERE +sibling.tenant_id = jobs.tenant_id AND sibling.family = jobs.family AND sibling.family <> ''
    AND sibling.state = 'running') < ?)"""
IDS_PER_QUERY = 1_000  # databases limit the parameters of a statement


def insert_job(tx: Transaction, job: Job) -> None:
    tx.run(INSERT, *job._replace(due_at=to_steady_time(tx, job.due_at)))


def load_job(tx: Transaction, row: Row) -> Job:
    job = JOBS.load(row)
    return job._replace(due_at=job.due_at - tx.drift) if job.due_at < NEVER else job


def to_steady_time(tx: Transaction, moment: int) -> int:
    """Convert a time to the steady clock, which does not jump."""
    return moment + tx.drift if moment < NEVER else moment


def find_job(tx: Transaction, tenant_id: int, job_id: str) -> Job | None:
    row = tx.one(f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, job_id)
    return load_job(tx, row) if row else None


def find_locked_job(tx: Transaction, tenant_id: int, job_id: str) -> Job | None:
    """Return the job, locked so that no other transaction can change it, or the run behind it, before this one ends."""
    rows = tx.fetch(build_find_locked(tx, tenant_id, job_id))[0]
    return load_job(tx, rows[0]) if rows else None


def build_find_locked(tx: Transaction, tenant_id: int, job_id: str) -> Query:
    return Query(f"{SELECT} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", (tenant_id, job_id))


def lock_root(tx: Transaction, tenant_id: int, turn_id: str | None, goal_id: int | None) -> None:
    """Lock the job that answers the turn or pursues the goal. SQLite has a single writer, so it needs no lock."""
    if tx.dialect.name == "postgresql":
        column, value = ("turn_id", turn_id) if turn_id else ("goal_id", goal_id)
        tx.run(
            f"""SELECT 1 FROM jobs WHERE tenant_id = ? AND id = (
                    SELECT id FROM runs WHERE tenant_id = ? AND {column} = ? AND parent_run_id IS NULL){tx.dialect.for_update}""",
            tenant_id,
            tenant_id,
            value,
        )


def save_job(tx: Transaction, job: Job) -> None:
    row = job._replace(due_at=to_steady_time(tx, job.due_at))
    tx.run(UPDATE, *JOBS.dump_changed(row), job.tenant_id, job.id)


def delete_job(tx: Transaction, tenant_id: int, job_id: str) -> None:
    tx.run("DELETE FROM jobs WHERE tenant_id = ? AND id = ?", tenant_id, job_id)


def list_job_page(
    tx: Transaction,
    tenant_id: int,
    state: JobState | None,
    limit: int,
    before: tuple[int, str] = NEWEST,
    kind: str | None = None,
) -> list[Job]:
    """List jobs, newest first. `before` is the creation time and id of the last job of the previous page."""
    given = {name: value for name, value in (("state", state), ("kind", kind)) if value is not None}
    condition, parameters = " ".join(f"AND {name} = ?" for name in given), tuple(given.values())
    rows = tx.all(
        f"""{SELECT} WHERE tenant_id = ? {condition} AND (created_at, id) < (?, ?)
            ORDER BY created_at DESC, id DESC LIMIT ?""",
        tenant_id,
        *parameters,
        *before,
        limit,
    )
    return [load_job(tx, row) for row in rows]


def list_delayed(tx: Transaction, tenant_id: int, job_ids: Sequence[str]) -> list[Job]:
    """Return the delayed ones of the given jobs."""
    if not job_ids:
        return []
    marks = ", ".join("?" * len(job_ids))
    rows = tx.all(f"{SELECT} WHERE tenant_id = ? AND state = 'delayed' AND id IN ({marks})", tenant_id, *job_ids)
    return [load_job(tx, row) for row in rows]


def delete_ended(tx: Transaction, before: int, limit: int) -> int:
    """Delete completed and canceled jobs that ended before a time, and return how many. Dead jobs are kept for the operator, and
    jobs of a tenant that is being moved cannot be changed."""
    rows = tx.all(
        """DELETE FROM jobs WHERE (tenant_id, id) IN (
               SELECT tenant_id, id FROM jobs WHERE state IN ('completed', 'canceled') AND updated_at < ?
               AND tenant_id NOT IN (SELECT tenant FROM moves WHERE state IN ('fenced', 'departed')) LIMIT ?) RETURNING id""",
        before,
        limit,
    )
    return len(rows)


# For the engine only: these work across all tenants, and no surface calls them.


def find_next_due(tx: Transaction, kinds: Collection[str]) -> int | None:
    """Return when the next waiting job of these kinds is due."""
    marks = ", ".join("?" * len(kinds))
    row = tx.one(f"SELECT due_at FROM jobs WHERE {WAITING_CONDITION} AND kind IN ({marks}) ORDER BY due_at LIMIT 1", *kinds)
    return int(row[0]) - tx.drift if row else None


def lock_due(tx: Transaction, kinds: Collection[str], per_family: int, limit: int, job_ids: set[str] | None = None) -> list[Job]:
    """Lock and return waiting jobs of these kinds that are due and whose family has a free slot. Jobs locked by other processes are
    skipped. `job_ids` restricts this to the given jobs and the jobs they started."""
    kind_marks = ", ".join("?" * len(kinds))
    marks = ", ".join("?" * len(job_ids or ()))
    condition = "" if job_ids is None else f"AND (id IN ({marks}) OR family IN ({marks}))"
    rows = tx.all(
        f"""{SELECT} WHERE {WAITING_CONDITION} AND due_at <= ? AND kind IN ({kind_marks}) {condition}
            AND {FAMILY_CONDITION}
            ORDER BY due_at, id LIMIT ?{tx.dialect.skip_locked}""",
        to_steady_time(tx, tx.now),
        *kinds,
        *(job_ids or ()),
        *(job_ids or ()),
        per_family,
        limit,
    )
    return [load_job(tx, row) for row in rows]


class FirstDue(NamedTuple):
    tenant_id: int
    job_id: str | None  # its first job that is due, or None if all its waiting jobs are due later


def list_first_due(tx: Transaction, kinds: Collection[str], per_family: int, after: int, limit: int) -> list[FirstDue]:
    """List up to `limit` tenants with waiting jobs and an id above `after`, each with its first job that is due. The index is read
    from one tenant to the next, so the cost does not depend on the number of jobs."""
    rows = tx.all(
        f"""WITH RECURSIVE waiting (tenant_id) AS (
                SELECT (SELECT tenant_id FROM jobs WHERE {WAITING_CONDITION} AND tenant_id > ?
                        ORDER BY tenant_id, due_at, id LIMIT 1)
                UNION ALL
                SELECT (SELECT later.tenant_id FROM jobs later WHERE later.{WAITING_CONDITION}
                        AND later.tenant_id > waiting.tenant_id ORDER BY later.tenant_id, later.due_at, later.id LIMIT 1)
                FROM waiting WHERE waiting.tenant_id IS NOT NULL)
            SELECT waiting.tenant_id, (
                SELECT id FROM jobs WHERE {WAITING_CONDITION} AND jobs.tenant_id = waiting.tenant_id AND due_at <= ?
                AND kind IN ({", ".join("?" * len(kinds))}) AND {FAMILY_CONDITION} ORDER BY due_at, id LIMIT 1)
            FROM waiting WHERE waiting.tenant_id IS NOT NULL LIMIT ?""",
        after,
        to_steady_time(tx, tx.now),
        *kinds,
        per_family,
        limit,
    )
    return [FirstDue._make(row) for row in rows]


def lock_waiting(tx: Transaction, job_ids: Sequence[str]) -> list[Job]:
    """Lock and return the given jobs that still wait. Jobs locked by other processes are skipped."""
    if not job_ids:
        return []
    marks = ", ".join("?" * len(job_ids))
    sql = f"{SELECT} WHERE id IN ({marks}) AND {WAITING_CONDITION} ORDER BY due_at, id{tx.dialect.skip_locked}"
    return [load_job(tx, row) for row in tx.all(sql, *job_ids)]


def list_waiting_jobs(tx: Transaction, job_ids: Sequence[str]) -> list[Job]:
    """Return the given jobs that wait, even while other processes have locked them."""
    marks = ", ".join("?" * len(job_ids))
    rows = tx.all(f"{SELECT} WHERE id IN ({marks}) AND {WAITING_CONDITION}", *job_ids)
    return [load_job(tx, row) for row in rows]


def lock_family(tx: Transaction, family: str) -> None:
    """Keep other processes from taking jobs of the family until this transaction ends. SQLite needs no lock: it has one writer."""
    if tx.dialect.name == "postgresql":
        tx.run("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", family)


def count_running_in_family(tx: Transaction, tenant_id: int, family: str) -> int:
    row = tx.one("SELECT COUNT(*) FROM jobs WHERE tenant_id = ? AND family = ? AND state = 'running'", tenant_id, family)
    return int(row[0]) if row else 0


def list_running_ids(tx: Transaction, owner: str) -> set[str]:
    return {str(row[0]) for row in tx.all("SELECT id FROM jobs WHERE state = 'running' AND owner = ?", owner)}


def wake_waiting_runs(tx: Transaction, tenant_id: int) -> None:
    """Make the tenant's waiting runs due now, so that each checks again whether it can continue."""
    tx.run(
        """UPDATE jobs SET due_at = ?, announce_at = 0 WHERE tenant_id = ? AND state = 'delayed' AND due_at > ? AND id IN (
               SELECT id FROM runs WHERE tenant_id = ? AND status = 'waiting')""",
        to_steady_time(tx, tx.now),
        tenant_id,
        to_steady_time(tx, tx.now),
        tenant_id,
    )


def list_ended_ids(tx: Transaction, job_ids: Sequence[str]) -> list[str]:
    """Return the given jobs that have ended or no longer exist."""
    if not job_ids:
        return []
    marks = ", ".join("?" * len(job_ids))
    rows = tx.all(f"SELECT id FROM jobs WHERE id IN ({marks}) AND state IN ('queued', 'running', 'delayed')", *job_ids)
    unfinished = {str(row[0]) for row in rows}
    return [job_id for job_id in job_ids if job_id not in unfinished]


def list_settled_ids(tx: Transaction, job_ids: Collection[str]) -> set[str]:
    """Return the given jobs that have ended and whose family has no unfinished job."""
    ids, condition = sorted(job_ids), "state IN ('queued', 'running', 'delayed')"
    busy: set[str] = set()
    for start in range(0, len(ids), IDS_PER_QUERY):
        batch = ids[start : start + IDS_PER_QUERY]
        marks = ", ".join("?" * len(batch))
        sql = f"""SELECT id FROM jobs WHERE id IN ({marks}) AND {condition}
                  UNION SELECT family FROM jobs WHERE family IN ({marks}) AND {condition}"""
        busy.update(str(row[0]) for row in tx.all(sql, *batch, *batch))
    return set(ids) - busy


def requeue(tx: Transaction, owner: str, job_ids: Iterable[str]) -> None:
    for job_id in job_ids:
        tx.run(
            """UPDATE jobs SET state = 'queued', owner = '', due_at = ?, updated_at = ?, announce_at = 0
               WHERE id = ? AND state = 'running' AND owner = ?""",
            to_steady_time(tx, tx.now),
            tx.now,
            job_id,
            owner,
        )


# SQL for announcing waiting jobs to an external engine that dispatches them: `announce_at` says when a job is announced
# next.


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
    """Have these jobs announced at once."""
    now = to_steady_time(tx, tx.now)
    tx.run(
        f"""UPDATE jobs SET announce_at = 0 WHERE (tenant_id, id) IN (
                SELECT tenant_id, id FROM jobs
                WHERE {WAITING_CONDITION} AND due_at <= ? AND announce_at > ?{tx.dialect.skip_locked})""",
        now,
        now + MAX_REPEAT_MS,
    )


# SQL for the queue as a whole: what waits and runs.


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


def list_running(tx: Transaction, tenant_id: int, limit: int) -> list[Job]:
    """List the tenant's running jobs, with the process of each."""
    sql = f"{SELECT} WHERE tenant_id = ? AND state = 'running' ORDER BY created_at DESC, id DESC LIMIT ?"
    return [load_job(tx, row) for row in tx.all(sql, tenant_id, limit)]
