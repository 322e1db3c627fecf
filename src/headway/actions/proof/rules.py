"""What checks forbid: completing a todo without a passing receipt, and dropping checks of a higher rank."""

from headway.ledger.check import AUTHOR_NAMES, ReceiptDraft, decode_checks, describe_failures, find_higher, has_protected
from headway.ledger.errors import CheckFailed, ChecksRequired, Forbidden, Invalid
from headway.ledger.todo import UNSET, CompletedBy, Draft, Todo, Unset
from headway.storage.transaction import Transaction, classify_actor


def apply_proof(tx: Transaction, old: Todo, new: Todo, override: str) -> Todo:
    """Return the todo with its proof after a change. Raises if the checks do not allow the change.

    A todo with checks is completed only in the transaction that stores the receipt, or by a person who gives a reason.
    """
    if old.checks and new.status == "canceled" and not old.ended:
        refuse_drop(tx, old)
    if new.status != "completed" or old.status == "completed" or not new.checks:
        return new
    if override:
        refuse_evasion(tx, old.id, old.checks, "complete it without them")
        return new._replace(proof="overridden")
    receipt = tx.receipts.get(new.id)
    checks = decode_checks(new.checks)
    if receipt is None or not receipt.covers(checks):
        raise ChecksRequired(todo_id=new.id, outcome=new.outcome)
    if not receipt.ok:
        raise build_failure(new, receipt)
    return new._replace(proof="proven")


def name_completer(tx: Transaction, todo: Todo, given: CompletedBy | Unset) -> CompletedBy:
    """Return how a todo was just completed: by its checks if they passed, otherwise as the caller says, or by the actor."""
    if todo.proof == "proven":
        return "check"
    return classify_actor(tx) if given is UNSET else given


def refuse_completed(draft: Draft) -> None:
    """Refuse a new todo that is completed already although it has checks, which have not run."""
    if draft.checks and draft.status == "completed":
        raise Invalid("A todo with checks cannot be added as completed. Add it, then complete it.")


def refuse_drop(tx: Transaction, todo: Todo) -> None:
    """Refuse an agent that would cancel or delete work instead of passing its checks."""
    if tx.agent is None or not todo.checks:
        return
    if has_protected(decode_checks(todo.checks)):
        raise Forbidden(f"Todo {todo.id} has checks that a person wrote, so an agent cannot drop it. Make the checks pass.")
    if refusal := tx.agent.find_drop_refusal():
        raise Forbidden(f"Todo {todo.id} has checks and cannot be dropped: {refusal}")


def refuse_evasion(tx: Transaction, todo_id: int, checks: str, act: str) -> None:
    """Refuse a caller whose rank is below that of a check's author, and who would not have to pass the check."""
    if higher := find_higher(decode_checks(checks), tx.author):
        author = AUTHOR_NAMES[higher[0]["by"]]
        raise Forbidden(f"Todo {todo_id} has checks that {author} wrote, so this token cannot {act}. Nothing was changed.")


def build_failure(todo: Todo, receipt: ReceiptDraft) -> CheckFailed:
    failures = receipt.list_failures()
    return CheckFailed(f"Todo {todo.id} is not done. {describe_failures(failures)}", failures)
