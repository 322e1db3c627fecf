"""Rows that are old, and all rows of a tenant: deleted, exported and counted table by table."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from headway.storage.transaction import Row, Transaction

ROWS_PER_BATCH: Final = 200
BYTES_PER_BATCH: Final = 1024 * 1024
# Tables whose bytes count as stored. `size` below is then exactly what was counted.
COUNTED_TABLES: Final = frozenset(
    ("attachments", "comments", "effects", "events", "file_versions", "memory_entries", "messages", "todos", "transcript")
)
# A call is counted when its result is stored.
EFFECT_SIZE: Final = """CASE WHEN state IN ('proposed', 'started') THEN 0
    ELSE octet_length(arguments) + octet_length(result) + octet_length(images) END"""
TODO_SIZE: Final = """octet_length(subject) + octet_length(description) + octet_length(completion_criteria)
    + octet_length(COALESCE(outcome, '')) + octet_length(checks)"""
OWNERS_PER_QUERY: Final = 50  # runs, conversations or goals that are looked at together

Key = tuple[Any, ...]


class Batch:
    """The rows and bytes that one transaction may still delete."""

    def __init__(self) -> None:
        self.rows = ROWS_PER_BATCH
        self.size = BYTES_PER_BATCH
        self.deleted = 0

    @property
    def is_full(self) -> bool:
        return self.rows <= 0 or self.size <= 0

    def fit(self, sizes: list[int]) -> int:
        """Return how many of the rows with these sizes are deleted now: at least one, unless the batch is full."""
        count = 0
        for size in sizes:
            if self.is_full:
                break
            self.rows -= 1
            self.size -= size
            count += 1
        self.deleted += count
        return count


# Whether something that is still open needs the row

RUN_IS_REPLAYED: Final = """EXISTS (SELECT 1 FROM runs fork
        WHERE fork.tenant_id = runs.tenant_id AND fork.ended_at = 0 AND fork.replays <> ''
        AND (fork.replays = 'goal:' || CAST(runs.goal_id AS TEXT) OR fork.replays = runs.id OR EXISTS (
            SELECT 1 FROM runs source
            WHERE source.tenant_id = fork.tenant_id AND source.id = fork.replays AND source.turn_id = runs.turn_id)))"""

RUN_IS_NEEDED: Final = f"""(
    EXISTS (SELECT 1 FROM runs other
        WHERE other.tenant_id = runs.tenant_id AND other.turn_id = runs.turn_id AND other.ended_at = 0)
    OR EXISTS (SELECT 1 FROM goals WHERE goals.tenant_id = runs.tenant_id AND goals.id = runs.goal_id AND goals.ended_at = 0)
    OR {RUN_IS_REPLAYED}
    OR EXISTS (SELECT 1 FROM jobs WHERE jobs.tenant_id = runs.tenant_id AND jobs.id = runs.id
        AND jobs.state NOT IN ('completed', 'canceled')))"""

EVENT_IS_NEEDED: Final = """(
    EXISTS (SELECT 1 FROM runs WHERE runs.tenant_id = events.tenant_id AND runs.turn_id = events.turn_id AND runs.ended_at = 0)
    OR EXISTS (SELECT 1 FROM goals WHERE goals.tenant_id = events.tenant_id AND goals.status IN ('active', 'paused')
        AND events.subject = 'goal:' || CAST(goals.id AS TEXT)))"""

# The last receipt is the proof of what it is about, and stays with it.
RECEIPT_IS_NEEDED: Final = """NOT EXISTS (SELECT 1 FROM receipts newer
    WHERE newer.tenant_id = receipts.tenant_id AND newer.subject = receipts.subject AND newer.subject_id = receipts.subject_id
    AND newer.id > receipts.id)"""

CONVERSATION_IS_NEEDED: Final = f"""(
    EXISTS (SELECT 1 FROM todo_lists lists WHERE lists.tenant_id = conversations.tenant_id
        AND lists.conversation_id = conversations.id AND lists.turn_id = '' AND lists.pending + lists.in_progress > 0)
    OR EXISTS (SELECT 1 FROM todos WHERE todos.tenant_id = conversations.tenant_id AND todos.conversation_id = conversations.id
        AND todos.completed_at >= (SELECT before FROM age_limit))
    OR EXISTS (SELECT 1 FROM turns WHERE turns.tenant_id = conversations.tenant_id AND turns.conversation_id = conversations.id
        AND turns.ended_at >= (SELECT before FROM age_limit))
    OR EXISTS (SELECT 1 FROM runs WHERE runs.tenant_id = conversations.tenant_id AND runs.conversation_id = conversations.id
        AND runs.turn_id IS NOT NULL AND runs.parent_run_id IS NULL AND (runs.ended_at = 0 OR {RUN_IS_NEEDED})))"""

# Conversations that a person deleted are kept only for a fork that repeats their recorded results.
DELETED_IS_NEEDED: Final = f"""EXISTS (SELECT 1 FROM runs WHERE runs.tenant_id = conversations.tenant_id
    AND runs.conversation_id = conversations.id AND runs.turn_id IS NOT NULL AND runs.parent_run_id IS NULL
    AND (runs.ended_at = 0 OR {RUN_IS_REPLAYED}))"""

GOAL_IS_NEEDED: Final = """(
    EXISTS (SELECT 1 FROM runs WHERE runs.tenant_id = goals.tenant_id AND runs.goal_id = goals.id AND runs.ended_at = 0)
    OR EXISTS (SELECT 1 FROM runs fork WHERE fork.tenant_id = goals.tenant_id AND fork.ended_at = 0
        AND fork.replays = 'goal:' || CAST(goals.id AS TEXT)))"""


# Tables whose rows are deleted one by one


class AgedTable(NamedTuple):
    """A table with rows in the order of their age."""

    name: str
    key: str
    size: str  # SQL: how many bytes a row has
    is_needed: str  # SQL


EVENTS: Final = AgedTable("events", "seq", "octet_length(data)", f"({EVENT_IS_NEEDED} OR seq = (SELECT MAX(seq) FROM newest))")
RECEIPTS: Final = AgedTable("receipts", "id", "octet_length(results)", RECEIPT_IS_NEEDED)
AUDIT: Final = AgedTable("audit", "seq", "octet_length(old) + octet_length(new)", "1 = 0")


class DeletedPart(NamedTuple):
    """The extent of one step: up to which key rows were read, whether these were all, and the last row that was deleted."""

    last_key: int
    is_done: bool
    deleted: int
    last_deleted: int = 0
    last_deleted_at: int = 0


def delete_aged(tx: Transaction, table: AgedTable, tenant_id: int, before: int, after_key: int, batch: Batch) -> DeletedPart:
    """Delete the rows after a key that were written before a time and that nothing needs."""
    rows = tx.all(
        f"""WITH newest AS (SELECT MAX({table.key}) AS seq FROM {table.name} WHERE tenant_id = ?)
            SELECT {table.key}, at, {table.size}, CASE WHEN {table.is_needed} THEN 1 ELSE 0 END FROM {table.name}
            WHERE tenant_id = ? AND {table.key} > ? ORDER BY {table.key} LIMIT ?""",
        tenant_id,
        tenant_id,
        after_key,
        ROWS_PER_BATCH,
    )
    old: list[Row] = []
    for row in rows:
        if row[1] >= before:
            break
        old.append(row)
    count = batch.fit([0 if row[3] else row[2] for row in old])
    keys = [int(row[0]) for row in old[:count] if not row[3]]
    if keys:
        marks = ", ".join("?" * len(keys))
        tx.run(f"DELETE FROM {table.name} WHERE tenant_id = ? AND {table.key} IN ({marks})", tenant_id, *keys)
        if table.name in COUNTED_TABLES:
            tx.count_stored(tenant_id, -sum(int(row[2]) for row in old[:count] if not row[3]))
    is_done = count == len(old) and (len(old) < len(rows) or len(rows) < ROWS_PER_BATCH)
    last_key = int(old[count - 1][0]) if count else after_key
    last_deleted = next((row for row in reversed(old[:count]) if not row[3]), (0, 0))
    return DeletedPart(last_key, is_done, len(keys), int(last_deleted[0]), int(last_deleted[1]))


def save_log_mark(tx: Transaction, tenant_id: int, seq: int, at: int) -> None:
    """Record that events up to a number were deleted."""
    tx.run("UPDATE tenants SET log_pruned = ?, log_pruned_at = ? WHERE id = ? AND log_pruned < ?", seq, at, tenant_id, seq)


# Runs, conversations and goals: what is large goes first, piece by piece, and then the rest at once


class OldRow(NamedTuple):
    id: Any
    at: int  # when it ended, or was last used
    is_needed: int
    name: str  # the turn of a run, the UUID of a conversation


class AgedOwner(NamedTuple):
    """A table whose rows own rows of other tables."""

    table: str
    age: str  # the column with the time that counts
    name: str
    is_needed: str  # SQL
    condition: str = "1 = 1"


RUNS_WITH_TRANSCRIPT: Final = AgedOwner("runs", "ended_at", "id", RUN_IS_NEEDED, "ended_at <> 0 AND pruned_at = 0")
RUNS_OF_TURNS: Final = AgedOwner(
    "runs", "ended_at", "turn_id", RUN_IS_NEEDED, "ended_at <> 0 AND turn_id IS NOT NULL AND parent_run_id IS NULL"
)
CONVERSATIONS: Final = AgedOwner("conversations", "updated_at", "uuid", CONVERSATION_IS_NEEDED)
DELETED_CONVERSATIONS: Final = AgedOwner("conversations", "deleted_at", "uuid", DELETED_IS_NEEDED, "deleted_at <> 0")
GOALS: Final = AgedOwner("goals", "ended_at", "status", GOAL_IS_NEEDED, "ended_at <> 0")
FILES: Final = AgedOwner("files", "updated_at", "path", "1 = 0")


def list_old(tx: Transaction, owner: AgedOwner, tenant_id: int, before: int, after: Key) -> list[OldRow]:
    """List the rows whose time is before a limit, oldest first, after a (time, id)."""
    rows = tx.all(
        f"""WITH age_limit AS (SELECT CAST(? AS BIGINT) AS before)
            SELECT id, {owner.age}, CASE WHEN {owner.is_needed} THEN 1 ELSE 0 END, {owner.name} FROM {owner.table}
            WHERE tenant_id = ? AND {owner.condition} AND {owner.age} < ? AND ({owner.age}, id) > (?, ?)
            ORDER BY {owner.age}, id LIMIT ?""",
        before,
        tenant_id,
        before,
        *after,
        OWNERS_PER_QUERY,
    )
    return [OldRow._make(row) for row in rows]


RUNS_OF_TURN: Final = "turn_id = ?"
RUNS_OF_CONVERSATION: Final = "turn_id IN (SELECT id FROM turns WHERE turns.tenant_id = runs.tenant_id AND conversation_id = ?)"
RUNS_OF_GOAL: Final = "goal_id = ?"


def list_run_ids(tx: Transaction, tenant_id: int, condition: str, value: Any) -> list[str]:
    """List the runs of a turn, a conversation or a goal that still have a transcript."""
    sql = f"SELECT id FROM runs WHERE tenant_id = ? AND {condition} AND pruned_at = 0 ORDER BY id LIMIT ?"
    return [str(row[0]) for row in tx.all(sql, tenant_id, value, OWNERS_PER_QUERY)]


def delete_transcript(tx: Transaction, tenant_id: int, run_id: str, batch: Batch) -> bool:
    """Delete a part of a run's transcript and tool calls, from the first message on. Returns whether nothing is left of them."""
    where = "run_id = ?"
    is_done = delete_part(tx, "transcript", ("n",), "octet_length(message)", where, (tenant_id, run_id), batch) and delete_part(
        tx,
        "effects",
        ("n", "call_index"),
        EFFECT_SIZE,
        where,
        (tenant_id, run_id),
        batch,
    )
    if is_done:
        tx.run("UPDATE runs SET pruned_at = ? WHERE tenant_id = ? AND id = ?", tx.now, tenant_id, run_id)
    return is_done


