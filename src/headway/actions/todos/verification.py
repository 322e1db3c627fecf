"""Todos are verified again while no person watches."""

from headway.actions.runs import notices
from headway.actions.runs.notices import NoticeSubject
from headway.actions.todos.proof import get_checked, verify
from headway.ledger import text
from headway.ledger.check import Receipt, describe_check
from headway.storage.transaction import Transaction


def verify_and_notify(tx: Transaction, tenant_id: int, todo_id: int) -> Receipt:
    """Verify a todo while no person watches. The operator gets a notice when a completed one breaks, once."""
    before = get_checked(tx, tenant_id, todo_id)
    receipt = verify(tx, tenant_id, todo_id)
    if before.proof != "broken" and get_checked(tx, tenant_id, todo_id).proof == "broken":
        failures = ", ".join(describe_check(result["check"]) for result in receipt.as_json()["checks"] if not result["ok"])
        content = f"Todo {todo_id} ({text.to_one_line(before.subject)[:100]}) no longer passes its checks: {failures}."
        notices.notify(tx, tenant_id, "checks", content, NoticeSubject(before.conversation_id, before.turn_id))
    return receipt
