"""Rows of conversations and their turns."""

from collections.abc import Sequence

from headway.ledger.tenancy import Conversation, Turn
from headway.ledger.text import count_bytes
from headway.ledger.todo import Todo
from headway.storage import logged_transaction
from headway.storage.clocks import MIN_DRIFT_MS
from headway.storage.columns import Column, Columns
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Query, Transaction

CONVERSATIONS = Columns(Conversation, unread=("state",))
SELECT = f"SELECT {CONVERSATIONS.selected} FROM conversations"
# Of the unfinished turn, which an index finds: a conversation has one at a time.
STATE = """COALESCE((SELECT CASE WHEN turns.status = 'running' AND turns.waiting > 0 THEN 'waiting' ELSE turns.status END
    FROM runs JOIN turns ON turns.tenant_id = runs.tenant_id AND turns.id = runs.turn_id
    WHERE runs.tenant_id = conversations.tenant_id AND runs.conversation_id = conversations.id AND runs.turn_id IS NOT NULL
    AND runs.parent_run_id IS NULL AND runs.ended_at = 0), 'idle')"""
SELECT_WITH_STATE = f"SELECT {CONVERSATIONS.selected}, {STATE} FROM conversations"
# SQL: the time of the use of a conversation that happens now. It is after the last use of every other one, even if that was in this
# millisecond, or by a connection whose clock is a little ahead. Times that are further ahead were stored while the clock was wrong.
USED_NOW = """(SELECT COALESCE(MAX(used.updated_at) + 1, ?) FROM conversations used
    WHERE used.tenant_id = ? AND used.updated_at BETWEEN ? AND ?)"""
TURNS = Columns(
    Turn,
    plan_source=Column(
        sql="""(SELECT lists.plan_source FROM todo_lists lists WHERE lists.tenant_id = turns.tenant_id
        AND lists.conversation_id = turns.conversation_id AND lists.turn_id = turns.id)"""
    ),
)
SELECT_TURN = f"SELECT {TURNS.selected} FROM turns"


def insert_conversation(tx: Transaction, tenant_id: int, uuid: str, key: str, title: str) -> Conversation | None:
    """Insert a conversation, or return None if the tenant already uses the key."""
    return CONVERSATIONS.one(
        tx,
        f"""INSERT INTO conversations (id, uuid, tenant_id, key, title, created_at, updated_at)
            VALUES (?, ?, ?, ?, ?, ?, {USED_NOW}) ON CONFLICT (tenant_id, key) DO NOTHING RETURNING {CONVERSATIONS.selected}""",
        logged_transaction.take(tx, tenant_id, "conversations"),
        uuid,
        tenant_id,
        key,
        title,
        tx.now,
        *bind_used_now(tx, tenant_id),
    )


def bind_used_now(tx: Transaction, tenant_id: int) -> tuple[int, ...]:
    """Return the parameters of USED_NOW."""
    return tx.now, tenant_id, tx.now, tx.now + MIN_DRIFT_MS


def find_conversation(tx: Transaction, tenant_id: int, conversation_id: int) -> Conversation | None:
    return CONVERSATIONS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ? AND deleted_at = 0", tenant_id, conversation_id)


def find_with_state(tx: Transaction, tenant_id: int, conversation_id: int) -> Conversation | None:
    sql = f"{SELECT_WITH_STATE} WHERE tenant_id = ? AND id = ? AND deleted_at = 0"
    return CONVERSATIONS.one(tx, sql, tenant_id, conversation_id)


def find_by_key(tx: Transaction, tenant_id: int, key: str) -> Conversation | None:
    return CONVERSATIONS.one(tx, f"{SELECT} WHERE tenant_id = ? AND key = ? AND deleted_at = 0", tenant_id, key)


def list_conversation_page(tx: Transaction, tenant_id: int, before: int, limit: int) -> list[Conversation]:
    """List the newest conversations with an id below `before`."""
    sql = f"{SELECT_WITH_STATE} WHERE tenant_id = ? AND id < ? AND deleted_at = 0 ORDER BY id DESC LIMIT ?"
    return CONVERSATIONS.all(tx, sql, tenant_id, before, limit)


def list_by_activity(tx: Transaction, tenant_id: int, before: tuple[int, int], limit: int) -> list[Conversation]:
    """List the conversations that were used last, before a (time, id)."""
    sql = f"""{SELECT_WITH_STATE} WHERE tenant_id = ? AND (updated_at, id) < (?, ?) AND deleted_at = 0
        ORDER BY updated_at DESC, id DESC LIMIT ?"""
    return CONVERSATIONS.all(tx, sql, tenant_id, *before, limit)


def rename_conversation(tx: Transaction, tenant_id: int, conversation_id: int, title: str) -> bool:
    """Set the title. Returns False if there is no such conversation."""
    sql = "UPDATE conversations SET title = ? WHERE tenant_id = ? AND id = ? AND deleted_at = 0 RETURNING id"
    return tx.one(sql, title, tenant_id, conversation_id) is not None


# Deleted conversations, which can be restored for a while