def delete_conversation_parts(tx: Transaction, tenant_id: int, conversation_id: int, batch: Batch) -> bool:
    """Delete a part of what is large in a conversation. Returns whether nothing is left of it. The newest event of the tenant stays
    until the end, because the end of the log must not move back."""
    values = (tenant_id, conversation_id)
    turns = "turn_id IN (SELECT id FROM turns WHERE tenant_id = ? AND conversation_id = ?)"
    mine = "conversation_id = ?"
    older = f"{mine} AND seq < (SELECT MAX(seq) FROM events WHERE tenant_id = ?)"
    return (
        delete_part(tx, "attachments", ("turn_id", "n"), "octet_length(data)", turns, (tenant_id, *values), batch)
        and delete_part(tx, "messages", ("id",), "octet_length(content)", mine, values, batch)
        and delete_part(tx, "events", ("seq",), "octet_length(data)", older, (*values, tenant_id), batch)
        and delete_part(tx, "memory_entries", ("id",), "octet_length(text)", mine, values, batch)
        and delete_part(
            tx,
            "receipts",
            ("id",),
            "octet_length(results)",
            "subject = 'todo' AND subject_id IN (SELECT id FROM todos WHERE tenant_id = ? AND conversation_id = ?)",
            (tenant_id, *values),
            batch,
        )
        and delete_part(tx, "todos", ("id",), TODO_SIZE, mine, values, batch)
        and delete_file_versions(tx, mine, values, batch)
        # After their todos: from then on nobody can add one.
        and delete_part(tx, "comments", ("id",), "octet_length(text)", f"{mine} AND conversation_id <> 0", values, batch)
    )


