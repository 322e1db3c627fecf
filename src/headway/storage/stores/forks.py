"""SQL for forks: reading what a turn had recorded at a point, and copying it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headway.ledger.events import LoggedEvent
from headway.ledger.run import Effect
from headway.ledger.text import MAX_INTEGER
from headway.storage import logged_transaction
from headway.storage.columns import Columns
from headway.storage.stores.events import EVENTS
from headway.storage.stores.memory import ENTRIES, ORIGINS
from headway.storage.stores.runs import EFFECTS
from headway.storage.transaction import Transaction

GOAL_PREFIX = "goal:"  # of the name of a goal whose runs' results are served


class StoredMessage(NamedTuple):
    n: int
    message: str
    sent: int
    at: int


STORED_MESSAGES = Columns(StoredMessage)


def list_transcript(tx: Transaction, tenant_id: int, run_id: str, after: int = -1, limit: int = MAX_INTEGER) -> list[StoredMessage]:
    sql = f"SELECT {STORED_MESSAGES.selected} FROM transcript WHERE tenant_id = ? AND run_id = ? AND n > ? ORDER BY n LIMIT ?"
    return STORED_MESSAGES.all(tx, sql, tenant_id, run_id, after, limit)


def is_transcript_pruned(tx: Transaction, tenant_id: int, run_id: str) -> bool:
    """Whether the run's transcript was deleted because of its age, at least its beginning."""
    row = tx.one("SELECT MIN(n) FROM transcript WHERE tenant_id = ? AND run_id = ?", tenant_id, run_id)
    if row and row[0] is not None:
        return int(row[0]) > 0
    return tx.one("SELECT 1 FROM runs WHERE tenant_id = ? AND id = ? AND pruned_at <> 0", tenant_id, run_id) is not None


def list_effects(tx: Transaction, tenant_id: int, run_id: str) -> list[Effect]:
    """List the run's tool calls in the order in which it made them."""
    sql = f"SELECT {EFFECTS.selected} FROM effects WHERE tenant_id = ? AND run_id = ? ORDER BY n, call_index"
    return EFFECTS.all(tx, sql, tenant_id, run_id)


class ShownCall(NamedTuple):
    """A tool call as people see it: long texts are cut, with their whole length beside them."""

    n: int
    call_index: int
    call_id: str
    tool: str
    state: str
    replayed: int
    started_at: int
    ended_at: int
    arguments: str
    arguments_length: int
    result: str
    result_length: int


def list_shown_calls(tx: Transaction, tenant_id: int, run_id: str, first: int, last: int, length: int) -> list[ShownCall]:
    """List the calls of the messages with these numbers, in order. Texts are cut to `length` characters by the database."""
    rows = tx.all(
        """SELECT n, call_index, call_id, tool, state, replayed, started_at, ended_at,
            substr(arguments, 1, CAST(? AS INTEGER)), length(arguments),
            substr(result, 1, CAST(? AS INTEGER)), length(result) FROM effects
            WHERE tenant_id = ? AND run_id = ? AND n BETWEEN ? AND ? ORDER BY n, call_index""",
        length,
        length,
        tenant_id,
        run_id,
        first,
        last,
    )
    return [ShownCall._make(row) for row in rows]


def list_events(
    tx: Transaction, tenant_id: int, conversation_id: int, kinds: Sequence[str], after: int, before: int
) -> list[LoggedEvent]:
    """List a conversation's events of these kinds between two sequence numbers, oldest first."""
    return EVENTS.all(
        tx,
        f"""SELECT {EVENTS.selected} FROM events WHERE tenant_id = ? AND conversation_id = ? AND seq > ? AND seq < ?
            AND kind IN ({", ".join("?" * len(kinds))}) ORDER BY seq""",
        tenant_id,
        conversation_id,
        after,
        before,
        *kinds,
    )


def list_subject_events(tx: Transaction, tenant_id: int, subject: str, kinds: Sequence[str]) -> list[LoggedEvent]:
    """List the events of these kinds about a subject, oldest first."""
    sql = f"""SELECT {EVENTS.selected} FROM events WHERE tenant_id = ? AND subject = ?
        AND kind IN ({", ".join("?" * len(kinds))}) ORDER BY seq"""
    return EVENTS.all(tx, sql, tenant_id, subject, *kinds)