def lock(tx: Transaction, tenant_id: int, conversation_id: int) -> bool:
    """Lock a conversation, so that no turn can be added to it before this transaction ends. Returns False if there is none."""
    sql = f"SELECT id FROM conversations WHERE tenant_id = ? AND id = ? AND deleted_at = 0{tx.dialect.for_update}"
    return tx.one(sql, tenant_id, conversation_id) is not None


def mark_deleted(tx: Transaction, tenant_id: int, conversation_id: int, new_key: str) -> None:
    """Hide a conversation. Its key is free for another one."""
    tx.run(
        "UPDATE conversations SET deleted_at = ?, former_key = key, key = ? WHERE tenant_id = ? AND id = ?",
        tx.now,
        new_key,
        tenant_id,
        conversation_id,
    )


def restore(tx: Transaction, tenant_id: int, conversation_id: int) -> bool:
    """Show a deleted conversation again, with its key unless another one has it by now. Returns False if it was not deleted."""
    row = tx.one(
        """UPDATE conversations SET deleted_at = 0, former_key = '', key = CASE WHEN EXISTS (
                SELECT 1 FROM conversations other WHERE other.tenant_id = conversations.tenant_id
                AND other.key = conversations.former_key) THEN key ELSE former_key END
            WHERE tenant_id = ? AND id = ? AND deleted_at <> 0 RETURNING id""",
        tenant_id,
        conversation_id,
    )
    return row is not None


def list_tenants_with_deleted(tx: Transaction, before: int) -> list[int]:
    """List the tenants with conversations that were deleted before a time."""
    rows = tx.all("SELECT DISTINCT tenant_id FROM conversations WHERE deleted_at <> 0 AND deleted_at < ? ORDER BY 1", before)
    return [int(tenant_id) for (tenant_id,) in rows]


# Turns and files


def file_names(tx: Transaction, tenant_id: int) -> list[tuple[str, int]]:
    """List the (UUID, id) pairs that name the files of the tenant's conversations."""
    rows = tx.all("SELECT uuid, id FROM conversations WHERE tenant_id = ? ORDER BY id", tenant_id)
    return [(str(uuid), int(conversation_id)) for uuid, conversation_id in rows]


INSERT_TURN = f"INSERT INTO turns (tenant_id, {TURNS.stored}) VALUES (?, {TURNS.marks})"


def insert_turn(tx: Transaction, tenant_id: int, turn: Turn) -> None:
    """Insert a turn with a new id."""
    tx.run(INSERT_TURN, tenant_id, *TURNS.dump(turn))
    tx.count_stored(tenant_id, count_bytes(turn.context, turn.client_tools))


def insert_turn_once(tx: Transaction, tenant_id: int, turn: Turn) -> bool:
    """Insert a turn and return whether it is new. An id that the tenant has used is rejected, on SQLite also another tenant's."""
    return tx.one(f"{INSERT_TURN} ON CONFLICT DO NOTHING RETURNING id", tenant_id, *TURNS.dump(turn)) is not None


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
        f"""UPDATE conversations SET updated_at = {USED_NOW}, title = CASE title WHEN '' THEN ? ELSE title END
            WHERE tenant_id = ? AND id = ?""",
        *bind_used_now(tx, tenant_id),
        title,
        tenant_id,
        conversation_id,
    )


def set_client(tx: Transaction, tenant_id: int, conversation: Conversation) -> None:
    """Store whose session the conversation is, and in which folder."""
    tx.run(
        "UPDATE conversations SET folder = ?, client = ?, client_session = ? WHERE tenant_id = ? AND id = ?",
        conversation.folder,
        conversation.client,
        conversation.client_session,
        tenant_id,
        conversation.id,
    )


def list_of_folder(tx: Transaction, tenant_id: int, folder: str, limit: int) -> list[Conversation]:
    """List the newest sessions of assistants in a folder."""
    sql = f"{SELECT} WHERE tenant_id = ? AND folder = ? AND client <> '' AND deleted_at = 0 ORDER BY id DESC LIMIT ?"
    return CONVERSATIONS.all(tx, sql, tenant_id, folder, limit)


def list_open_plans(tx: Transaction, tenant_id: int, conversation_id: int) -> list[Turn]:
    """List the unfinished turns of an assistant's session, its sub-agents' plans included."""
    sql = f"{SELECT_TURN} WHERE tenant_id = ? AND conversation_id = ? AND ended_at = 0 ORDER BY started_at"
    return TURNS.all(tx, sql, tenant_id, conversation_id)


def set_folder(tx: Transaction, tenant_id: int, conversation_id: int, folder: str) -> None:
    tx.run("UPDATE conversations SET folder = ? WHERE tenant_id = ? AND id = ?", folder, tenant_id, conversation_id)


def find_turn(tx: Transaction, tenant_id: int, turn_id: str) -> Turn | None:
    rows = tx.fetch(build_find_turn(tenant_id, turn_id))[0]
    return TURNS.load(rows[0]) if rows else None


