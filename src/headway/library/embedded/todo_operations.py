"""Requests about todos."""

from collections.abc import Mapping
from typing import Any, Final

from headway.actions import claims, todos, views
from headway.actions.board import comments
from headway.actions.proof import edits, receipts
from headway.actions.todos import NO_OVERRIDE
from headway.actions.views import check_limit
from headway.ledger.scope import Selection
from headway.ledger.todo import DEFAULT_AGENT, UNSET, Change, Draft, Todo, parse_status, write_checks
from headway.library.door import Document
from headway.library.embedded.requests import LocalRequest, Operation, parse_list
from headway.storage.transaction import Transaction


def add(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    if "todos" in request.body:
        drafts = [build_draft(fields) for fields in request.body["todos"]]
        return {"todos": [todo.as_json() for todo in todos.add_many(tx, tenant_id, drafts)]}
    return wrap(todos.add(tx, tenant_id, build_draft(request.body)))


def build_draft(fields: Mapping[str, Any]) -> Draft:
    checks = fields.get("checks")
    return Draft(
        subject=fields["subject"],
        description=fields.get("description", ""),
        completion_criteria=fields.get("completion_criteria", ""),
        agent_type=fields.get("agent_type"),
        agent_id=fields.get("agent_id", DEFAULT_AGENT),
        conversation_id=fields.get("conversation_id", 0),
        turn_id=fields.get("turn_id"),
        status=parse_status(fields.get("status", "pending")),
        position=fields.get("position"),
        depends_on=tuple(fields.get("depends_on", ())),
        checks=write_checks(checks, "operator") if checks else "",
    )


def wrap(todo: Todo) -> Document:
    return {"todo": todo.as_json()}


def get(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return wrap(todos.get(tx, tenant_id, request.get_id()))


def list_page(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    query = request.query
    selection = Selection(
        conversation_id=parse_list(query.get("conversation_id")),
        turn_id=query.get("turn_id"),
        statuses=(parse_status(query["status"]),) if "status" in query else (),
        agent_id=query.get("agent_id"),
    )
    page = views.list_todos(tx, tenant_id, selection, request.limit, request.cursor)
    return {"todos": [todo.as_json() for todo in page.todos], "next_cursor": page.next_cursor}


def list_ready(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    ready = views.list_ready(tx, tenant_id, parse_list(request.query.get("conversation_id")), request.limit)
    return {"todos": [todo.as_json() for todo in ready]}


def change(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    body = dict(request.body)
    todo_id, checks, reason = request.get_id(), body.pop("checks", None), body.pop("override", None)
    lease_token, force = body.pop("lease_token", None), body.pop("force", False)
    if "status" in body:
        body["status"] = parse_status(body["status"])
    changes = Change(**{name: body.get(name, UNSET) for name in Change._fields})
    if checks is not None:
        changes = edits.set_checks(tx, tenant_id, todo_id, changes, list(checks), "operator")
    override = NO_OVERRIDE if reason is None else edits.build_override(reason, changes, request.actor)
    return wrap(todos.change(tx, tenant_id, todo_id, changes, lease_token, force=force, override=override))


def delete(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    lease_token, force = request.query.get("lease_token"), bool(request.query.get("force"))
    todos.remove(tx, tenant_id, request.get_id(), lease_token, force=force)
    return {"deleted": True}


def claim(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document | None:
    body = request.body
    taken = claims.claim(tx, tenant_id, body["agent_id"], body.get("conversation_id") or None, body["lease_s"])
    return taken.as_json() if taken else None


def heartbeat(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    body = request.body
    return claims.heartbeat(tx, tenant_id, request.get_id(), body["lease_token"], body["lease_s"]).as_json()


def list_receipts(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    todos.get(tx, tenant_id, request.get_id())
    return {"receipts": [receipt.as_json() for receipt in receipts.list_newest(tx, tenant_id, "todo", request.get_id())]}


def verify(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"receipt": receipts.verify(tx, tenant_id, request.get_id()).as_json()}


def list_comments(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    page = comments.list_page(tx, tenant_id, request.get_id(), check_limit(request.limit), request.cursor)
    return {"comments": [comment.as_json() for comment in page.comments], "next_cursor": page.next_cursor}


def add_comment(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"comment": comments.add(tx, tenant_id, request.get_id(), request.body["text"], request.actor).as_json()}


def edit_comment(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    comment = comments.edit(tx, tenant_id, request.get_id(), request.get_id(1), request.body["text"], request.actor)
    return {"comment": comment.as_json()}


def delete_comment(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    comments.remove(tx, tenant_id, request.get_id(), request.get_id(1), request.actor, operator=True)
    return {"deleted": True}


OPERATIONS: Final[dict[str, Operation]] = {
    "POST /todos": add,
    "GET /todos": list_page,
    "GET /todos/ready": list_ready,
    "POST /todos/claim": claim,
    "GET /todos/{}": get,
    "PATCH /todos/{}": change,
    "DELETE /todos/{}": delete,
    "GET /todos/{}/receipts": list_receipts,
    "POST /todos/{}/verify": verify,
    "POST /todos/{}/heartbeat": heartbeat,
    "GET /todos/{}/comments": list_comments,
    "POST /todos/{}/comments": add_comment,
    "PATCH /todos/{}/comments/{}": edit_comment,
    "DELETE /todos/{}/comments/{}": delete_comment,
}
