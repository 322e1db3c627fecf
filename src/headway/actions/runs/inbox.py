"""The inbox: a person approves, edits or rejects the call that an agent proposed, or answers its question."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from headway.actions.access import audit
from headway.actions.runs import runs, waiting
from headway.actions.runs.notices import NoticeSubject, notify
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.inbox import (
    CHOICE_LENGTH,
    CHOICES_LIMIT,
    ApprovalState,
    PersonRequest,
    QuestionState,
    RequestKind,
    RequestState,
    compute_digest,
)
from headway.ledger.run import Effect, Run
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import requests as request_store
from headway.storage.transaction import Transaction, act_as

REASON_LIMIT: Final = 2_000
ARGUMENTS_LIMIT: Final = 1_000_000
QUESTION_LIMIT: Final = 4_000
ANSWER_LIMIT: Final = 20_000
CALL_SUMMARY_LIMIT: Final = 200
QUESTION_SUMMARY_LIMIT: Final = 300
CURSORS: Final = CursorCodec("inbox", (MAX_INTEGER,))  # the id
EXPIRED_REASON: Final = "No person decided in time."

Answer = Literal["approve", "reject"]
STATES: Final[dict[Answer, RequestState]] = {"approve": "approved", "reject": "rejected"}


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


# Requests of agents


def begin(tx: Transaction, run: Run, kind: RequestKind, **fields: Any) -> PersonRequest:
    request = PersonRequest(
        0, run.tenant_id, kind, run.conversation_id, run.turn_id, run.id, run.goal_id, run.role, created_at=tx.now, **fields
    )
    return waiting.begin_waiting(tx, request)


def propose_call(tx: Transaction, run: Run, effect: Effect, why: str, expires_at: int) -> PersonRequest:
    """Store that the call needs approval. Nothing is called until a person has decided."""
    call = {name: getattr(effect, name) for name in ("n", "call_index", "call_id", "tool", "arguments")}
    return begin(tx, run, "approval", **call, digest=compute_digest(effect.tool, effect.arguments), why=why, expires_at=expires_at)


def notify_about_calls(tx: Transaction, proposed: Sequence[PersonRequest]) -> None:
    """Send one notice about the calls that an answer proposed, however many there are."""
    first = proposed[0]
    more = f" {len(proposed) - 1} more calls wait." if len(proposed) > 1 else ""
    summary = text.to_one_line(first.arguments)[:CALL_SUMMARY_LIMIT]
    notify_about(tx, first, f"The agent {first.role} asks to call {first.tool}: {summary}. Approve or reject it.{more}")


def ask(tx: Transaction, run: Run, question: str, choices: Sequence[str] = ()) -> PersonRequest:
    """Store a question and notify the operator."""
    content = text.check_text(question.strip(), "question", QUESTION_LIMIT)
    options = [text.check_text(choice.strip(), "choices", CHOICE_LENGTH) for choice in choices]
    if len(options) > CHOICES_LIMIT or len(set(options)) < len(options) or not all(options):
        raise Invalid(f"choices must be at most {CHOICES_LIMIT} different texts.")
    stored = begin(tx, run, "question", question=content, choices=json.dumps(options, ensure_ascii=False))
    notify_about(tx, stored, f"The agent {stored.role} asks: {text.to_one_line(content)[:QUESTION_SUMMARY_LIMIT]}")
    return stored


def notify_about(tx: Transaction, request: PersonRequest, sentence: str) -> None:
    subject = NoticeSubject(request.conversation_id, request.turn_id, request.goal_id, request.page)
    notify(tx, request.tenant_id, request.kind, sentence, subject)


def call_client(tx: Transaction, run: Run, tool: str, arguments: str) -> PersonRequest:
    """Store a call of a tool that the turn's client has. The client answers with the result, so no person is notified."""
    question = f"The client is to call {tool} with {text.to_one_line(arguments)}"[:QUESTION_LIMIT]
    return begin(tx, run, "question", question=question, tool=tool, arguments=arguments)


def list_client_calls(tx: Transaction, run: Run) -> list[PersonRequest]:
    """List the calls that a run waits for its client to make."""
    return [request for request in request_store.list_open_of_run(tx, run.tenant_id, run.id) if request.is_client_call]


# Responses of people


