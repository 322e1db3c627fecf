"""The checks of a todo, replaced."""

from typing import Any

from headway.actions.access import audit
from headway.actions.todos.todos import get_locked_todo
from headway.ledger.check import Author, decode_checks
from headway.ledger.parsing.checks import write_checks
from headway.ledger.todo import UNSET, Change
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction


def set_checks(tx: Transaction, tenant_id: int, todo_id: int, changes: Change, value: Any, by: Author) -> Change:
    """Return the change with a new list of checks. Raises Forbidden if it leaves out one of a higher rank."""
    if changes.depends_on is not UNSET:
        todo_store.lock_graph(tx, tenant_id)  # before the todo, as a change of dependencies does
    todo = get_locked_todo(tx, tenant_id, todo_id)
    checks = write_checks(value, by, todo.checks)
    if todo.checks and checks != todo.checks:
        audit.record_in_audit(tx, tenant_id, "check.edit", f"todo:{todo_id}", decode_checks(todo.checks), decode_checks(checks))
    return changes._replace(checks=checks)
