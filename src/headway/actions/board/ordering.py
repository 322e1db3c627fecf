"""The order of todos: putting one directly before or after another.

The caller names the neighbour and not a position, so that the result is the same if others reorder the list at the same time.
"""

from typing import Final

from headway.actions import todos
from headway.ledger.errors import Invalid
from headway.ledger.events import build_moves_event
from headway.ledger.todo import UNSET, Change, Todo
from headway.storage.stores import todos as todo_store
from headway.storage.stores.board import ordering as order_store
from headway.storage.transaction import Transaction

GAP: Final = 1_000  # left free in a list that is too long to move its todos by one


def place_beside(
    tx: Transaction, tenant_id: int, todo_id: int, changes: Change, before: int | None = None, after: int | None = None
) -> Change:
    """Return the change with the position directly before or after another todo. Todos in the way are moved."""
    neighbour_id = before or after
    if neighbour_id is None:
        return changes
    if (before and after) or changes.position is not UNSET:
        raise Invalid("Give only one of position, before and after.")
    if neighbour_id == todo_id:
        raise Invalid(f"Todo {todo_id} cannot be put beside itself.")
    rows = {one: todos.get_locked(tx, tenant_id, one) for one in sorted((todo_id, neighbour_id))}
    return changes._replace(position=find_place(tx, tenant_id, rows[todo_id], rows[neighbour_id], is_before=before is not None))


def find_place(tx: Transaction, tenant_id: int, todo: Todo, neighbour: Todo, *, is_before: bool) -> int:
    """Return a free position beside the neighbour. In another list, it is the nearest number: lists are ordered one by one."""
    if (todo.conversation_id, todo.turn_id) != (neighbour.conversation_id, neighbour.turn_id):
        return neighbour.position + (0 if is_before or todo.id > neighbour.id else 1)
    todo_store.lock_list(tx, tenant_id, todo.conversation_id, todo.turn_id)
    place = neighbour.position, neighbour.id
    if is_before:
        found = order_store.find_position_before(tx, tenant_id, todo, place)
        low, high = -1 if found is None else found, neighbour.position
    else:
        found = order_store.find_position_after(tx, tenant_id, todo, place)
        if found is None:
            return neighbour.position + 1
        low, high = neighbour.position, found
    return (low + high) // 2 if high - low > 1 else make_room(tx, tenant_id, todo, high)


def make_room(tx: Transaction, tenant_id: int, todo: Todo, position: int) -> int:
    """Free a position: move the todos behind it by one or, if they are too many, by a gap that later moves can use."""
    try:
        moved = todo_store.make_room(tx, tenant_id, todo, position)
    except Invalid:
        moved = order_store.spread(tx, tenant_id, todo, position, GAP)
        position += GAP // 2
    if moved:
        tx.emit(build_moves_event(tenant_id, todo, moved, tx.now))
    return position
