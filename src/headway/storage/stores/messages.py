"""Rows of messages: the part of a conversation that people read, and what they send to a running agent."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.ledger.run import Message, MessageKind, MessageRole, Run, SteeringMessage
from headway.ledger.text import count_bytes
from headway.storage import logged_transaction
from headway.storage.columns import Column, Columns
from headway.storage.transaction import Transaction

MESSAGES = Columns(Message, unread=("attachments",))
STEERING = Columns(
    SteeringMessage,
    turn_id=Column(sql="(SELECT runs.turn_id FROM runs WHERE runs.tenant_id = steering.tenant_id AND runs.id = steering.run_id)"),
)


SELECT_MESSAGE = f"SELECT {MESSAGES.selected} FROM messages"
SELECT_STEERING = f"SELECT {STEERING.selected} FROM steering"


class MessageDraft(NamedTuple):
    turn_id: str
    role: MessageRole
    content: str
    kind: MessageKind = "text"


def insert_message(tx: Transaction, tenant_id: int, conversation_id: int, new: MessageDraft) -> Message:
    tx.count_stored(tenant_id, count_bytes(new.content))
    message = Message(0, new.turn_id, new.role, new.content, tx.now, new.kind)
    return logged_transaction.insert(tx, tenant_id, "messages", MESSAGES, message, conversation_id=conversation_id)


def find_message(tx: Transaction, tenant_id: int, conversation_id: int, message_id: int) -> Message | None:
    sql = f"{SELECT_MESSAGE} WHERE tenant_id = ? AND conversation_id = ? AND id = ?"
    return MESSAGES.one(tx, sql, tenant_id, conversation_id, message_id)


def list_message_page(tx: Transaction, tenant_id: int, conversation_id: int, limit: int, before: int) -> list[Message]:
    """List the last messages with an id below `before`, oldest first."""
    sql = f"{SELECT_MESSAGE} WHERE tenant_id = ? AND conversation_id = ? AND id < ? ORDER BY id DESC LIMIT ?"
    return MESSAGES.all(tx, sql, tenant_id, conversation_id, before, limit)[::-1]


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
    """Return the runtime's closing words, or the part of a stopped answer, by turn. Turns without either are left out."""
    sql = (
        f"""{SELECT_MESSAGE} WHERE tenant_id = ? AND turn_id IN ({", ".join("?" * len(turn_ids))}) AND kind <> 'text' ORDER BY id"""
    )
    return {message.turn_id: message for message in MESSAGES.all(tx, sql, tenant_id, *turn_ids)}


def insert_steering(tx: Transaction, run: Run, content: str, sender: str) -> SteeringMessage:
    """Insert a message that the run has not read, and count it."""
    message = SteeringMessage(0, run.id, run.turn_id, content, sender, tx.now, read_at=0)
    message = logged_transaction.insert(tx, run.tenant_id, "steering", STEERING, message)
    tx.run("UPDATE runs SET unread = unread + 1 WHERE tenant_id = ? AND id = ?", run.tenant_id, run.id)
    return message


def read_steering(tx: Transaction, run: Run) -> list[SteeringMessage]:
    """Mark the run's unread messages as read and return them, oldest first."""
    sql = f"UPDATE steering SET read_at = ? WHERE tenant_id = ? AND run_id = ? AND read_at = 0 RETURNING {STEERING.selected}"
    messages = STEERING.all(tx, sql, tx.now, run.tenant_id, run.id)
    tx.run("UPDATE runs SET unread = 0 WHERE tenant_id = ? AND id = ?", run.tenant_id, run.id)
    return sorted(messages)


def list_unread_steering(tx: Transaction, run: Run) -> list[SteeringMessage]:
    """List the messages that the run has not read, oldest first."""
    sql = f"{SELECT_STEERING} WHERE tenant_id = ? AND run_id = ? AND read_at = 0 ORDER BY id"
    return STEERING.all(tx, sql, run.tenant_id, run.id)


def list_steering(tx: Transaction, run: Run, limit: int) -> list[SteeringMessage]:
    """List the last messages that were sent to the run, oldest first."""
    sql = f"{SELECT_STEERING} WHERE tenant_id = ? AND run_id = ? ORDER BY id DESC LIMIT ?"
    return STEERING.all(tx, sql, run.tenant_id, run.id, limit)[::-1]