def find_first_entry(tx: Transaction, tenant_id: int, goal_id: int) -> str | None:
    """Return the data of the first event about a journal entry of a goal that is in the log."""
    row = tx.one(
        "SELECT data FROM events WHERE tenant_id = ? AND subject = ? AND kind = 'journal_appended' ORDER BY seq LIMIT 1",
        tenant_id,
        f"{GOAL_PREFIX}{goal_id}",
    )
    return str(row[0]) if row else None


def find_first_event_since(tx: Transaction, tenant_id: int, conversation_id: int, after: int, at: int) -> int | None:
    """Return the number of the first event of the conversation after a number and not before a time."""
    row = tx.one(
        "SELECT MIN(seq) FROM events WHERE tenant_id = ? AND conversation_id = ? AND seq > ? AND at >= ?",
        tenant_id,
        conversation_id,
        after,
        at,
    )
    return int(row[0]) if row and row[0] is not None else None


def find_last_event(
    tx: Transaction, tenant_id: int, conversation_id: int, turn_id: str, kind: str, before: int
) -> LoggedEvent | None:
    """Return the last event of a kind that a turn had before a sequence number."""
    return EVENTS.one(
        tx,
        f"""SELECT {EVENTS.selected} FROM events WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ? AND kind = ?
            AND seq < ? ORDER BY seq DESC LIMIT 1""",
        tenant_id,
        conversation_id,
        turn_id,
        kind,
        before,
    )


# Copies


def copy_transcript(tx: Transaction, tenant_id: int, source_id: str, run_id: str, before: int) -> None:
    """Copy a run's messages with a number below `before`."""
    rows = tx.all(
        """INSERT INTO transcript (run_id, n, tenant_id, message, sent, at)
           SELECT CAST(? AS TEXT), n, tenant_id, message, sent, at FROM transcript WHERE tenant_id = ? AND run_id = ? AND n < ?
           RETURNING octet_length(message)""",
        run_id,
        tenant_id,
        source_id,
        before,
    )
    tx.count_stored(tenant_id, sum(size for (size,) in rows))


def replace_message(tx: Transaction, tenant_id: int, run_id: str, n: int, message: str) -> None:
    tx.run("UPDATE transcript SET message = ? WHERE tenant_id = ? AND run_id = ? AND n = ?", message, tenant_id, run_id, n)


REPLAYED_EFFECT = ", ".join("1" if name == "replayed" else name for name in EFFECTS.names)


def copy_effects(tx: Transaction, tenant_id: int, source_id: str, run_id: str, before: int) -> None:
    """Copy the ended calls of a run's messages with a number below `before`."""
    rows = tx.all(
        f"""INSERT INTO effects (run_id, tenant_id, {EFFECTS.stored}, ended_at)
            SELECT CAST(? AS TEXT), tenant_id, {REPLAYED_EFFECT}, ended_at FROM effects
            WHERE tenant_id = ? AND run_id = ? AND n < ? AND state NOT IN ('proposed', 'started')
            RETURNING octet_length(arguments) + octet_length(result) + octet_length(images)""",
        run_id,
        tenant_id,
        source_id,
        before,
    )
    tx.count_stored(tenant_id, sum(size for (size,) in rows))


def copy_attachments(tx: Transaction, tenant_id: int, source_id: str, turn_id: str) -> None:
    rows = tx.all(
        """INSERT INTO attachments (turn_id, n, tenant_id, name, media_type, data, created_at)
           SELECT CAST(? AS TEXT), n, tenant_id, name, media_type, data, created_at FROM attachments
           WHERE tenant_id = ? AND turn_id = ? RETURNING octet_length(data)""",
        turn_id,
        tenant_id,
        source_id,
    )
    tx.count_stored(tenant_id, sum(size for (size,) in rows))


COPIED_OF_ENTRY = ", ".join([*(name for name in ENTRIES.names if name not in ("id", "conversation_id")), *ORIGINS.names])


