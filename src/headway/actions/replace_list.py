"""Replaces a turn's whole list at once, as agents trained on other tools do, without losing what the ledger has recorded.

The new list is matched with the existing rows by content. A row that appears again keeps its id, history and outcome. A row that no
longer appears is canceled and reported, never silently lost.
"""

from typing import Any, NamedTuple

from headway.actions import todos
from headway.actions.turn_plan import renumber
from headway.actions.turn_state import check_room, emit_queue_at_commit, lock_plan
from headway.ledger.scope import Scope
from headway.ledger.todo import Change, Draft, Status, Todo
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction


class ReplacementItem(NamedTuple):
    content: str
    status: Status


class ReplacedList(NamedTuple):
    rows: list[Todo]
    dropped: list[Todo]

    def as_json(self) -> dict[str, Any]:
        return {
            "todos": [{"id": row.id, "content": row.subject, "status": row.status} for row in self.rows],
            "canceled": [{"id": row.id, "content": row.subject} for row in self.dropped],
        }


def replace(tx: Transaction, scope: Scope, turn_id: str, items: list[ReplacementItem]) -> ReplacedList:
    """Replace the turn's list with this one, completely or not at all."""
    check_room(0, len(items))
    conversation_id, rows = lock_plan(tx, scope.tenant_id, turn_id)
    matches = match_rows(rows, items)
    drafts = [
        Draft(item.content, conversation_id=conversation_id, turn_id=turn_id, agent_id=scope.agent_id)
        for index, item in enumerate(items)
        if index not in matches
    ]
    added = iter(todos.append(tx, scope.tenant_id, drafts) if drafts else ())
    row_ids: list[int] = []
    for index, item in enumerate(items):
        row = matches.get(index) or next(added)
        if index in matches or item.status != row.status:  # a row that was just added as pending needs no change
            set_status(tx, scope.tenant_id, row, item.status)
        row_ids.append(row.id)
    omitted_rows = [row for row in rows if row.id not in row_ids and not row.ended]
    canceled = [todos.change(tx, scope.tenant_id, row.id, Change(status="canceled")) for row in omitted_rows]
    plan = {row.id: row for row in todo_store.list_by_turn(tx, scope.tenant_id, turn_id)}
    ordered = [plan.pop(todo_id) for todo_id in row_ids]
    numbered = renumber(tx, scope.tenant_id, [*ordered, *plan.values()])
    emit_queue_at_commit(tx, scope.tenant_id, turn_id)
    return ReplacedList(numbered[: len(row_ids)], canceled)


def match_rows(rows: list[Todo], items: list[ReplacementItem]) -> dict[int, Todo]:
    """Match the items with existing rows, by the items' indexes. A row that has already ended with the given status is preferred,
    so that it keeps its history. Otherwise the first row with the same text is used, open rows before ended ones."""
    free = sorted(rows, key=lambda row: (row.ended, row.status == "canceled"))
    matches: dict[int, Todo] = {}
    for may_change in (False, True):
        for index, (content, status) in enumerate(items):
            candidates = (
                row for row in free if row.subject == content.strip() and (may_change or (row.ended and row.status == status))
            )
            if index not in matches and (row := next(candidates, None)):
                matches[index] = row
                free.remove(row)
    return matches


def set_status(tx: Transaction, tenant_id: int, row: Todo, status: Status) -> None:
    """Set the status given in the list, reopening the row first if it has ended."""
    if row.ended and status not in (row.status, "pending"):
        todos.change(tx, tenant_id, row.id, Change(status="pending"))
    todos.change(tx, tenant_id, row.id, Change(status=status))
