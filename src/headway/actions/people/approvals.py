"""Approvals: a person approves, edits or rejects a proposed tool call."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from headway.actions import runs
from headway.actions.access import audit
from headway.actions.notices import NoticeSubject, notify
from headway.actions.people import waiting
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.permission import Approval, ApprovalState, compute_digest
from headway.ledger.run import Effect, Run
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import approvals as approval_store
from headway.storage.transaction import Transaction, act_as

REASON_LIMIT: Final = 2_000
ARGUMENTS_LIMIT: Final = 1_000_000
SUMMARY_LIMIT: Final = 200
CURSORS: Final = CursorCodec("approvals", (MAX_INTEGER,))  # the id
EXPIRED_REASON: Final = "No person decided in time."

Answer = Literal["approve", "reject"]
STATES: Final[dict[Answer, ApprovalState]] = {"approve": "approved", "reject": "rejected"}


class ApprovalDecision(NamedTuple):
    """A person's decision about a proposed call."""

    answer: Answer
    decided_by: str
    arguments: str | None = None  # JSON: arguments to use instead of the proposed ones
    reason: str = ""


def encode_arguments(arguments: Mapping[str, Any]) -> str:
    """Encode edited arguments in the form in which the arguments of calls are stored."""
    try:
        encoded = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        raise Invalid("arguments must be one JSON object, without NaN or Infinity.") from None
    return text.check_text(encoded, "arguments", ARGUMENTS_LIMIT)


def propose(tx: Transaction, run: Run, effect: Effect, why: str, expires_at: int) -> Approval:
    """Store that the call needs approval. Nothing is called until a person has decided."""
    approval = approval_store.insert(
        tx,
        Approval(
            id=0,
            tenant_id=run.tenant_id,
            conversation_id=run.conversation_id,
            turn_id=run.turn_id,
            run_id=run.id,
            goal_id=run.goal_id,
            n=effect.n,
            place=effect.place,
            call_id=effect.call_id,
            role=run.role,
            tool=effect.tool,
            arguments=effect.arguments,
            digest=compute_digest(effect.tool, effect.arguments),
            why=why,
            state="proposed",
            created_at=tx.now,
            expires_at=expires_at,
        ),
    )
    waiting.begin(tx, approval)
    return approval


def notify_people(tx: Transaction, proposed: Sequence[Approval]) -> None:
    """Send one notice about the calls that an answer proposed, however many there are."""
    first = proposed[0]
    more = f" {len(proposed) - 1} more calls wait." if len(proposed) > 1 else ""
    summary = text.to_one_line(first.arguments)[:SUMMARY_LIMIT]
    sentence = f"The agent {first.role} asks to call {first.tool}: {summary}. Approve or reject it.{more}"
    subject = NoticeSubject(first.conversation_id, first.turn_id, first.goal_id, first.page)
    notify(tx, first.tenant_id, "approval", sentence, subject)


def decide(tx: Transaction, tenant_id: int, approval_id: int, decision: ApprovalDecision) -> Approval:
    """Store a person's decision and wake the run. The same decision again changes nothing; another one raises Conflict."""
    reason = text.check_text(decision.reason.strip(), "reason", REASON_LIMIT)
    found = get(tx, tenant_id, approval_id)
    run = runs.get_locked(tx, runs.get(tx, tenant_id, found.run_id))
    approval = get(tx, tenant_id, approval_id)
    arguments = approval.arguments if decision.arguments is None else decision.arguments
    state = STATES[decision.answer]
    if approval.state == state and (state == "rejected" or arguments == approval.arguments):
        return approval
    if not approval.is_open:
        by = f" by {approval.decided_by}" if approval.decided_by else ""
        raise Conflict(f"Approval #{approval_id} is already {approval.state}{by}.")
    if tx.now >= approval.expires_at or run.ended:
        raise Conflict(f"Approval #{approval_id} has expired.")
    digest = compute_digest(approval.tool, arguments)
    with act_as(tx, tx.actor or decision.decided_by):
        audit.record(
            tx,
            tenant_id,
            f"approval.{decision.answer}",
            f"approval:{approval_id}",
            {"state": approval.state, "tool": approval.tool, "arguments": approval.arguments, "digest": approval.digest},
            {"state": state, "tool": approval.tool, "arguments": arguments, "digest": digest, "reason": reason},
        )
    approval = approval._replace(arguments=arguments, digest=digest, state=state, reason=reason, decided_by=decision.decided_by)
    approval = waiting.end(tx, approval)
    waiting.wake(tx, approval)
    return approval


def expire(tx: Transaction, approval: Approval) -> Approval:
    return waiting.end(tx, approval._replace(state="expired", reason=EXPIRED_REASON))


def find_by_call(tx: Transaction, run: Run, effect: Effect) -> Approval | None:
    return approval_store.find_by_call(tx, run.tenant_id, run.id, effect.n, effect.place)


def get(tx: Transaction, tenant_id: int, approval_id: int) -> Approval:
    approval = approval_store.find(tx, tenant_id, approval_id)
    if approval is None:
        raise NotFound(f"No approval #{approval_id}.")
    return approval


def list_page(
    tx: Transaction, tenant_id: int, state: ApprovalState | None, limit: int, cursor: str | None = None
) -> dict[str, Any]:
    """List approvals, newest first."""
    (before,) = CURSORS.decode(cursor)
    rows = approval_store.list_page(tx, tenant_id, state, limit + 1, before)
    return {
        "approvals": [approval.as_json() for approval in rows[:limit]],
        "next_cursor": CURSORS.encode_next(rows, limit, lambda approval: (approval.id,)),
    }
