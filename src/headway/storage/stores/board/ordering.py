"""SQL for the order of a list of todos: which ones are beside a place, and how room is made in a long list."""

from headway.ledger.errors import Invalid
from headway.ledger.todo import POSITION_LIMIT, Todo
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

SPREAD_LIMIT = 50_000  # how many todos may move at once


def build_list_condition(todo: Todo) -> tuple[str, tuple[int | str, ...]]:
    """Build the condition for the pending todos of a todo's list, without that todo. It follows that on the tenant."""
    where = "conversation_id = ? AND status = 'pending' AND completed_at = 0 AND id <> ?"
    if todo.turn_id is None:
        return f"{where} AND turn_id IS NULL", (todo.conversation_id, todo.id)
    return f"{where} AND turn_id = ?", (todo.conversation_id, todo.id, todo.turn_id)


def find_position_before(tx: Transaction, tenant_id: int, todo: Todo, place: tuple[int, int]) -> int | None:
    """Return the position of the last todo of the list before a (position, id)."""
    where, values = build_list_condition(todo)
    sql = f"""SELECT position FROM todos WHERE tenant_id = ? AND {where} AND (position, id) < (?, ?)
        ORDER BY position DESC, id DESC LIMIT 1"""
    row = tx.one(sql, tenant_id, *values, *place)
    return int(row[0]) if row else None


def find_position_after(tx: Transaction, tenant_id: int, todo: Todo, place: tuple[int, int]) -> int | None:
    """Return the position of the first todo of the list after a (position, id)."""
    where, values = build_list_condition(todo)
    sql = f"SELECT position FROM todos WHERE tenant_id = ? AND {where} AND (position, id) > (?, ?) ORDER BY position, id LIMIT 1"
    row = tx.one(sql, tenant_id, *values, *place)
    return int(row[0]) if row else None


def spread(tx: Transaction, tenant_id: int, todo: Todo, position: int, gap: int) -> dict[int, int]:
    """Move all todos of the list from a position on by a gap, in one statement. Returns their new positions."""
    where, values = build_list_condition(todo)
    sql = f"SELECT COUNT(*), MAX(position) FROM todos WHERE tenant_id = ? AND {where} AND position >= ?"
    counted = tx.one(sql, tenant_id, *values, position)
    assert counted is not None
    count, last = int(counted[0]), int(counted[1] or 0) + gap
    if count > SPREAD_LIMIT or last > POSITION_LIMIT:
        raise Invalid(f"{count:,} todos would have to move; choose a place closer to the end.")
    sql = f"""UPDATE todos SET position = position + ?, updated_at = ? WHERE tenant_id = ? AND {where} AND position >= ?
        RETURNING id, position"""
    rows = tx.all(sql, gap, tx.now, tenant_id, *values, position)
    todo_store.reserve_positions(tx, tenant_id, todo, last)
    return {int(todo_id): int(moved_to) for todo_id, moved_to in rows}
