"""A turn's list as a queue with a current item, from the same rows that the plan tools use."""

from functools import partial
from typing import Any, NamedTuple

from headway.actions.todos import finding
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.events import Event, encode_json
from headway.ledger.scope import Selection
from headway.ledger.tenancy import Turn
from headway.ledger.todo import Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import todo_pages
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Row, Transaction

PLAN_LIMIT = 500  # open items; limited because each change emits the whole list
EVENT_CHARACTERS = 32_000  # of the descriptions in such an event; an ordinary list has far fewer
MIN_DESCRIPTION = 40


class LockedPlan(NamedTuple):
    conversation_id: int
    rows: list[Todo]


def lock_plan(tx: Transaction, tenant_id: int, turn_id: str) -> LockedPlan:
    """Lock a turn's list, so that no other transaction can reorder it or change its rows. The rows are always locked before the
    list's counters, the same order in which a todo is ended."""
    turn_id = text.check_text(turn_id, "turn_id")
    turns, rows = tx.fetch(
        conversation_store.build_find_turn_locked(tx, tenant_id, turn_id), todo_store.build_lock_by_turn(tx, tenant_id, turn_id)
    )
    conversation_id = finding.load_turn(turns, turn_id).conversation_id
    return LockedPlan(conversation_id, [todo_store.TODOS.load(row) for row in rows])


def check_room(open_count: int, new_count: int) -> None:
    if open_count + new_count > PLAN_LIMIT:
        raise Invalid(f"A turn's list can have at most {PLAN_LIMIT} open items.")


def count_open_items(tx: Transaction, tenant_id: int, turn_id: str) -> int:
    counts = todo_pages.count_by_status(tx, tenant_id, Selection(turn_id=turn_id))
    return counts["pending"] + counts["in_progress"]


class QueueState(NamedTuple):
    """The items in order, including done ones. Canceled items, and done items that were deleted, are left out."""

    items: list[Todo]
    current: Todo | None

    @property
    def remaining(self) -> int:
        return sum(not todo.ended for todo in self.items)

    def as_json(self) -> dict[str, Any]:
        return {
            "total": len(self.items),
            "remaining": self.remaining,
            "current": self.item(self.current) if self.current else None,
            "items": [self.item(todo) for todo in self.items],
        }

    def item(self, todo: Todo) -> dict[str, Any]:
        status = "done" if todo.ended else "current" if todo == self.current else "pending"
        return {"id": todo.id, "description": todo.subject, "status": status}


def load_queue_state(tx: Transaction, tenant_id: int, turn_id: str) -> QueueState:
    """Load the queue. The current item is the one in progress, or else the first pending one."""
    return build_queue_state(tx.fetch(todo_store.build_queue_of_turn(tenant_id, turn_id))[0])


def build_queue_state(queue: list[Row]) -> QueueState:
    rows = [todo_store.TODOS.load(row) for row in queue]
    in_progress = (todo for todo in rows if todo.status == "in_progress")
    pending = (todo for todo in rows if todo.status == "pending")
    return QueueState(rows, next(in_progress, None) or next(pending, None))


def shorten_items(state: dict[str, Any]) -> dict[str, Any]:
    """Cut the descriptions of a queue that has too many long ones for an event, because every change of the list logs all of it.
    The current item stays whole."""
    items = state["items"]
    if sum(len(item["description"]) for item in items) <= EVENT_CHARACTERS:
        return state
    room = max(MIN_DESCRIPTION, EVENT_CHARACTERS // len(items))
    return {**state, "items": [{**item, "description": cut_subject(item["description"], room)} for item in items]}


def cut_subject(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def emit_queue_at_commit(tx: Transaction, tenant_id: int, turn_id: str | None) -> None:
    """Emit the list's new state once, at the end of the transaction, however many changes it makes."""
    if turn_id is not None:
        tx.before_commit(("turn", tenant_id, turn_id), partial(emit_queue_state, tenant_id=tenant_id, turn_id=turn_id))


def emit_queue_state(tx: Transaction, tenant_id: int, turn_id: str) -> None:
    turns, _, queue = tx.fetch(
        conversation_store.build_find_turn(tenant_id, turn_id),
        todo_store.build_lock_turn_list(tx, tenant_id, turn_id),  # until commit, so that states are emitted in order
        todo_store.build_queue_of_turn(tenant_id, turn_id),
    )
    if not turns:  # its creation was undone within the transaction
        return
    turn = Turn._make(turns[0])
    state = shorten_items(build_queue_state(queue).as_json())
    summary = {name: state[name] for name in ("current", "remaining", "total")}
    tx.emit(Event(tenant_id, "todos_updated", encode_json(state), turn.conversation_id, turn_id))
    tx.emit(Event(tenant_id, "todos_current", encode_json(summary), turn.conversation_id, turn_id))
