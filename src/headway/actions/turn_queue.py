"""A turn's list as a queue: add items at the end, remove items, complete the current one."""

from math import isfinite
from typing import Any, NamedTuple

from headway.actions import todos
from headway.actions.turn_state import QueueState, check_room, emit_queue_at_commit, load_queue_state, lock_plan
from headway.ledger.scope import Scope
from headway.ledger.todo import Draft, Todo
from headway.storage.stores import forks as fork_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction


class ManagedQueue(NamedTuple):
    state: QueueState
    unknown: list[str]  # what was to be deleted and is not in the list


def manage(tx: Transaction, scope: Scope, turn_id: str, add: Any = None, delete: Any = None) -> ManagedQueue:
    """Add items, then delete items. Arguments that are not lists are ignored, because models send all sorts of values."""
    descriptions = parse_texts(add)
    conversation_id, rows = lock_plan(tx, scope.tenant_id, turn_id)
    check_room(sum(not row.ended for row in rows), len(descriptions))
    for description in descriptions:
        draft = Draft(description, conversation_id=conversation_id, turn_id=turn_id, agent_id=scope.agent_id)
        todos.add(tx, scope.tenant_id, draft)
    state, unknown = load_queue_state(tx, scope.tenant_id, turn_id), []
    matched: dict[int, Todo] = {}
    for name in parse_texts(delete):
        items = match_items(state, {name, find_copy(tx, scope, name)})
        matched |= {todo.id: todo for todo in items}
        unknown += [] if items else [name]
    for todo in matched.values():
        take_out(tx, scope.tenant_id, todo)
    emit_queue_at_commit(tx, scope.tenant_id, turn_id)  # a call that changed nothing emits the state too
    return ManagedQueue(load_queue_state(tx, scope.tenant_id, turn_id), unknown)


def take_out(tx: Transaction, tenant_id: int, todo: Todo) -> None:
    """Remove an item. Rows of a turn are never deleted: an open one is canceled, a done one stays done and is hidden."""
    if todo.ended:
        todo_store.dequeue(tx, tenant_id, todo)
    else:
        todos.end(tx, tenant_id, todo.id, "canceled")


def complete(tx: Transaction, scope: Scope, turn_id: str, todo_id: int, outcome: str | None = None) -> QueueState:
    """Complete an item that the assessor or its checks accepted, which makes the next one current. An ended item is not changed."""
    item = next((todo for todo in load_queue_state(tx, scope.tenant_id, turn_id).items if todo.id == todo_id), None)
    if item is not None and not item.ended:
        todos.end(tx, scope.tenant_id, todo_id, "completed", outcome, completed_by="check")
    emit_queue_at_commit(tx, scope.tenant_id, turn_id)
    return load_queue_state(tx, scope.tenant_id, turn_id)


def parse_texts(argument: Any) -> list[str]:
    """Return the non-empty texts in a model's list, trimmed."""
    texts = [parse_text(item).strip() for item in argument] if isinstance(argument, list) else []
    return [text for text in texts if text]


def parse_text(value: Any) -> str:
    """Convert a text or a number to text. JSON has one number type, so 1.0 becomes "1". Other values become an empty text."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else str(value) if isfinite(value) else ""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def find_copy(tx: Transaction, scope: Scope, name: str) -> str:
    """Return the number of the copy of an item, for a fork whose messages know the originals; otherwise the name itself."""
    return str(fork_store.find_copy(tx, scope.tenant_id, scope.conversation_id, name) or name)


def match_items(state: QueueState, names: set[str]) -> list[Todo]:
    """Find the items given by id (the digits of the number), and the open items given by their exact description. A done item is
    never matched by description, because a model that repeats a description means the new item."""
    return [todo for todo in state.items if str(todo.id) in names or (not todo.ended and todo.subject in names)]