def build_find_turn(tenant_id: int, turn_id: str) -> Query:
    return Query(f"{SELECT_TURN} WHERE tenant_id = ? AND id = ?", (tenant_id, turn_id))


def build_find_turn_locked(tx: Transaction, tenant_id: int, turn_id: str) -> Query:
    """Build the query for the turn, locked so that no other transaction can change its plan before this one ends."""
    sql = f"{SELECT_TURN} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}"
    return Query(sql, (tenant_id, turn_id))


def find_turn_conversation(tx: Transaction, tenant_id: int, turn_id: str) -> int | None:
    """Return the id of the conversation that the turn belongs to."""
    row = tx.one("SELECT conversation_id FROM turns WHERE tenant_id = ? AND id = ?", tenant_id, turn_id)
    return int(row[0]) if row else None


def move_plan(tx: Transaction, tenant_id: int, todos: Sequence[Todo], turn_id: str) -> list[Todo]:
    """Move open rows of one turn's plan, in this order, to another turn that has no plan yet. It gets the plan's source."""
    sql = "UPDATE todos SET turn_id = ?, position = ?, updated_at = ? WHERE tenant_id = ? AND id = ?"
    moved = [todo._replace(turn_id=turn_id, position=index, updated_at=tx.now) for index, todo in enumerate(todos)]
    for todo in moved:
        tx.run(sql, turn_id, todo.position, tx.now, tenant_id, todo.id)
    started = sum(todo.status == "in_progress" for todo in todos)
    pending = len(todos) - started
    todo_store.update_counters(tx, tenant_id, todos[0], {"pending": -pending, "in_progress": -started})
    tx.run(
        """INSERT INTO todo_lists (tenant_id, conversation_id, turn_id, next_position, pending, in_progress, plan_source)
           SELECT tenant_id, conversation_id, ?, ?, ?, ?, plan_source FROM todo_lists
           WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ?""",
        turn_id,
        len(todos),
        pending,
        started,
        tenant_id,
        todos[0].conversation_id,
        todos[0].turn_id,
    )
    return moved


def find_last_turn(tx: Transaction, tenant_id: int, conversation_id: int) -> str | None:
    """Return the id of the turn that started last, without the plans of an assistant's sub-agents."""
    row = tx.one(
        """SELECT id FROM turns WHERE tenant_id = ? AND conversation_id = ? AND client_agent = ''
           ORDER BY started_at DESC LIMIT 1""",
        tenant_id,
        conversation_id,
    )
    return str(row[0]) if row else None


def find_open_plan(tx: Transaction, tenant_id: int, conversation_id: int, client_agent: str = "") -> Turn | None:
    """Return the newest unfinished turn that an agent of another program works on: no run answers it."""
    sql = f"""{SELECT_TURN} WHERE tenant_id = ? AND conversation_id = ? AND client_agent = ? AND ended_at = 0
        AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.tenant_id = turns.tenant_id AND runs.turn_id = turns.id)
        ORDER BY started_at DESC LIMIT 1"""
    return TURNS.one(tx, sql, tenant_id, conversation_id, client_agent)


def find_last_plan(tx: Transaction, tenant_id: int, conversation_id: int, client_agent: str) -> Turn | None:
    """Return the newest turn of an assistant's session, or of one of its sub-agents."""
    sql = f"""{SELECT_TURN} WHERE tenant_id = ? AND conversation_id = ? AND client_agent = ?
        ORDER BY CASE ended_at WHEN 0 THEN 0 ELSE 1 END, started_at DESC, id DESC LIMIT 1"""
    return TURNS.one(tx, sql, tenant_id, conversation_id, client_agent)


def save_refusal(tx: Transaction, tenant_id: int, turn_id: str, refusals: int, progress: int) -> None:
    tx.run("UPDATE turns SET refusals = ?, progress = ? WHERE tenant_id = ? AND id = ?", refusals, progress, tenant_id, turn_id)


def find_next_turn(tx: Transaction, tenant_id: int, turn: Turn) -> str | None:
    """Return the id of the turn that started after this one in its conversation."""
    row = tx.one(
        """SELECT id FROM turns WHERE tenant_id = ? AND conversation_id = ? AND started_at >= ? AND id <> ?
           ORDER BY started_at LIMIT 1""",
        tenant_id,
        turn.conversation_id,
        turn.started_at,
        turn.id,
    )
    return str(row[0]) if row else None


def list_by_fingerprint(tx: Transaction, tenant_id: int, fingerprint: str, limit: int) -> list[Turn]:
    """List the turns whose client had this history, newest first."""
    sql = f"{SELECT_TURN} WHERE tenant_id = ? AND fingerprint = ? AND fingerprint <> '' ORDER BY started_at DESC LIMIT ?"
    return TURNS.all(tx, sql, tenant_id, fingerprint, limit)


def save_fingerprint(tx: Transaction, tenant_id: int, turn_id: str, fingerprint: str) -> None:
    tx.run("UPDATE turns SET fingerprint = ? WHERE tenant_id = ? AND id = ?", fingerprint, tenant_id, turn_id)
