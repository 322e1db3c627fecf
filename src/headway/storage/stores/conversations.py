"""SQL for conversations and their turns."""

from headway.ledger.tenancy import Conversation, Turn
from headway.storage import id_ranges
from headway.storage.transaction import Query, Transaction

COLUMNS = "id, uuid, key, title, created_at, updated_at, folder"
TURN_COLUMNS = "id, conversation_id, request, mode, status, outcome, started_at, ended_at, waiting, forked_from, fork_at"


def insert(tx: Transaction, tenant_id: int, uuid: str, key: str, title: str) -> Conversation | None:
    """Insert a conversation, or return None if the tenant already uses the key."""
    row = tx.one(
        f"""INSERT INTO conversations (id, uuid, tenant_id, key, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (tenant_id, key) DO NOTHING RETURNING {COLUMNS}""",
        id_ranges.take(tx, tenant_id, "conversations"),
        uuid,
        tenant_id,
        key,
        title,
        tx.now,
        tx.now,
    )
    return Conversation._make(row) if row else None


def find(tx: Transaction, tenant_id: int, conversation_id: int) -> Conversation | None:
    row = tx.one(f"SELECT {COLUMNS} FROM conversations WHERE tenant_id = ? AND id = ?", tenant_id, conversation_id)
    return Conversation._make(row) if row else None


def find_by_key(tx: Transaction, tenant_id: int, key: str) -> Conversation | None:
    row = tx.one(f"SELECT {COLUMNS} FROM conversations WHERE tenant_id = ? AND key = ?", tenant_id, key)
    return Conversation._make(row) if row else None


def list_page(tx: Transaction, tenant_id: int, before: int, limit: int) -> list[Conversation]:
    """List the newest conversations with an id below `before`."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM conversations WHERE tenant_id = ? AND id < ? ORDER BY id DESC LIMIT ?",
        tenant_id,
        before,
        limit,
    )
    return [Conversation._make(row) for row in rows]


def file_names(tx: Transaction, tenant_id: int) -> list[tuple[str, int]]:
    """List the (UUID, id) pairs that name the files of the tenant's conversations."""
    rows = tx.all("SELECT uuid, id FROM conversations WHERE tenant_id = ? ORDER BY id", tenant_id)
    return [(str(uuid), int(conversation_id)) for uuid, conversation_id in rows]


INSERT_TURN = f"INSERT INTO turns (tenant_id, {TURN_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def insert_turn(tx: Transaction, tenant_id: int, turn: Turn) -> None:
    """Insert a turn with a new id."""
    tx.run(INSERT_TURN, tenant_id, *turn)


def insert_turn_once(tx: Transaction, tenant_id: int, turn: Turn) -> bool:
    """Insert a turn and return whether it is new. An id that the tenant has used is rejected, on SQLite also another tenant's."""
    return tx.one(f"{INSERT_TURN} ON CONFLICT DO NOTHING RETURNING id", tenant_id, *turn) is not None


def save_turn(tx: Transaction, tenant_id: int, turn: Turn) -> None:
    tx.run(
        "UPDATE turns SET status = ?, outcome = ?, ended_at = ? WHERE tenant_id = ? AND id = ?",
        turn.status,
        turn.outcome,
        turn.ended_at,
        tenant_id,
        turn.id,
    )


def touch(tx: Transaction, tenant_id: int, conversation_id: int, title: str) -> None:
    """Record activity in a conversation. The title is set only if there is none."""
    tx.run(
        "UPDATE conversations SET updated_at = ?, title = CASE title WHEN '' THEN ? ELSE title END WHERE tenant_id = ? AND id = ?",
        tx.now,
        title,
        tenant_id,
        conversation_id,
    )


def set_folder(tx: Transaction, tenant_id: int, conversation_id: int, folder: str) -> None:
    tx.run("UPDATE conversations SET folder = ? WHERE tenant_id = ? AND id = ?", folder, tenant_id, conversation_id)


def find_turn(tx: Transaction, tenant_id: int, turn_id: str) -> Turn | None:
    rows = tx.fetch(build_find_turn(tenant_id, turn_id))[0]
    return Turn._make(rows[0]) if rows else None


def build_find_turn(tenant_id: int, turn_id: str) -> Query:
    return Query(f"SELECT {TURN_COLUMNS} FROM turns WHERE tenant_id = ? AND id = ?", (tenant_id, turn_id))


def build_find_turn_locked(tx: Transaction, tenant_id: int, turn_id: str) -> Query:
    """Build the query for the turn, locked so that no other transaction can change its plan before this one ends."""
    sql = f"SELECT {TURN_COLUMNS} FROM turns WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}"
    return Query(sql, (tenant_id, turn_id))


def find_turn_conversation(tx: Transaction, tenant_id: int, turn_id: str) -> int | None:
    """Return the id of the conversation that the turn belongs to."""
    row = tx.one("SELECT conversation_id FROM turns WHERE tenant_id = ? AND id = ?", tenant_id, turn_id)
    return int(row[0]) if row else None


def find_last_turn(tx: Transaction, tenant_id: int, conversation_id: int) -> str | None:
    """Return the id of the turn that started last."""
    row = tx.one(
        "SELECT id FROM turns WHERE tenant_id = ? AND conversation_id = ? ORDER BY started_at DESC LIMIT 1",
        tenant_id,
        conversation_id,
    )
    return str(row[0]) if row else None