def decide(tx: Transaction, tenant_id: int, request_id: int, decision: ApprovalDecision) -> PersonRequest:
    """Store a person's decision about a call and wake the run. The same decision again changes nothing; another one raises
    Conflict."""
    reason = text.check_text(decision.reason.strip(), "reason", REASON_LIMIT)
    approval, run = get_locked(tx, get(tx, tenant_id, request_id, "approval"))
    arguments = approval.arguments if decision.arguments is None else decision.arguments
    state = STATES[decision.answer]
    if approval.state == state and (state == "rejected" or arguments == approval.arguments):
        return approval
    if not approval.is_open:
        by = f" by {approval.decided_by}" if approval.decided_by else ""
        raise Conflict(f"Approval #{request_id} is already {approval.state}{by}.")
    if tx.now >= approval.expires_at or run.ended:
        raise Conflict(f"Approval #{request_id} has expired.")
    digest = compute_digest(approval.tool, arguments)
    with act_as(tx, tx.actor or decision.decided_by):
        audit.record_in_audit(
            tx,
            tenant_id,
            f"approval.{decision.answer}",
            f"approval:{request_id}",
            {"state": "proposed", "tool": approval.tool, "arguments": approval.arguments, "digest": approval.digest},
            {"state": state, "tool": approval.tool, "arguments": arguments, "digest": digest, "reason": reason},
        )
    decided = approval._replace(arguments=arguments, digest=digest, state=state, reason=reason, decided_by=decision.decided_by)
    return end(tx, decided)


def answer(tx: Transaction, tenant_id: int, request_id: int, content: str, answered_by: str) -> PersonRequest:
    """Store the answer to a question and wake the run. The same answer again changes nothing; another one raises Conflict."""
    found = get(tx, tenant_id, request_id, "question")
    content = text.check_text(content.strip(), "answer", text.TEXT_LIMIT if found.is_client_call else ANSWER_LIMIT)
    choices = json.loads(found.choices)
    if not content or (choices and content not in choices):
        expected = f"Answer with one of: {', '.join(choices)}." if choices else "The answer is empty."
        raise Invalid(expected)
    question, _run = get_locked(tx, found)
    if question.state == "answered" and question.answer == content:
        return question
    if not question.is_open:
        raise Conflict(f"Question #{request_id} is already {question.state}.")
    return end(tx, question._replace(state="answered", answer=content, decided_by=answered_by))


def end(tx: Transaction, request: PersonRequest) -> PersonRequest:
    request = waiting.end_waiting(tx, request)
    waiting.wake_waiting_run(tx, request)
    return request


def expire_if_due(tx: Transaction, approval: PersonRequest) -> PersonRequest:
    """Let an approval expire if its time is over."""
    if not approval.is_open or tx.now < approval.expires_at:
        return approval
    return waiting.end_waiting(tx, approval._replace(state="expired", reason=EXPIRED_REASON))


def expire_due(tx: Transaction, run: Run) -> list[PersonRequest]:
    """Let the approvals of a run expire whose time is over. Returns the others that are open."""
    requests = request_store.list_open_of_run(tx, run.tenant_id, run.id)
    approvals = [expire_if_due(tx, request) for request in requests if request.kind == "approval"]
    return [approval for approval in approvals if approval.is_open]


# Reading


def find_by_call(tx: Transaction, run: Run, effect: Effect) -> PersonRequest | None:
    return request_store.find_by_call(tx, run.tenant_id, run.id, effect.n, effect.call_index)


def get(tx: Transaction, tenant_id: int, request_id: int, kind: RequestKind | None = None) -> PersonRequest:
    """Return a request, of this kind if one is given, or raise NotFound."""
    request = request_store.find(tx, tenant_id, request_id)
    if request is None or request.kind != (kind or request.kind):
        raise NotFound(f"No {kind or 'request'} #{request_id}.")
    return request


def get_locked(tx: Transaction, request: PersonRequest) -> tuple[PersonRequest, Run]:
    """Lock the run that waits, and return the request as it is then."""
    run = runs.get_locked_run(tx, runs.get_run(tx, request.tenant_id, request.waiting_run))
    return get(tx, request.tenant_id, request.id), run


class RequestPage(NamedTuple):
    """A part of the list of requests, newest first, and the cursor of the next part."""

    requests: list[PersonRequest]
    next_cursor: str | None


def list_page(
    tx: Transaction,
    tenant_id: int,
    kind: RequestKind | None,
    state: RequestState | None,
    limit: int,
    cursor: str | None = None,
) -> RequestPage:
    (before,) = CURSORS.decode(cursor)
    rows = request_store.list_page(tx, tenant_id, kind, state, limit + 1, before)
    return RequestPage(rows[:limit], CURSORS.encode_next(rows, limit, lambda request: (request.id,)))


def list_items(
    tx: Transaction,
    tenant_id: int,
    kind: RequestKind,
    state: ApprovalState | QuestionState | None,
    limit: int,
    cursor: str | None = None,
) -> dict[str, Any]:
    """List the requests of one kind, as the lists of approvals and of questions show them."""
    page = list_page(tx, tenant_id, kind, "open" if state == "proposed" else state, limit, cursor)
    return {f"{kind}s": [request.as_item() for request in page.requests], "next_cursor": page.next_cursor}
