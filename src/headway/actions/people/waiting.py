"""Open approvals and questions, which keep a run waiting for a person. A waiting run has no process and no slot."""

from collections.abc import Collection
from typing import Any, TypeVar

from headway.actions import jobs, notices
from headway.ledger.events import Event, encode_json
from headway.ledger.permission import Approval, PersonQuestion
from headway.ledger.run import Run
from headway.storage.stores import approvals as approval_store
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import questions as question_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

Item = TypeVar("Item", Approval, PersonQuestion)

WAITING_LIMIT = 1_000
CANCELED_REASON = "The run ended before anyone decided."


def begin(tx: Transaction, item: Approval | PersonQuestion) -> None:
    """Count the item among those that its turn waits for, and emit it."""
    count(tx, item, 1)
    emit(tx, item, "approval_requested" if isinstance(item, Approval) else "question_asked")


def end(tx: Transaction, item: Item) -> Item:
    """Store the item's final state, and emit it."""
    if isinstance(item, Approval):
        item = item._replace(decided_at=tx.now)
        approval_store.save(tx, item)
    else:
        item = item._replace(answered_at=tx.now)
        question_store.save(tx, item)
    settle_notice(tx, item)
    count(tx, item, -1)
    emit(tx, item, "approval_decided" if isinstance(item, Approval) else "question_answered")
    return item


def cancel_open(tx: Transaction, run: Run) -> None:
    """Cancel what a run that ends was waiting for. It may have several open approvals, also while one of its calls is made."""
    if not question_store.is_person_needed(tx, run.tenant_id, run.id):
        return
    for approval in approval_store.list_open_of_run(tx, run.tenant_id, run.id):
        end(tx, approval._replace(state="canceled", reason=CANCELED_REASON))
    for question in question_store.list_open_of_run(tx, run.tenant_id, run.id):
        end(tx, question._replace(state="canceled"))


def settle_notice(tx: Transaction, item: Approval | PersonQuestion) -> None:
    """Mark the notice about the item as done. All approvals of an answer have one notice, so the last of them ends it."""
    if isinstance(item, PersonQuestion):
        if not item.client_call:  # nobody was notified of such a call
            notices.settle_requests(tx, item.tenant_id, [item.page])
        return
    of_answer = approval_store.list_of_answer(tx, item.tenant_id, item.run_id, item.n)
    if not any(approval.is_open for approval in of_answer):
        notices.settle_requests(tx, item.tenant_id, [approval.page for approval in of_answer])


def emit(tx: Transaction, item: Approval | PersonQuestion, kind: str) -> None:
    name = "approval" if isinstance(item, Approval) else "question"
    data = {"turn_id": item.turn_id, "goal_id": item.goal_id, name: item.as_json()}
    subject = None if item.goal_id is None else f"goal:{item.goal_id}"
    tx.emit(Event(item.tenant_id, kind, encode_json(data), item.conversation_id, item.turn_id, subject))
    approvals, questions = question_store.count_open(tx, item.tenant_id)
    counts = {"approvals": approvals, "questions": questions}
    tx.emit(Event(item.tenant_id, "waiting_changed", encode_json(counts)))  # tenant-wide: streams of other conversations get it too


def count(tx: Transaction, item: Approval | PersonQuestion, change: int) -> None:
    """Change the number of approvals and questions that the item's turn waits for."""
    if item.turn_id is not None:
        question_store.count_waiting(tx, item.tenant_id, item.turn_id, change)


def wake(tx: Transaction, item: Approval | PersonQuestion) -> None:
    """Let the run that waits for the item continue. A process takes its job, now or when the next one starts."""
    jobs.wake(tx, item.tenant_id, item.run_id)


def is_person_needed(tx: Transaction, run: Run) -> bool:
    """Whether the run, or a sub-agent that it may wait for, waits for a person."""
    family = [run, *run_store.list_unfinished_descendants(tx, run.tenant_id, run.id)]
    return any(question_store.is_person_needed(tx, one.tenant_id, one.id) for one in family)


def find_by_turn(tx: Transaction, tenant_id: int, turn_id: str) -> dict[str, Any] | None:
    """Return the turn's oldest open approval or question, as `{"kind", "id"}`."""
    waiting = question_store.list_waiting(tx, tenant_id, WAITING_LIMIT)
    return next(({"kind": kind, "id": item_id} for kind, item_id, turn, _ in waiting if turn == turn_id), None)


def is_waiting_for(tx: Transaction, tenant_id: int, turn_id: str, keys: Collection[tuple[str, int]]) -> bool:
    """Whether the turn's main agent rests, and the turn waits for exactly these approvals and questions: (kind, id)."""
    run, turn = run_store.find_by_turn(tx, tenant_id, turn_id), conversation_store.find_turn(tx, tenant_id, turn_id)
    if run is None or run.status != "waiting" or turn is None or turn.waiting != len(keys):
        return False
    items = [
        approval_store.find(tx, tenant_id, n) if kind == "approval" else question_store.find(tx, tenant_id, n) for kind, n in keys
    ]
    return all(item is not None and item.is_open for item in items)


def find_by_goal(tx: Transaction, tenant_id: int) -> dict[int, dict[str, Any]]:
    """Return the oldest open approval or question of each goal of the tenant, as `{"kind", "id"}` by goal."""
    waiting = question_store.list_waiting(tx, tenant_id, WAITING_LIMIT)
    return {goal_id: {"kind": kind, "id": item_id} for kind, item_id, _, goal_id in reversed(waiting) if goal_id is not None}


def count_all(tx: Transaction) -> dict[str, int]:
    """Count what waits for people across all tenants, for the operator."""
    return dict(zip(("approval", "question"), question_store.count_all_waiting(tx), strict=True))