def delete_conversation(tx: Transaction, tenant_id: int, conversation_id: int) -> None:
    row = tx.one(
        "SELECT SUM(octet_length(context) + octet_length(client_tools)) FROM turns WHERE tenant_id = ? AND conversation_id = ?",
        tenant_id,
        conversation_id,
    )
    tx.count_stored(tenant_id, -int(row[0] or 0) if row else 0)
    for table in ("events", "todo_lists"):
        tx.run(f"DELETE FROM {table} WHERE tenant_id = ? AND conversation_id = ?", tenant_id, conversation_id)
    tx.run("DELETE FROM conversations WHERE tenant_id = ? AND id = ?", tenant_id, conversation_id)


def delete_dead_letters(tx: Transaction, tenant_id: int, conversation_id: int) -> None:
    """Delete the jobs of a conversation's turns that failed for good, so that they are not retried without their turns."""
    tx.run(
        f"""DELETE FROM jobs WHERE tenant_id = ? AND state = 'dead'
            AND id IN (SELECT id FROM runs WHERE tenant_id = ? AND {RUNS_OF_CONVERSATION})""",
        tenant_id,
        tenant_id,
        conversation_id,
    )


def delete_goal_parts(tx: Transaction, tenant_id: int, goal_id: int, batch: Batch) -> bool:
    """Delete a part of what is large in a goal. Returns whether nothing is left of it."""
    about_goal = """(subject = 'goal' AND subject_id = ? OR subject = 'sub_goal' AND subject_id IN
        (SELECT id FROM sub_goals WHERE tenant_id = ? AND goal_id = ?))"""
    about = f"goal:{goal_id}"
    older = "subject = ? AND seq < (SELECT MAX(seq) FROM events WHERE tenant_id = ?)"
    return (
        delete_part(tx, "events", ("seq",), "octet_length(data)", older, (tenant_id, about, tenant_id), batch)
        and delete_part(
            tx, "receipts", ("id",), "octet_length(results)", about_goal, (tenant_id, goal_id, tenant_id, goal_id), batch
        )
        and delete_part(tx, "journal", ("goal_id", "n"), "octet_length(data)", "goal_id = ?", (tenant_id, goal_id), batch)
        and delete_file_versions(tx, "goal_id = ?", (tenant_id, goal_id), batch)
    )


