"""A turn's list as a plan: the agent writes it at the start and drains it before it ends the turn."""

from collections.abc import Container
from typing import Any, Literal, NamedTuple
from uuid import UUID

from headway.actions import todos
from headway.actions.turn_state import check_room, emit_queue_at_commit, lock_plan
from headway.ledger.errors import AlreadyEnded, Conflict, Invalid, NotFound
from headway.ledger.events import build_moves_event, build_todo_event
from headway.ledger.scope import Scope
from headway.ledger.tenancy import PlanSource, Turn
from headway.ledger.todo import Draft, Status, Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import forks as fork_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

# These tools spell it with two l's, as the agents trained on them do.
STATUS_SPELLING: dict[Status, str] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "canceled": "cancelled",
}


class PlanItem(NamedTuple):
    title: str
    context: str = ""
    completion_criteria: str = ""
    agent_type: str | None = None
    order: int | None = None  # counts from 1; None: at the end
    checks: str = ""  # JSON


class CreatedItems(NamedTuple):
    todos: list[Todo]
    pending: int


def create(tx: Transaction, scope: Scope, turn_id: str, items: list[PlanItem], source: PlanSource | None = None) -> CreatedItems:
    """Add all items or none. An item with an order is inserted there, and the rows from there on move down.

    The first items of a turn decide the source of its plan. It is the actor (an agent or a person) unless `source` is given.
    """
    if not items:
        raise Invalid("items must not be empty: name at least one.")
    misplaced = next((n for n, item in enumerate(items) if item.order is not None and item.order < 1), None)
    if misplaced is not None:
        raise Invalid(f"items[{misplaced}].order counts from 1.")
    conversation_id, plan = lock_plan(tx, scope.tenant_id, turn_id)
    check_room(sum(not todo.ended for todo in plan), len(items))
    drafts = [build_draft(scope, conversation_id, turn_id, item).checked() for item in items]
    new_todos = todo_store.insert_pending(tx, scope.tenant_id, drafts, [todos.make_uuid() for _ in drafts], source)
    # Items without an order first, then the others in ascending order, so that none moves another from its place.
    for todo, order in sorted(zip(new_todos, (item.order for item in items), strict=True), key=lambda pair: pair[1] or 0):
        plan.insert(len(plan) if order is None else min(order - 1, len(plan)), todo)
    plan = renumber(tx, scope.tenant_id, plan, {todo.id for todo in new_todos})
    emit_queue_at_commit(tx, scope.tenant_id, turn_id)
    by_id = {todo.id: todo for todo in plan}
    return CreatedItems([by_id[todo.id] for todo in new_todos], sum(todo.status == "pending" for todo in plan))


def build_draft(scope: Scope, conversation_id: int, turn_id: str, item: PlanItem) -> Draft:
    return Draft(
        item.title,
        item.context,
        item.completion_criteria,
        item.agent_type,
        agent_id=scope.agent_id,
        conversation_id=conversation_id,
        turn_id=turn_id,
        checks=item.checks,
    )


def renumber(tx: Transaction, tenant_id: int, plan: list[Todo], new_ids: Container[int] = ()) -> list[Todo]:
    """Store the positions of a locked plan's rows, and emit events: one for all that moved, and one for each that is new."""
    positions = {todo.id: position for position, todo in enumerate(plan) if todo.position != position}
    todo_store.save_positions(tx, tenant_id, positions)
    numbered = [todo._replace(position=positions[todo.id], updated_at=tx.now) if todo.id in positions else todo for todo in plan]
    moved = {todo_id: position for todo_id, position in positions.items() if todo_id not in new_ids}
    if moved:
        tx.emit(build_moves_event(tenant_id, plan[0], moved, tx.now))
    for todo in numbered:
        if todo.id in new_ids:
            tx.emit(build_todo_event(tenant_id, todo, "created"))
    return numbered


def take_over(tx: Transaction, tenant_id: int, source: Turn, turn_id: str) -> None:
    """Move the open rows of an ended turn's plan to a new turn of the same conversation, so that no todo is listed twice."""
    if not source.ended:
        raise Conflict(f"Turn {source.id} has not ended, so its plan cannot be continued.")
    open_rows = [todo for todo in lock_plan(tx, tenant_id, source.id).rows if not todo.ended]
    if not open_rows:
        raise Conflict(f"Turn {source.id} has no open todos to continue with.")
    for old, new in zip(open_rows, conversation_store.move_plan(tx, tenant_id, open_rows, turn_id), strict=True):
        tx.emit(build_todo_event(tenant_id, new, "updated", old))
    emit_queue_at_commit(tx, tenant_id, source.id)
    emit_queue_at_commit(tx, tenant_id, turn_id)


def start(tx: Transaction, scope: Scope, turn_id: str, reference: str) -> Todo:
    todo = get(tx, scope, turn_id, reference)
    check_not_ended(todo, f" To work on it again, reopen it first: todo_update with id {todo.id} and status pending.")
    return todos.start(tx, scope.tenant_id, todo.id)


def complete(
    tx: Transaction, scope: Scope, turn_id: str, reference: str, outcome: str, status: Literal["completed", "canceled"]
) -> tuple[Todo, list[Todo]]:
    """End a todo. Returns it with the open todos that are left."""
    todo = get(tx, scope, turn_id, reference)
    check_not_ended(todo)
    ended = todos.end(tx, scope.tenant_id, todo.id, status, outcome)
    return ended, [row for row in todo_store.list_by_turn(tx, scope.tenant_id, turn_id) if not row.ended]


def start_next(tx: Transaction, scope: Scope, open_todos: list[Todo]) -> Todo | None:
    """Start the first pending todo, unless one is in progress already."""
    if not open_todos or any(todo.status == "in_progress" for todo in open_todos):
        return None
    return todos.start(tx, scope.tenant_id, open_todos[0].id)


def get(tx: Transaction, scope: Scope, turn_id: str, reference: str) -> Todo:
    """Find a row by its UUID or its number in this turn only. A row of another turn counts as not found."""
    try:
        name = str(UUID(reference))
    except ValueError:
        name = reference.removeprefix("#")
    plan = todo_store.list_by_turn(tx, scope.tenant_id, turn_id)
    todo = next((row for row in plan if name in (row.uuid, str(row.id))), None) or find_copy(tx, scope, plan, name)
    if todo is None:
        advice = "" if plan else " This turn has no plan: answer in words, or create a plan first."
        raise NotFound(f"Todo {reference[:80]!r} not found.{advice}")
    return todo


def find_copy(tx: Transaction, scope: Scope, plan: list[Todo], name: str) -> Todo | None:
    """Return the row that is the copy of the one with this name, for a fork whose messages know the original."""
    copy_id = fork_store.find_copy(tx, scope.tenant_id, scope.conversation_id, name) if plan else None
    return next((row for row in plan if row.id == copy_id), None)


def check_not_ended(todo: Todo, hint: str = "") -> None:
    if todo.ended:
        raise AlreadyEnded(f"Todo {todo.uuid} is already {STATUS_SPELLING[todo.status]}.{hint}")


def count_by_status(plan: list[Todo]) -> dict[str, Any]:
    by_status = {status: sum(todo.status == status for todo in plan) for status in STATUS_SPELLING}
    return {
        "total": len(plan),
        "pending": by_status["pending"],
        "inProgress": by_status["in_progress"],
        "completed": by_status["completed"],
        "cancelled": by_status["canceled"],
    }
