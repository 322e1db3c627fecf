"""Writing a turn's whole list at once, as agents trained on other tools do, without losing what the ledger knows.

The new list is compared with the rows by content: a row that is named again keeps its id, history and outcome; one that is
no longer named is canceled and reported, never silently lost.
"""

from typing import Any, NamedTuple

from headway.actions import conversations, todos
from headway.actions.turn_state import announce
from headway.ledger.errors import Invalid
from headway.ledger.events import todo_changed
from headway.ledger.scope import Scope
from headway.ledger.todo import Change, Draft, Status, Todo
from headway.storage import todo_store
from headway.storage.transaction import Transaction

LIST_LIMIT = 500


class Wanted(NamedTuple):
    content: str
    status: Status


class Written(NamedTuple):
    rows: list[Todo]
    dropped: list[Todo]

    def as_json(self) -> dict[str, Any]:
        return {
            "todos": [{"id": row.id, "content": row.subject, "status": row.status} for row in self.rows],
            "canceled": [{"id": row.id, "content": row.subject} for row in self.dropped],
        }


def write(tx: Transaction, scope: Scope, turn_id: str, wanted: list[Wanted]) -> Written:
    """Make the turn's list be this one. All of it happens, or nothing."""
    if len(wanted) > LIST_LIMIT:
        raise Invalid(f"A list holds at most {LIST_LIMIT} items.")
    conversation_id = conversations.lock_turn(tx, scope.tenant_id, turn_id).conversation_id
    rows = [row for row in todo_store.of_turn(tx, scope.tenant_id, turn_id) if row.status != "canceled"]
    unclaimed = list(rows)
    kept: list[Todo] = []
    for item in wanted:
        known = next((row for row in unclaimed if row.subject == item.content.strip()), None)
        if known is None:
            draft = Draft(item.content, conversation_id=conversation_id, turn_id=turn_id, agent_id=scope.agent_id)
            known = todos.add(tx, scope.tenant_id, draft)
        else:
            unclaimed.remove(known)
        kept.append(brought_to(tx, scope.tenant_id, known, item.status))
    dropped = [todos.change(tx, scope.tenant_id, row.id, Change(status="canceled")) for row in unclaimed if not row.ended]
    kept = [in_place(tx, scope.tenant_id, row, place) for place, row in enumerate(kept)]
    announce(tx, scope.tenant_id, turn_id)
    return Written(kept, dropped)


def brought_to(tx: Transaction, tenant_id: int, row: Todo, status: Status) -> Todo:
    """The row in the status that was written; one that had ended is reopened on the way."""
    if row.ended and status not in (row.status, "pending"):
        row = todos.change(tx, tenant_id, row.id, Change(status="pending"))
    return todos.change(tx, tenant_id, row.id, Change(status=status))


def in_place(tx: Transaction, tenant_id: int, row: Todo, place: int) -> Todo:
    if row.position == place:
        return row
    placed = row._replace(position=place, updated_at=tx.now)
    todo_store.update(tx, tenant_id, row, placed)
    tx.emit(todo_changed(tenant_id, placed, "updated"))
    return placed