def delete_goal(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    tx.run("DELETE FROM events WHERE tenant_id = ? AND subject = ?", tenant_id, f"goal:{goal_id}")
    tx.run("DELETE FROM goals WHERE tenant_id = ? AND id = ?", tenant_id, goal_id)


def delete_turn_runs(tx: Transaction, tenant_id: int, turn_id: str) -> None:
    tx.run("DELETE FROM runs WHERE tenant_id = ? AND turn_id = ?", tenant_id, turn_id)


def delete_file_versions(tx: Transaction, where: str, parameters: Key, batch: Batch) -> bool:
    """Delete versions of files that meet a condition, and the files that have none left. Returns whether no version is left."""
    keys = ("file_id", "n")
    rows = tx.all(
        f"""SELECT DISTINCT file_id FROM (SELECT file_id FROM file_versions WHERE tenant_id = ? AND {where}
            ORDER BY file_id, n LIMIT {ROWS_PER_BATCH}) AS first_versions""",
        *parameters,
    )
    is_done = delete_part(tx, "file_versions", keys, "COALESCE(octet_length(data), 0)", where, parameters, batch)
    for (file_id,) in rows:
        tx.run(
            """DELETE FROM files WHERE tenant_id = ? AND id = ? AND NOT EXISTS (SELECT 1 FROM file_versions
               WHERE file_versions.tenant_id = files.tenant_id AND file_versions.file_id = files.id)""",
            parameters[0],
            file_id,
        )
    return is_done


def delete_part(tx: Transaction, table: str, keys: tuple[str, ...], size: str, where: str, parameters: Key, batch: Batch) -> bool:
    """Delete the first rows of a tenant that meet a condition. The first parameter is the tenant. Returns whether none is left."""
    key = ", ".join(keys)
    rows = tx.all(
        f"SELECT {key}, {size} FROM {table} WHERE tenant_id = ? AND {where} ORDER BY {key} LIMIT {ROWS_PER_BATCH}", *parameters
    )
    count = batch.fit([row[-1] for row in rows])
    if count:
        marks = ", ".join("?" * len(keys))
        tx.run(f"DELETE FROM {table} WHERE tenant_id = ? AND {where} AND ({key}) <= ({marks})", *parameters, *rows[count - 1][:-1])
        if table in COUNTED_TABLES:
            tx.count_stored(parameters[0], -sum(int(row[-1]) for row in rows[:count]))
    return count == len(rows) and len(rows) < ROWS_PER_BATCH


# One process at a time


def begin_task(tx: Transaction, task: str, interval_ms: int) -> bool:
    """Record that this process does a task now. Returns False if a process began it within the interval."""
    row = tx.one(
        """INSERT INTO housekeeping (task, started_at) VALUES (?, ?)
           ON CONFLICT (task) DO UPDATE SET started_at = excluded.started_at
           WHERE housekeeping.started_at <= excluded.started_at - ? OR housekeeping.started_at > excluded.started_at
           RETURNING task""",
        task,
        tx.now,
        interval_ms,
    )
    return row is not None


# SQL over all tables of a tenant: to export its rows, and to delete them.


def list_tables(tx: Transaction) -> dict[str, list[str]]:
    """Return the columns of every table that holds rows of tenants, by table."""
    rows = tx.all(
        """SELECT tables.name, columns.name FROM sqlite_master tables JOIN pragma_table_info(tables.name) columns
           WHERE tables.type = 'table' ORDER BY tables.name, columns.cid"""
        if tx.dialect.name == "sqlite"
        else """SELECT table_name, column_name FROM information_schema.columns NATURAL JOIN information_schema.tables
                WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY table_name, ordinal_position"""
    )
    tables: dict[str, list[str]] = {}
    for table, column in rows:
        tables.setdefault(str(table), []).append(str(column))
    return {name: columns for name, columns in tables.items() if "tenant_id" in columns or name == "tenants"}


def stream_rows(tx: Transaction, table: str, columns: list[str], tenant_id: int) -> Iterator[Row]:
    """Yield the tenant's rows of a table one by one."""
    names = ", ".join(f'"{column}"' for column in columns)
    owner = "id" if table == "tenants" else "tenant_id"
    return tx.stream(f"SELECT {names} FROM {table} WHERE {owner} = ?", tenant_id)


# Deletion


def stop_work(tx: Transaction, tenant_id: int) -> int:
    """Delete the tenant's tokens, schedules and webhooks, and cancel its jobs. Returns how many jobs were running."""
    for table in ("tokens", "schedules", "idempotency_keys", "webhooks"):
        tx.run(f"DELETE FROM {table} WHERE tenant_id = ?", tenant_id)
    running = tx.all("SELECT id FROM jobs WHERE tenant_id = ? AND state = 'running'", tenant_id)
    tx.run(
        """UPDATE jobs SET state = 'canceled', owner = '', updated_at = ?
           WHERE tenant_id = ? AND state IN ('queued', 'running', 'delayed', 'dead')""",
        tx.now,
        tenant_id,
    )
    return len(running)


def list_repositories(tx: Transaction, tenant_id: int) -> list[str]:
    """List the repositories that the tenant's runs worked in."""
    rows = tx.all("SELECT DISTINCT repository FROM runs WHERE tenant_id = ? AND repository <> '' ORDER BY repository", tenant_id)
    return [str(row[0]) for row in rows]


def list_unpruned_runs(tx: Transaction, tenant_id: int, limit: int) -> list[str]:
    sql = "SELECT id FROM runs WHERE tenant_id = ? AND pruned_at = 0 LIMIT ?"
    return [str(row[0]) for row in tx.all(sql, tenant_id, limit)]


def list_ids(tx: Transaction, table: str, tenant_id: int, limit: int) -> list[int]:
    return [int(row[0]) for row in tx.all(f"SELECT id FROM {table} WHERE tenant_id = ? ORDER BY id LIMIT ?", tenant_id, limit)]


def delete_events(tx: Transaction, tenant_id: int, batch: Batch) -> bool:
    return delete_part(tx, "events", ("seq",), "octet_length(data)", "1 = 1", (tenant_id,), batch)


def delete_todos(tx: Transaction, tenant_id: int, batch: Batch) -> bool:
    """Delete todos and the comments on them."""
    return delete_part(tx, "todos", ("uuid",), TODO_SIZE, "1 = 1", (tenant_id,), batch) and delete_part(
        tx, "comments", ("id",), "octet_length(text)", "1 = 1", (tenant_id,), batch
    )


def delete_files(tx: Transaction, tenant_id: int, batch: Batch) -> bool:
    return delete_file_versions(tx, "1 = 1", (tenant_id,), batch)
