"""Requests about approvals, questions, notes and costs."""

from typing import Final

from headway.actions import memory, spending
from headway.actions.memory import DEFAULT_KIND, MemoryChange, NewMemory
from headway.actions.people import approvals, questions
from headway.actions.people.approvals import ApprovalDecision
from headway.actions.views import check_limit
from headway.ledger.errors import Invalid
from headway.ledger.run import NANOS_PER_DOLLAR
from headway.ledger.scope import MemorySelection
from headway.library.door import Document
from headway.library.embedded.requests import LocalRequest, Operation, parse_list
from headway.storage.transaction import Transaction

MOST_DOLLARS: Final = 1_000_000


def list_approvals(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return approvals.list_page(tx, tenant_id, request.query.get("state"), check_limit(request.limit), request.cursor)


def get_approval(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"approval": approvals.get(tx, tenant_id, request.get_id()).as_json()}


def decide(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    body = request.body
    arguments = approvals.encode_arguments(body["arguments"]) if "arguments" in body else None
    decision = ApprovalDecision(body["decision"], request.actor, arguments, body["reason"])
    request.nudge()
    decided = request.headway.permission.decide(tx, tenant_id, request.get_id(), decision, always=body.get("always", False))
    return {"approval": decided.as_json()}


def list_questions(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return questions.list_page(tx, tenant_id, request.query.get("state"), check_limit(request.limit), request.cursor)


def get_question(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"question": questions.get(tx, tenant_id, request.get_id()).as_json()}


def answer(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    request.nudge()
    return {"question": questions.answer(tx, tenant_id, request.get_id(), request.body["answer"], request.actor).as_json()}


def add_note(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    body = request.body
    entry = NewMemory(body["text"], body.get("kind", DEFAULT_KIND), body["conversation_id"])
    return {"entry": memory.add(tx, tenant_id, entry, request.actor).as_json()}


def list_notes(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    query = request.query
    selection = MemorySelection(parse_list(query.get("conversation_id")), query.get("kind"))
    return memory.list_page(tx, tenant_id, selection, query.get("q", ""), check_limit(request.limit), request.cursor).as_json()


def get_note(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"entry": memory.get(tx, tenant_id, request.get_id()).as_json()}


def change_note(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    changes = MemoryChange(**request.body)
    return {"entry": memory.change(tx, tenant_id, request.get_id(), changes, request.actor).as_json()}


def delete_note(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    memory.remove(tx, tenant_id, request.get_id())
    return {"deleted": True}


def get_costs(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    headway = request.headway
    return {"costs": spending.build_costs(tx, tenant_id, headway.settings.limits.budget, headway.unpriced_models)}


def set_limit(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    limit_usd = request.body["limit_usd"]
    if not 0 <= limit_usd <= MOST_DOLLARS:
        raise Invalid(f"limit_usd must be between 0 and {MOST_DOLLARS:,}.")
    spending.set_limit(tx, tenant_id, int(limit_usd * NANOS_PER_DOLLAR))
    request.nudge()
    return get_costs(tx, tenant_id, request)


OPERATIONS: Final[dict[str, Operation]] = {
    "GET /approvals": list_approvals,
    "GET /approvals/{}": get_approval,
    "POST /approvals/{}": decide,
    "GET /questions": list_questions,
    "GET /questions/{}": get_question,
    "POST /questions/{}": answer,
    "POST /memory": add_note,
    "GET /memory": list_notes,
    "GET /memory/{}": get_note,
    "PATCH /memory/{}": change_note,
    "DELETE /memory/{}": delete_note,
    "GET /costs": get_costs,
    "PUT /costs": set_limit,
}
