"""Working a turn's list as a queue: add at the end, take away, finish the current item."""

from collections.abc import Iterable
from typing import Any

from headway.actions import conversations, todos
from headway.actions.turn_state import QueueState, announce, queue_state
from headway.ledger.scope import Scope
from headway.ledger.todo import Draft
from headway.storage.transaction import Transaction


def manage(tx: Transaction, scope: Scope, turn_id: str, add: Any = None, delete: Any = None) -> QueueState:
    """Add, then delete. What is not a list changes nothing; models send all sorts of things."""
    conversation_id = conversations.lock_turn(tx, scope.tenant_id, turn_id).conversation_id
    for description in texts(add):
        draft = Draft(description, conversation_id=conversation_id, turn_id=turn_id, agent_id=scope.agent_id)
        todos.add(tx, scope.tenant_id, draft)
    for todo_id in matches(queue_state(tx, scope.tenant_id, turn_id), delete):
        todos.end(tx, scope.tenant_id, todo_id, "canceled")  # rows of a turn are never deleted
    announce(tx, scope.tenant_id, turn_id)  # a call that changed nothing is answered with the state, too
    return queue_state(tx, scope.tenant_id, turn_id)


def complete_current(tx: Transaction, scope: Scope, turn_id: str, outcome: str | None = None) -> QueueState:
    """The runtime's verb: the current item is done, the next one is current."""
    current = queue_state(tx, scope.tenant_id, turn_id).current
    if current is not None:
        todos.end(tx, scope.tenant_id, current.id, "completed", outcome)
    announce(tx, scope.tenant_id, turn_id)
    return queue_state(tx, scope.tenant_id, turn_id)


def texts(given: Any) -> Iterable[str]:
    """The descriptions in what a model sent, trimmed, without the empty ones."""
    for one in given if isinstance(given, list) else ():
        if isinstance(one, str | int | float) and not isinstance(one, bool) and str(one).strip():
            yield str(one).strip()


def matches(state: QueueState, given: Any) -> list[int]:
    """The open items meant by an id (a number, or its digits) or by an exact description."""
    wanted = set(texts(given))
    return [todo.id for todo in state.items if not todo.ended and (str(todo.id) in wanted or todo.subject in wanted)]
