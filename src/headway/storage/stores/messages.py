"""SQL for messages: the part of a conversation that people read, and what they send to a running agent."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.ledger.run import Message, MessageKind, MessageRole, Run, SteeringMessage
from headway.ledger.text import count_bytes
from headway.storage import id_ranges
from headway.storage.transaction import Row, Transaction

COLUMNS = "id, turn_id, role, content, created_at, kind"
STEERING_COLUMNS = "id, run_id, content, sender, created_at, read_at"


class MessageDraft(NamedTuple):
    turn_id: str
    role: MessageRole
    content: str
    kind: MessageKind = "text"


def insert(tx: Transaction, tenant_id: int, conversation_id: int, new: MessageDraft) -> Message:
    columns = "tenant_id, conversation_id, turn_id, role, content, kind, created_at"
    tx.count_stored(tenant_id, count_bytes(new.content))
    message_id = id_ranges.insert(tx, tenant_id, "messages", columns, tenant_id, conversation_id, *new, tx.now)
    return Message(message_id, new.turn_id, new.role, new.content, tx.now, new.kind)


def find(tx: Transaction, tenant_id: int, conversation_id: int, message_id: int) -> Message | None:
    sql = f"SELECT {COLUMNS} FROM messages WHERE tenant_id = ? AND conversation_id = ? AND id = ?"
    row = tx.one(sql, tenant_id, conversation_id, message_id)
    return Message(*row) if row else None


def list_page(tx: Transaction, tenant_id: int, conversation_id: int, limit: int, before: int) -> list[Message]:
    """List the last messages with an id below `before`, oldest first."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM messages WHERE tenant_id = ? AND conversation_id = ? AND id < ? ORDER BY id DESC LIMIT ?",
        tenant_id,
        conversation_id,
        before,
        limit,
    )
    return [Message(*row) for row in reversed(rows)]


def list_texts(tx: Transaction, tenant_id: int, before: tuple[int, int], length: int, limit: int) -> list[tuple[int, int, str]]:
    """List (conversation, id, beginning of the text) of messages before a (conversation, id), the newest conversations first."""
    rows = tx.all(
        f"""SELECT conversation_id, id, substr(content, 1, {int(length)}) FROM messages
            WHERE tenant_id = ? AND (conversation_id, id) < (?, ?) ORDER BY conversation_id DESC, id DESC LIMIT ?""",
        tenant_id,
        *before,
        limit,
    )
    return [(int(conversation_id), int(message_id), str(content)) for conversation_id, message_id, content in rows]


def list_first_ids(tx: Transaction, tenant_id: int, conversation_id: int, turn_ids: Sequence[str]) -> set[int]:
    """Return the ids of the messages that began these turns."""
    sql = f"""SELECT MIN(id) FROM messages WHERE tenant_id = ? AND conversation_id = ?
        AND turn_id IN ({", ".join("?" * len(turn_ids))}) GROUP BY turn_id"""
    return {int(message_id) for (message_id,) in tx.all(sql, tenant_id, conversation_id, *turn_ids)}


def list_last_words(tx: Transaction, tenant_id: int, turn_ids: Sequence[str]) -> dict[str, Message]:
    """Return the runtime's closing words, or the part of a stopped answer, of those turns that have them, by turn."""
    sql = f"""SELECT {COLUMNS} FROM messages WHERE tenant_id = ? AND turn_id IN ({", ".join("?" * len(turn_ids))})
        AND kind <> 'text' ORDER BY id"""
    return {str(row[1]): Message(*row) for row in tx.all(sql, tenant_id, *turn_ids)}


# Steering: messages to a running agent


def insert_steering(tx: Transaction, run: Run, content: str, sender: str) -> SteeringMessage:
    """Insert a message that the run has not read, and count it."""
    row = tx.one(
        f"""INSERT INTO steering (id, tenant_id, run_id, content, sender, created_at) VALUES (?, ?, ?, ?, ?, ?)
            RETURNING {STEERING_COLUMNS}""",
        id_ranges.take(tx, run.tenant_id, "steering"),
        run.tenant_id,
        run.id,
        content,
        sender,
        tx.now,
    )
    assert row is not None
    tx.run("UPDATE runs SET unread = unread + 1 WHERE tenant_id = ? AND id = ?", run.tenant_id, run.id)
    return to_steering_message(run, row)


def read_steering(tx: Transaction, run: Run) -> list[SteeringMessage]:
    """Mark the run's unread messages as read and return them, oldest first."""
    rows = tx.all(
        f"""UPDATE steering SET read_at = ? WHERE tenant_id = ? AND run_id = ? AND read_at = 0
            RETURNING {STEERING_COLUMNS}""",
        tx.now,
        run.tenant_id,
        run.id,
    )
    tx.run("UPDATE runs SET unread = 0 WHERE tenant_id = ? AND id = ?", run.tenant_id, run.id)
    return [to_steering_message(run, row) for row in sorted(rows)]


def list_unread_steering(tx: Transaction, run: Run) -> list[SteeringMessage]:
    """List the messages that the run has not read, oldest first."""
    sql = f"SELECT {STEERING_COLUMNS} FROM steering WHERE tenant_id = ? AND run_id = ? AND read_at = 0 ORDER BY id"
    return [to_steering_message(run, row) for row in tx.all(sql, run.tenant_id, run.id)]


def list_steering(tx: Transaction, run: Run, limit: int) -> list[SteeringMessage]:
    """List the last messages that were sent to the run, oldest first."""
    sql = f"SELECT {STEERING_COLUMNS} FROM steering WHERE tenant_id = ? AND run_id = ? ORDER BY id DESC LIMIT ?"
    return [to_steering_message(run, row) for row in reversed(tx.all(sql, run.tenant_id, run.id, limit))]


def to_steering_message(run: Run, row: Row) -> SteeringMessage:
    message_id, run_id, *rest = row
    return SteeringMessage(message_id, run_id, run.turn_id, *rest)
