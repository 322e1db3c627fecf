"""SQL for the leases of todos: which agent works on a todo, until when, and the token that proves it."""

from headway.ledger.todo import Lease
from headway.storage.columns import Columns
from headway.storage.stores.todo_pages import MOST_URGENT_FIRST
from headway.storage.stores.todos import TODO_IS_SHOWN
from headway.storage.transaction import Query, Row, Transaction

LEASES = Columns(Lease)


def find_lease(tx: Transaction, tenant_id: int, todo_id: int) -> Lease | None:
    rows = tx.fetch(build_find(tenant_id, todo_id))[0]
    return load_lease(tx, rows[0]) if rows else None


def build_find(tenant_id: int, *todo_ids: int) -> Query:
    """Build the query for the leases of these todos."""
    marks = ", ".join("?" * len(todo_ids))
    sql = f"SELECT {LEASES.selected} FROM leases WHERE tenant_id = ? AND todo_id IN ({marks})"
    return Query(sql, (tenant_id, *todo_ids))


def load_lease(tx: Transaction, row: Row) -> Lease:
    lease = LEASES.load(row)
    return lease._replace(expires_at=lease.expires_at - tx.drift)


def put(tx: Transaction, tenant_id: int, lease: Lease) -> None:
    tx.run(
        f"""INSERT INTO leases (tenant_id, {LEASES.stored}) VALUES (?, {LEASES.marks})
           ON CONFLICT ({tx.dialect.tenant_in_key}todo_id) DO UPDATE
           SET agent_id = excluded.agent_id, token = excluded.token, expires_at = excluded.expires_at""",
        tenant_id,
        *lease._replace(expires_at=lease.expires_at + tx.drift),
    )


def delete_lease(tx: Transaction, tenant_id: int, todo_id: int) -> None:
    tx.run("DELETE FROM leases WHERE tenant_id = ? AND todo_id = ?", tenant_id, todo_id)


def lock_expired(tx: Transaction, tenant_id: int, conversation_id: int | None) -> int | None:
    """Lock an in-progress todo whose lease has expired and return its id. Without a conversation, all lists of the tenant count."""
    # Leases rarely expire, and this index lookup avoids scanning everything in progress.
    if tx.one("SELECT 1 FROM leases WHERE tenant_id = ? AND expires_at <= ? LIMIT 1", tenant_id, tx.now + tx.drift) is None:
        return None
    row = tx.one(
        f"""SELECT id FROM todos WHERE tenant_id = ?{build_list_condition(conversation_id)}
            AND status = 'in_progress' AND completed_at = 0
            AND id IN (SELECT todo_id FROM leases WHERE tenant_id = ? AND expires_at <= ?)
            ORDER BY position, id LIMIT 1{tx.dialect.skip_locked}""",
        *build_list_values(tenant_id, conversation_id),
        tenant_id,
        tx.now + tx.drift,
    )
    return int(row[0]) if row else None


def lock_ready(tx: Transaction, tenant_id: int, conversation_id: int | None) -> int | None:
    """Lock the next todo that can start and return its id. Locked rows are skipped, so two callers never get the same one."""
    row = tx.one(
        f"""SELECT id FROM todos WHERE tenant_id = ?{build_list_condition(conversation_id)}
            AND status = 'pending' AND blocked_by = 0
            AND turn_id IS NULL {MOST_URGENT_FIRST} LIMIT 1{tx.dialect.skip_locked}""",
        *build_list_values(tenant_id, conversation_id),
    )
    return int(row[0]) if row else None


def build_list_condition(conversation_id: int | None) -> str:
    return f" AND {TODO_IS_SHOWN}" if conversation_id is None else " AND conversation_id = ?"


def build_list_values(tenant_id: int, conversation_id: int | None) -> tuple[int, ...]:
    return (tenant_id,) if conversation_id is None else (tenant_id, conversation_id)
