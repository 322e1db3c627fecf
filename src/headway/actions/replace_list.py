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
        Draft(item.content, conversation_id=conversation_id, turn_id=turn_id, agent_id=scope.agent_id).checked()
        for index, item in enumerate(items)
        if index not in matches
    ]
    if drafts:
        check_room(sum(not row.ended for row in rows), len(drafts))
    added = iter(todos.append_checked(tx, scope.tenant_id, drafts) if drafts else ())
    listed = [matches.get(index) or next(added) for index in range(len(items))]
    row_ids = [row.id for row in listed]
    omitted_rows = [row for row in rows if row.id not in row_ids and not row.ended]
    changed = [(row, item.status) for row, item in zip(listed, items, strict=True) if row.status != item.status]
    set_statuses(tx, scope.tenant_id, [*changed, *((row, "canceled") for row in omitted_rows)])
    plan = {row.id: row for row in todo_store.list_by_turn(tx, scope.tenant_id, turn_id)}
    canceled = [plan[row.id] for row in omitted_rows]
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


def set_statuses(tx: Transaction, tenant_id: int, changed: list[tuple[Todo, Status]]) -> None:
    """Set the statuses of locked rows. Rows that become pending again come last, because each may move others."""
    forward = [(row, status) for row, status in changed if not row.ended and status != "pending"]
    locked_rows = todos.load_for_change(tx, tenant_id, [row for row, _ in forward])
    for locked, (_, new_status) in zip(locked_rows, forward, strict=True):
        todos.change_locked(tx, tenant_id, locked, Change(status=new_status))
    for row, status in changed:
        if row.ended and status != "pending":  # it is reopened first
            todos.change(tx, tenant_id, row.id, Change(status="pending"))
        if row.ended or status == "pending":
            todos.change(tx, tenant_id, row.id, Change(status=status))
