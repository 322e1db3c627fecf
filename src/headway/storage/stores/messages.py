"""SQL for messages: the part of a conversation that people read."""

from headway.ledger.run import Message
from headway.storage.transaction import Transaction

COLUMNS = "id, turn_id, role, content, created_at"


def insert(tx: Transaction, tenant_id: int, conversation_id: int, turn_id: str, role: str, content: str) -> Message:
    row = tx.one(
        f"""INSERT INTO messages (tenant_id, conversation_id, turn_id, role, content, created_at) VALUES (?, ?, ?, ?, ?, ?)
            RETURNING {COLUMNS}""",
        tenant_id,
        conversation_id,
        turn_id,
        role,
        content,
        tx.now,
    )
    assert row is not None
    return Message(*row)


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
