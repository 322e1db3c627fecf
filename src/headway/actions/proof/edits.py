"""Edits of a todo's checks, and completions that override them."""

from typing import Any

from headway.actions import todos
from headway.actions.access import audit
from headway.actions.proof import receipts
from headway.actions.todos import NO_OVERRIDE, Override
from headway.ledger.check import Author, decode_checks
from headway.ledger.errors import Invalid
from headway.ledger.todo import UNSET, Change, write_checks
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction


def set_checks(tx: Transaction, tenant_id: int, todo_id: int, changes: Change, value: Any, by: Author) -> Change:
    """Return the change with a new list of checks. Raises Forbidden if it leaves out one of a higher rank."""
    if changes.depends_on is not UNSET:
        todo_store.lock_graph(tx, tenant_id)  # before the todo, as a change of dependencies does
    todo = todos.get_locked(tx, tenant_id, todo_id)
    checks = write_checks(value, by, todo.checks)
    if todo.checks and checks != todo.checks:
        audit.record(tx, tenant_id, "check.edit", f"todo:{todo_id}", decode_checks(todo.checks), decode_checks(checks))
    return changes._replace(checks=checks)


def build_override(reason: str | None, changes: Change, person: str) -> Override:
    """Return a person's reason to complete a todo without its checks. Raises Invalid if the change does not complete it."""
    if reason is None:
        return NO_OVERRIDE
    if changes.status != "completed":
        raise Invalid("override is only accepted with the status completed.")
    return Override(receipts.check_override(reason), person)
