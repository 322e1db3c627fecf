"""SQL that moves the open rows of a turn's plan to the turn that continues it."""

from collections.abc import Sequence

from headway.ledger.todo import Todo
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction


def move_to_turn(tx: Transaction, tenant_id: int, todos: Sequence[Todo], turn_id: str) -> list[Todo]:
    """Move open rows of one turn's plan, in this order, to another turn that has no plan yet."""
    sql = "UPDATE todos SET turn_id = ?, position = ?, updated_at = ? WHERE tenant_id = ? AND id = ?"
    moved = [todo._replace(turn_id=turn_id, position=place, updated_at=tx.now) for place, todo in enumerate(todos)]
    for todo in moved:
        tx.run(sql, turn_id, todo.position, tx.now, tenant_id, todo.id)
    started = sum(todo.status == "in_progress" for todo in todos)
    pending = len(todos) - started
    todo_store.update_counters(tx, tenant_id, todos[0], {"pending": -pending, "in_progress": -started})
    tx.run(
        """INSERT INTO todo_lists (tenant_id, conversation_id, turn_id, next_position, pending, in_progress)
           VALUES (?, ?, ?, ?, ?, ?)""",
        tenant_id,
        todos[0].conversation_id,
        turn_id,
        len(todos),
        pending,
        started,
    )
    return moved
