"""SQL for the notes that agents and people keep between runs."""

from typing import Any, NamedTuple

from headway.ledger.scope import TENANT_WIDE, MemorySelection
from headway.ledger.text import count_bytes
from headway.storage import logged_transaction
from headway.storage.columns import Column, Columns
from headway.storage.transaction import Row, Transaction

# SQL: whether a note is not part of a deleted conversation.
MEMORY_IS_SHOWN = """NOT EXISTS (SELECT 1 FROM conversations hidden WHERE hidden.tenant_id = memory_entries.tenant_id
    AND hidden.id = memory_entries.conversation_id AND hidden.deleted_at <> 0)"""


class MemoryOrigin(NamedTuple):
    """The agent or the person that an entry comes from.

    Entries that an agent wrote have its role as `agent_id`; `person` is then who last edited the entry. Entries that a person wrote
    have no `agent_id`.
    """

    agent_id: str = ""
    person: str = ""
    conversation_id: int | None = None  # where the agent worked, also if the entry is tenant-wide
    turn_id: str | None = None
    run_id: str | None = None
    goal_id: int | None = None


class MemoryEntry(NamedTuple):
    """A note for later. Agents in its conversation recall it; if it is tenant-wide, agents in every conversation do."""

    id: int
    conversation_id: int
    kind: str
    text: str
    revision: int  # counts the edits
    created_at: int
    updated_at: int
    origin: MemoryOrigin = MemoryOrigin()

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
            "origin": self.origin._asdict(),
        }


ORIGINS = Columns(MemoryOrigin, conversation_id=Column("origin_conversation_id"))
ENTRIES = Columns(MemoryEntry, unread=("origin",))
SELECT = f"SELECT {ENTRIES.selected}, {ORIGINS.selected} FROM memory_entries"
INSERT = f"""INSERT INTO memory_entries (tenant_id, {ENTRIES.stored}, {ORIGINS.stored})
    VALUES (?, {ENTRIES.marks}, {ORIGINS.marks})"""


def load_entry(row: Row) -> MemoryEntry:
    return ENTRIES.load((*row[: ENTRIES.width], ORIGINS.load(row[ENTRIES.width :])))


def insert_note(tx: Transaction, tenant_id: int, entry: MemoryEntry) -> MemoryEntry:
    """Insert an entry. The id and the times are set here."""
    entry = entry._replace(id=logged_transaction.take(tx, tenant_id, "memory_entries"), created_at=tx.now, updated_at=tx.now)
    tx.run(INSERT, tenant_id, *ENTRIES.dump(entry), *entry.origin)
    tx.count_stored(tenant_id, count_bytes(entry.text))
    return entry


def find_note(tx: Transaction, tenant_id: int, entry_id: int) -> MemoryEntry | None:
    row = tx.one(f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, entry_id)
    return load_entry(row) if row else None


def find_locked_note(tx: Transaction, tenant_id: int, entry_id: int) -> MemoryEntry | None:
    """Return the entry, locked so that no other transaction can change it before this one ends."""
    row = tx.one(f"{SELECT} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", tenant_id, entry_id)
    return load_entry(row) if row else None


def save_note(tx: Transaction, tenant_id: int, old: MemoryEntry, entry: MemoryEntry) -> None:
    """Store the fields that an edit can change."""
    tx.count_stored(tenant_id, count_bytes(entry.text) - count_bytes(old.text))
    tx.run(
        "UPDATE memory_entries SET kind = ?, text = ?, revision = ?, updated_at = ?, person = ? WHERE tenant_id = ? AND id = ?",
        entry.kind,
        entry.text,
        entry.revision,
        entry.updated_at,
        entry.origin.person,
        tenant_id,
        entry.id,
    )


def delete_note(tx: Transaction, tenant_id: int, entry: MemoryEntry) -> None:
    tx.run("DELETE FROM memory_entries WHERE tenant_id = ? AND id = ?", tenant_id, entry.id)
    tx.count_stored(tenant_id, -count_bytes(entry.text))


def list_newest_notes(tx: Transaction, tenant_id: int, conversation_id: int, limit: int) -> list[MemoryEntry]:
    """List the newest entries of this conversation only."""
    return read_page(tx, ["conversation_id = ?"], [tenant_id, conversation_id], limit)


def list_note_page(tx: Transaction, tenant_id: int, selection: MemorySelection, limit: int, before: int) -> list[MemoryEntry]:
    """List entries, newest first, with an id below `before`. Entries of a conversation come with the tenant-wide ones. Each of the
    two lists is read through the index, because one query for both would scan the whole tenant."""
    conditions = ["id < ?"]
    parameters: list[int | str] = [tenant_id, before]
    if selection.kind is not None:
        conditions.append("kind = ?")
        parameters.append(selection.kind)
    if selection.conversation_id is None:
        return read_page(tx, [*conditions, MEMORY_IS_SHOWN], parameters, limit)
    entries = [
        entry
        for conversation_id in {TENANT_WIDE, selection.conversation_id}
        for entry in read_page(tx, [*conditions, "conversation_id = ?"], [*parameters, conversation_id], limit)
    ]
    return sorted(entries, key=lambda entry: entry.id, reverse=True)[:limit]


def read_page(tx: Transaction, conditions: list[str], parameters: list[int | str], limit: int) -> list[MemoryEntry]:
    sql = f"{SELECT} WHERE tenant_id = ? AND {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?"
    return [load_entry(row) for row in tx.all(sql, *parameters, limit)]
