"""Operations on todos: /todos"""

from typing import Annotated, Any

from headway.actions import claims, todos, views
from headway.actions.board import ordering
from headway.actions.proof import edits, receipts
from headway.actions.todos import NO_OVERRIDE
from headway.ledger import todo as ledger
from headway.operations.operation import AnswerShape, Choice, Document, OperationCall, OperationTable, many, one
from headway.operations.schemas import todos as schemas
from headway.operations.schemas.checks import list_checks
from headway.values.todos import Lease, Receipt, Todo
from headway.values.value import Meaning

table = OperationTable("todos")

ONE_TODO = one("todo", Todo)
MANY_TODOS = many("todos", Todo)
CLAIM_ANSWER = AnswerShape("Claimed", {"todo": Todo, "lease": Lease})
TODO_PAGE = AnswerShape(
    "TodoPage",
    {
        "todos": list[Todo],
        "next_cursor": str | None,
        "searched_all": Annotated[bool, Meaning("False: a search stopped before the end. It continues with `next_cursor`")],
        "open_dependencies": Annotated[list[int], Meaning("Those of `depends_on` of open todos that have not ended")],
    },
)
ONE_OR_MANY_TODOS = Choice("OneOrManyTodos", (ONE_TODO, MANY_TODOS))  # like the request


def encode_todos(found: list[ledger.Todo]) -> list[dict[str, Any]]:
    return [todo.as_json() for todo in found]


@table.add("POST /todos", "Add one todo, or several in one transaction", {201: ONE_OR_MANY_TODOS}, errors=(404,))
def create_todo(call: OperationCall, body: schemas.TodoCreation) -> Document:
    if isinstance(body, schemas.NewTodos):
        drafts = [row.draft(call.tx.author) for row in body.todos]
        return {"todos": encode_todos(todos.add_many(call.tx, call.tenant_id, drafts))}
    return {"todo": todos.add(call.tx, call.tenant_id, body.draft(call.tx.author)).as_json()}


@table.add("GET /todos", "List todos: in progress, pending by position, ended by most recent", TODO_PAGE, errors=(404,))
def list_todos(call: OperationCall, query: schemas.ListQuery) -> Document:
    selection = query.selection(call.tx.now, query.status)
    page = views.search_todos(call.tx, call.tenant_id, selection, query.q, query.limit, query.cursor)
    return {
        "todos": encode_todos(page.todos),
        "next_cursor": page.next_cursor,
        "searched_all": page.searched_all,
        "open_dependencies": views.list_open_dependencies(call.tx, call.tenant_id, page.todos),
    }


@table.add("GET /todos/counts", "Count todos by status", schemas.TodoCounts, errors=(404,))
def count_todos(call: OperationCall, query: schemas.TodoFilter) -> Document:
    return {"counts": views.count_todos(call.tx, call.tenant_id, query.selection(call.tx.now))}


@table.add(
    "GET /todos/ready",
    "List todos that can start now: pending, with all dependencies ended",
    MANY_TODOS,
    errors=(404,),
)
def list_ready_todos(call: OperationCall, query: schemas.ReadyQuery) -> Document:
    return {"todos": encode_todos(views.list_ready(call.tx, call.tenant_id, query.to_list_id(), query.limit))}


@table.add("POST /todos/claim", "Claim the next ready todo for an agent", {200: CLAIM_ANSWER, 204: None}, errors=(404,))
def claim_todo(call: OperationCall, body: schemas.NewClaim) -> Document | None:
    claim = claims.claim(call.tx, call.tenant_id, body.agent_id, body.conversation_id or None, body.lease_s)
    return claim.as_json() if claim else None


@table.add("GET /todos/{todo_id}", "Get a todo", ONE_TODO, errors=(404,))
def get_todo(call: OperationCall, todo_id: int) -> Document:
    return {"todo": todos.get(call.tx, call.tenant_id, todo_id).as_json()}


@table.add("PATCH /todos/{todo_id}", "Change a todo", ONE_TODO, errors=(404,))
def change_todo(call: OperationCall, todo_id: int, body: schemas.TodoFields) -> Document:
    return {"todo": apply_fields(call, todo_id, body).as_json()}


def apply_fields(call: OperationCall, todo_id: int, fields: schemas.TodoFields) -> ledger.Todo:
    tx, tenant_id = call.tx, call.tenant_id
    changes = ordering.place_beside(tx, tenant_id, todo_id, fields.change(), fields.before, fields.after)
    if fields.checks is not None:
        changes = edits.set_checks(tx, tenant_id, todo_id, changes, list_checks(fields.checks), tx.author)
    override = NO_OVERRIDE
    if fields.override is not None:
        override = edits.build_override(fields.override, changes, call.caller_name)
    return todos.change(tx, tenant_id, todo_id, changes, fields.lease_token, force=fields.force, override=override)


@table.add(
    "GET /todos/{todo_id}/receipts", "List what the checks of a todo found, newest first", many("receipts", Receipt), errors=(404,)
)
def list_todo_receipts(call: OperationCall, todo_id: int) -> Document:
    todos.get(call.tx, call.tenant_id, todo_id)
    return {"receipts": [receipt.as_json() for receipt in receipts.list_newest(call.tx, call.tenant_id, "todo", todo_id)]}


@table.add("POST /todos/{todo_id}/verify", "Run the checks of a todo again", one("receipt", Receipt), errors=(404, 409))
def verify_todo(call: OperationCall, todo_id: int) -> Document:
    """A completed todo whose checks do not pass is `broken`. The response waits for the checks, which can take minutes."""
    return {"receipt": receipts.verify(call.tx, call.tenant_id, todo_id).as_json()}


@table.add("DELETE /todos/{todo_id}", "Delete a todo for good", schemas.Deleted, errors=(404, 409, 507))
def delete_todo(call: OperationCall, todo_id: int, query: schemas.DeleteQuery) -> Document:
    todos.remove(call.tx, call.tenant_id, todo_id, query.lease_token, force=query.force)
    return {"deleted": True}


@table.add("POST /todos/{todo_id}/heartbeat", "Extend the lease on a claimed todo", CLAIM_ANSWER, errors=(404,))
def heartbeat_todo(call: OperationCall, todo_id: int, body: schemas.Heartbeat) -> Document:
    return claims.heartbeat(call.tx, call.tenant_id, todo_id, body.lease_token, body.lease_s).as_json()