def copy_memory(tx: Transaction, tenant_id: int, source_id: int, conversation_id: int, until: int) -> None:
    """Copy the notes that a conversation's agents had made before a time."""
    rows = tx.all(
        """SELECT id, octet_length(text) FROM memory_entries
           WHERE tenant_id = ? AND conversation_id = ? AND created_at < ? ORDER BY id""",
        tenant_id,
        source_id,
        until,
    )
    tx.count_stored(tenant_id, sum(size for _, size in rows))
    for entry_id, _ in rows:
        tx.run(
            f"""INSERT INTO memory_entries (id, conversation_id, tenant_id, {COPIED_OF_ENTRY})
                SELECT CAST(? AS BIGINT), CAST(? AS BIGINT), tenant_id, {COPIED_OF_ENTRY} FROM memory_entries
                WHERE tenant_id = ? AND id = ?""",
            logged_transaction.take(tx, tenant_id, "memory_entries"),
            conversation_id,
            tenant_id,
            entry_id,
        )


def copy_plan_source(tx: Transaction, tenant_id: int, original: tuple[int, str], copy: tuple[int, str]) -> None:
    """Let the plan of a copied turn have the source of the original's. Turns are given as (conversation, turn)."""
    tx.run(
        """UPDATE todo_lists SET plan_source = (SELECT original.plan_source FROM todo_lists original
               WHERE original.tenant_id = todo_lists.tenant_id AND original.conversation_id = ? AND original.turn_id = ?)
           WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ?""",
        *original,
        tenant_id,
        *copy,
    )


def list_todo_uuids(tx: Transaction, tenant_id: int, conversation_id: int) -> dict[int, str]:
    """Return the UUIDs of a conversation's todos, its turns' plans included, by their numbers."""
    rows = tx.all("SELECT id, uuid FROM todos WHERE tenant_id = ? AND conversation_id = ?", tenant_id, conversation_id)
    return {int(todo_id): str(uuid) for todo_id, uuid in rows}


def list_former_names(tx: Transaction, tenant_id: int, conversation_id: int) -> list[tuple[str, int]]:
    """List the names under which a fork's messages know its todos."""
    sql = "SELECT former_name, todo_id FROM todo_copies WHERE tenant_id = ? AND conversation_id = ?"
    return [(str(name), int(todo_id)) for name, todo_id in tx.all(sql, tenant_id, conversation_id)]


def insert_former_names(tx: Transaction, tenant_id: int, conversation_id: int, names: Mapping[str, int]) -> None:
    sql = "INSERT INTO todo_copies (conversation_id, former_name, tenant_id, todo_id) VALUES (?, ?, ?, ?)"
    for name, todo_id in names.items():
        tx.run(sql, conversation_id, name, tenant_id, todo_id)


def find_copy(tx: Transaction, tenant_id: int, conversation_id: int, former_name: str) -> int | None:
    """Return the todo of a fork that is the copy of the one with this number or UUID."""
    sql = "SELECT todo_id FROM todo_copies WHERE tenant_id = ? AND conversation_id = ? AND former_name = ?"
    row = tx.one(sql, tenant_id, conversation_id, former_name)
    return int(row[0]) if row else None


def save_goal_origin(tx: Transaction, tenant_id: int, goal_id: int, forked_from: int, fork_at: int) -> None:
    sql = "UPDATE goals SET forked_from = ?, fork_at = ? WHERE tenant_id = ? AND id = ?"
    tx.run(sql, forked_from, fork_at, tenant_id, goal_id)


def set_replays(tx: Transaction, tenant_id: int, run_id: str, source: str) -> None:
    """Let the recorded results of a run or a goal answer the calls of a run."""
    tx.run("UPDATE runs SET replays = ? WHERE tenant_id = ? AND id = ?", source, tenant_id, run_id)


# Recorded results


def list_recorded(tx: Transaction, tenant_id: int, source: str, tool: str) -> list[Effect]:
    """List the ended calls of a tool that a run made, or all runs of a goal (goal:ID), in order."""
    is_goal = source.startswith(GOAL_PREFIX)
    condition = "run_id IN (SELECT id FROM runs WHERE tenant_id = ? AND goal_id = ?)" if is_goal else "run_id = ?"
    parameters = (tenant_id, int(source.removeprefix(GOAL_PREFIX))) if is_goal else (source,)
    sql = f"""SELECT {EFFECTS.selected} FROM effects WHERE tenant_id = ? AND {condition} AND tool = ?
        AND state NOT IN ('proposed', 'started') ORDER BY started_at, run_id, n, call_index"""
    return EFFECTS.all(tx, sql, tenant_id, *parameters, tool)
