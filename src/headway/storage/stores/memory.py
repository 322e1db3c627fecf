"""SQL for the notes that agents keep between runs."""

from typing import Any, NamedTuple

from headway.ledger.scope import Scope
from headway.storage.transaction import Transaction

COLUMNS = "id, conversation_id, agent_id, kind, text, created_at"


class MemoryEntry(NamedTuple):
    """A note that an agent saved for later."""

    id: int
    conversation_id: int
    agent_id: str
    kind: str
    text: str
    created_at: int

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"created_at": self.created_at // 1000}


def insert(tx: Transaction, scope: Scope, kind: str, text: str) -> MemoryEntry:
    row = tx.one(
        f"""INSERT INTO memory_entries (tenant_id, conversation_id, agent_id, kind, text, created_at)
            VALUES (?, ?, ?, ?, ?, ?) RETURNING {COLUMNS}""",
        scope.tenant_id,
        scope.conversation_id,
        scope.agent_id,
        kind,
        text,
        tx.now,
    )
    assert row is not None
    return MemoryEntry._make(row)


def list_newest(tx: Transaction, tenant_id: int, conversation_id: int, limit: int) -> list[MemoryEntry]:
    """List the newest entries of this conversation only."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM memory_entries WHERE tenant_id = ? AND conversation_id = ? ORDER BY id DESC LIMIT ?",
        tenant_id,
        conversation_id,
        limit,
    )
    return [MemoryEntry._make(row) for row in rows]
