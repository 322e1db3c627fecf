"""Receipts of checks. A todo that has checks is completed by a receipt."""

from typing import TYPE_CHECKING

from headway.ledger import text
from headway.ledger.check import (
    AUTHOR_NAMES,
    Receipt,
    ReceiptDraft,
    SubjectKind,
    decode_checks,
    describe_failures,
    find_higher,
    has_protected,
)
from headway.ledger.errors import CheckFailed, ChecksRequired, Forbidden, Invalid, NotFound
from headway.ledger.events import Event, build_todo_event, encode_json
from headway.ledger.todo import UNSET, CompletedBy, Draft, Todo, Unset
from headway.storage.stores import receipts as receipt_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction, classify_actor

if TYPE_CHECKING:
    from headway.ledger.goal import SubGoal

LIST_LIMIT = 100


def store_receipts(tx: Transaction, tenant_id: int, drafts: list[ReceiptDraft]) -> list[Receipt]:
    """Store receipts of todos, so that the same transaction can complete the todos that passed."""
    stored = []
    for draft in drafts:
        tx.receipts[draft.subject_id] = draft
        todo = todo_store.find_todo(tx, tenant_id, draft.subject_id)
        if todo is not None:  # it may have been deleted while its checks ran
            stored.append(store(tx, tenant_id, draft, todo.conversation_id, todo.turn_id))
    return stored


def store(
    tx: Transaction, tenant_id: int, draft: ReceiptDraft, conversation_id: int = 0, turn_id: str | None = None, override: str = ""
) -> Receipt:
    receipt = receipt_store.insert_receipt(tx, tenant_id, draft, override)
    failures = [] if override else draft.list_failures()
    data = {
        "receipt_id": receipt.id,
        f"{draft.subject}_id": draft.subject_id,
        "ok": receipt.ok,
        "override": receipt.override or None,
        "failures": failures,
    }
    tx.emit(Event(tenant_id, "checks_ran", encode_json(data), conversation_id, turn_id, f"{draft.subject}:{draft.subject_id}"))
    return receipt


def override(tx: Transaction, tenant_id: int, todo: Todo, reason: str, person: str) -> Receipt:
    """Store that a person completes a todo without its checks. The row keeps the reason for good."""
    draft = ReceiptDraft("todo", todo.id, (), {}, person)
    return store(tx, tenant_id, draft, todo.conversation_id, todo.turn_id, check_override(reason))


def check_override(reason: str) -> str:
    reason = text.check_text(reason, "override", text.SUBJECT_LIMIT).strip()
    if not reason:
        raise Invalid("override must say why the checks do not count.")
    return reason


def get_checked(tx: Transaction, tenant_id: int, todo_id: int) -> Todo:
    """Return a todo that has checks, or raise NotFound or Invalid."""
    todo = todo_store.find_todo(tx, tenant_id, todo_id)
    if todo is None:
        raise NotFound(f"No todo {todo_id}.")
    if not todo.checks:
        raise Invalid(f"Todo {todo_id} has no checks.")
    return todo


def verify(tx: Transaction, tenant_id: int, todo_id: int) -> Receipt:
    """Apply the results of checks that ran again to a completed todo. Raises ChecksRequired if the transaction does not have them.

    A person's override stays until the checks pass.
    """
    todo_store.find_locked_todo(tx, tenant_id, todo_id)
    todo = get_checked(tx, tenant_id, todo_id)
    draft = tx.receipts.get(todo_id)
    if draft is None or not draft.covers(decode_checks(todo.checks)):
        raise ChecksRequired(todo_id=todo_id, outcome=todo.outcome)
    if todo.status == "completed" and (draft.ok or todo.proof != "overridden"):
        proven = todo._replace(proof="proven" if draft.ok else "broken")
        if proven != todo:
            proven = proven._replace(updated_at=tx.now)
            todo_store.update_todo(tx, tenant_id, todo, proven)
            tx.emit(build_todo_event(tenant_id, proven, "updated", todo))
    return list_newest_receipts(tx, tenant_id, "todo", todo_id, 1)[0]


def list_newest_receipts(
    tx: Transaction, tenant_id: int, subject: SubjectKind, subject_id: int, limit: int = LIST_LIMIT
) -> list[Receipt]:
    return receipt_store.list_newest_receipts(tx, tenant_id, subject, subject_id, limit)


def list_newest_of_goal(tx: Transaction, tenant_id: int, goal_id: int) -> list[Receipt]:
    """List the receipts of a goal and of its sub-goals."""
    return receipt_store.list_newest_of_goal(tx, tenant_id, goal_id, LIST_LIMIT)


def copy_receipt(tx: Transaction, tenant_id: int, subject: SubjectKind, original_id: int, copy: "Todo | SubGoal") -> None:
    """Copy the newest receipt that supports the copy's proof. A later one may say something else about the original."""
    found = list_newest_receipts(tx, tenant_id, subject, original_id)
    supporting = next((receipt for receipt in found if receipt.supports(copy.proof)), None)
    if supporting is not None:
        receipt_store.insert_copy(tx, tenant_id, supporting, copy.id)


def list_checked_todos(
    tx: Transaction, tenant_id: int, limit: int, conversation_id: int | None = None, *, include_open: bool = False
) -> list[int]:
    """List the completed todos with checks, or all todos with checks. The ones checked longest ago come first."""
    return receipt_store.list_checked_todos(tx, tenant_id, conversation_id, limit, include_open=include_open)


# Checks forbid completing a todo without a passing receipt, and dropping checks of a higher rank.


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
