"""Open requests, which keep a run waiting for a person. A waiting run has no process and no slot."""

from collections.abc import Collection
from typing import Any, Final

from headway.actions.runs import jobs, notices
from headway.ledger.events import Event, EventKind, encode_json
from headway.ledger.inbox import REQUEST_KINDS, PersonRequest, RequestKind
from headway.ledger.run import Run
from headway.storage.stores import requests as request_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

BEGIN_EVENTS: Final[dict[RequestKind, EventKind]] = {
    "approval": "approval_requested",
    "question": "question_asked",
    "decision": "decision_requested",
}
END_EVENTS: Final[dict[RequestKind, EventKind]] = {
    "approval": "approval_decided",
    "question": "question_answered",
    "decision": "decision_made",
}
WAITING_LIMIT: Final = 1_000
CANCELED_REASON: Final = "The run ended before anyone decided."


def begin_waiting(tx: Transaction, request: PersonRequest) -> PersonRequest:
    """Store a request, count it as one that its turn waits for, and emit it."""
    request = request_store.insert_request(tx, request)
    count_waiting(tx, request, 1)
    emit(tx, request, BEGIN_EVENTS[request.kind])
    return request


def end_waiting(tx: Transaction, request: PersonRequest) -> PersonRequest:
    """Store the request's final state, and emit it."""
    request = request._replace(decided_at=tx.now)
    request_store.save(tx, request)
    settle_notice(tx, request)
    count_waiting(tx, request, -1)
    emit(tx, request, END_EVENTS[request.kind])
    return request


def cancel_open(tx: Transaction, run: Run) -> None:
    """Cancel what a run that ends was waiting for. It may have several open approvals, also while one of its calls is made."""
    for request in request_store.list_open_of_run(tx, run.tenant_id, run.id):
        end_waiting(tx, request._replace(state="canceled", reason=CANCELED_REASON))


def settle_notice(tx: Transaction, request: PersonRequest) -> None:
    """Mark the notice about the request as done. All approvals of an answer have one notice, so the last of them ends it."""
    if request.is_client_call or request.run_id is None:  # nobody was notified, or the notice is about a goal
        return
    is_call = request.kind == "approval"
    of_notice = request_store.list_of_answer(tx, request.tenant_id, request.run_id, request.n) if is_call else [request]
    if not any(other.is_open for other in of_notice):
        notices.settle_requests(tx, request.tenant_id, [other.page for other in of_notice])


def emit(tx: Transaction, request: PersonRequest, event: EventKind) -> None:
    data = {"turn_id": request.turn_id, "goal_id": request.goal_id, request.kind: request.as_item()}
    subject = None if request.goal_id is None else f"goal:{request.goal_id}"
    tx.emit(Event(request.tenant_id, event, encode_json(data), request.conversation_id, request.turn_id, subject))
    found = request_store.count_open(tx, request.tenant_id)
    counts = {f"{kind}s": found.get(kind, 0) for kind in REQUEST_KINDS}
    tx.emit(Event(request.tenant_id, "waiting_changed", encode_json(counts)))  # tenant-wide: streams of other conversations get it


def count_waiting(tx: Transaction, request: PersonRequest, change: int) -> None:
    """Change the number of requests that the turn waits for."""
    if request.turn_id is not None:
        request_store.count_waiting(tx, request.tenant_id, request.turn_id, change)


def wake_waiting_run(tx: Transaction, request: PersonRequest) -> None:
    """Let the run that waits for the request continue. A process takes its job, now or when the next one starts."""
    if request.run_id is not None:
        jobs.wake_job(tx, request.tenant_id, request.run_id)


def is_person_needed(tx: Transaction, run: Run) -> bool:
    """Whether the run, or a sub-agent that it may wait for, waits for a person."""
    family = [run, *run_store.list_unfinished_descendants(tx, run.tenant_id, run.id)]
    return any(request_store.is_person_needed(tx, one.tenant_id, one.id) for one in family)


def list_by_turn(tx: Transaction, tenant_id: int, turn_id: str) -> list[PersonRequest]:
    """List the open requests of a turn, oldest first."""
    return request_store.list_open_of_turn(tx, tenant_id, turn_id)


def advise(kind: str, id: int) -> str:
    """Say how to respond to a request on the command line."""
    if kind == "question":
        return f"Answer with `headway inbox answer {id} TEXT`"
    return f"Decide with `headway inbox approve {id}` or `headway inbox reject {id}`"


def find_by_turn(tx: Transaction, tenant_id: int, turn_id: str) -> dict[str, Any] | None:
    """Return the turn's oldest open request, as `{"kind", "id"}`."""
    return next(({"kind": request.kind, "id": request.id} for request in list_by_turn(tx, tenant_id, turn_id)), None)


def is_waiting_for(tx: Transaction, tenant_id: int, turn_id: str, keys: Collection[tuple[str, int]]) -> bool:
    """Whether the turn's main agent rests, and the turn waits for exactly these requests: (kind, id)."""
    run = run_store.find_by_turn(tx, tenant_id, turn_id)
    if run is None or run.status != "waiting":
        return False
    return {(request.kind, request.id) for request in list_by_turn(tx, tenant_id, turn_id)} == set(keys)


def find_by_goal(tx: Transaction, tenant_id: int) -> dict[int, dict[str, Any]]:
    """Return the oldest open request of each goal of the tenant, as `{"kind", "id"}` by goal."""
    waiting = request_store.list_waiting_goals(tx, tenant_id, WAITING_LIMIT)
    return {goal_id: {"kind": kind, "id": request_id} for kind, request_id, goal_id in reversed(waiting)}


def count_all(tx: Transaction) -> dict[str, int]:
    """Count what waits for people across all tenants, for the operator."""
    found = request_store.count_all_open(tx)
    return {kind: found.get(kind, 0) for kind in REQUEST_KINDS}
