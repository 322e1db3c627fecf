"""The checks of a todo: replaced, or run again while no person watches."""

from typing import Any

from headway.actions.access import audit
from headway.actions.runs import notices
from headway.actions.runs.notices import NoticeSubject
from headway.actions.todos.proof import get_checked, verify
from headway.actions.todos.todos import get_locked_todo
from headway.ledger import text
from headway.ledger.check import Author, Receipt, decode_checks, describe_check
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


def verify_and_notify(tx: Transaction, tenant_id: int, todo_id: int) -> Receipt:
    """Verify a todo while no person watches. The operator gets a notice when a completed one breaks, once."""
    before = get_checked(tx, tenant_id, todo_id)
    receipt = verify(tx, tenant_id, todo_id)
    if before.proof != "broken" and get_checked(tx, tenant_id, todo_id).proof == "broken":
        failures = ", ".join(describe_check(result["check"]) for result in receipt.as_json()["checks"] if not result["ok"])
        content = f"Todo {todo_id} ({text.to_one_line(before.subject)[:100]}) no longer passes its checks: {failures}."
        notices.notify(
            tx, tenant_id, "checks", content, NoticeSubject(before.conversation_id, before.turn_id, page=f"/todos/{todo_id}")
        )
    return receipt
