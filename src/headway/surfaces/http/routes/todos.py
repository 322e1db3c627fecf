"""/v1/todos"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter, ValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import claims, todos, views
from headway.actions.board import ordering
from headway.actions.proof import edits, receipts
from headway.actions.todos import NO_OVERRIDE
from headway.ledger.check import Author
from headway.ledger.errors import CheckFailed, ChecksRequired, HeadwayError, StorageError, Unauthorized, WrongCell
from headway.ledger.todo import Todo
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import to_validation_problem
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import todos as todo_schemas
from headway.surfaces.http.schemas.checks import ManyReceipts, OneReceipt, list_checks

routes = APIRouter(prefix="/v1/todos", tags=["todos"])

FIELDS = TypeAdapter(todo_schemas.TodoFields)
CLAIM = TypeAdapter(todo_schemas.NewClaim)
HEARTBEAT = TypeAdapter(todo_schemas.Heartbeat)
PLACES = frozenset(("position", "before", "after"))  # fields that may move other todos


class TodoIdConvertor(Convertor[str]):
    """Matches any path segment except the names of sibling routes: DELETE /todos/ready is a wrong method, not a wrong id."""

    regex = "(?!(?:ready|claim|counts)(?:/|$))[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("todo_id", TodoIdConvertor())


def to_json_list(todos: list[Todo]) -> list[dict[str, Any]]:
    return [todo.as_json() for todo in todos]


@routes.post(
    "",
    summary="Add one todo, or several in one transaction",
    **document_route({201: todo_schemas.OneOrManyTodos}, also=(404,), body=todo_schemas.TodoCreation, idempotent=True),
)
async def create(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(todo_schemas.CREATION)
    if isinstance(body, todo_schemas.NewTodos):
        rows = body.todos

        def add_all(tx: Transaction, tenant_id: int) -> dict[str, Any]:
            drafts = [row.draft(find_author(call, tx, row)) for row in rows]
            return {"todos": to_json_list(todos.add_many(tx, tenant_id, drafts))}

        return await call.post(add_all)
    return await call.post(
        lambda tx, tenant_id: {"todo": todos.add(tx, tenant_id, body.draft(find_author(call, tx, body))).as_json()}
    )


def find_author(call: RequestContext, tx: Transaction, body: todo_schemas.NewTodo | todo_schemas.TodoFields) -> Author:
    return call.get_author(tx) if body.checks else "person"


@routes.get(
    "",
    summary="List todos: in progress, pending by position, ended by most recent",
    **document_route({200: todo_schemas.TodoPage}, also=(404,), query=todo_schemas.ListQuery),
)
async def list_todos(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(todo_schemas.ListQuery)
    selection = query.selection(query.status)

    def view(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        page = views.search_todos(tx, tenant_id, selection, query.q, query.limit, query.cursor)
        return {
            "todos": to_json_list(page.todos),
            "next_cursor": page.next_cursor,
            "searched_all": page.searched_all,
            "open_dependencies": views.list_open_dependencies(tx, tenant_id, page.todos),
        }

    return to_json_response(await call.read(view))


@routes.get(
    "/counts",
    summary="Count todos by status",
    **document_route({200: todo_schemas.TodoCounts}, also=(404,), query=todo_schemas.TodoFilter),
)
async def count(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(todo_schemas.TodoFilter)
    return to_json_response({"counts": await call.read(lambda tx, tenant_id: views.count_todos(tx, tenant_id, query.selection()))})


@routes.patch(
    "",
    summary="Change several todos, each independently",
    **document_route({200: todo_schemas.BatchResult}, body=todo_schemas.TodoChanges),
)
async def change_many(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(todo_schemas.CHANGES)
    rows = body.todos if isinstance(body, todo_schemas.Rows) else body

    await call.known(todos.check_positioned, sum(not PLACES.isdisjoint(row.model_extra or ()) for row in rows))
    results: list[dict[str, Any]] = []
    while len(results) < len(rows):
        results += await call.write(partial(change_rows, call, rows[len(results) :]))
        if len(results) < len(rows):  # the next row completes a todo that has checks
            results.append(await complete_row(call, rows[len(results)]))
    ok_count = sum(result["ok"] for result in results)
    return to_json_response({"ok": ok_count, "errors": len(results) - ok_count, "results": results})


def change_rows(
    call: RequestContext, rows: Sequence[todo_schemas.LooseRow], tx: Transaction, tenant_id: int
) -> list[dict[str, Any]]:
    """Change todos, each independently, up to the first whose checks have to run."""
    results = []
    for row in rows:
        try:
            results.append(change_row(call, tx, tenant_id, row))
        except ChecksRequired:
            break
    return results


async def complete_row(call: RequestContext, row: todo_schemas.LooseRow) -> dict[str, Any]:
    try:
        return await call.write(lambda tx, tenant_id: change_row(call, tx, tenant_id, row))
    except (StorageError, Unauthorized, WrongCell):
        raise
    except HeadwayError as error:  # its checks may not run
        return {"id": row.id, "ok": False, "error": str(error)}


def change_row(call: RequestContext, tx: Transaction, tenant_id: int, loose_row: todo_schemas.LooseRow) -> dict[str, Any]:
    try:
        row = todo_schemas.TodoChangeRow.model_validate_json(loose_row.model_dump_json())
        todo = tx.attempt(lambda tx: apply_fields(call, tx, tenant_id, row.id, row))
    except ChecksRequired:
        raise
    except ValidationError as error:
        return {"id": loose_row.id, "ok": False, "error": to_validation_problem(error).detail}
    except CheckFailed as error:
        return {"id": loose_row.id, "ok": False, "error": str(error), "failures": error.failures}
    except HeadwayError as error:
        return {"id": loose_row.id, "ok": False, "error": str(error)}
    return {"id": loose_row.id, "ok": True, "todo": todo.as_json()}


def apply_fields(call: RequestContext, tx: Transaction, tenant_id: int, todo_id: int, fields: todo_schemas.TodoFields) -> Todo:
    changes = ordering.place_beside(tx, tenant_id, todo_id, fields.change(), fields.before, fields.after)
    if fields.checks is not None:
        checks = list_checks(fields.checks)
        changes = edits.set_checks(tx, tenant_id, todo_id, changes, checks, call.get_author(tx))
    override = NO_OVERRIDE
    if fields.override is not None:
        override = edits.build_override(fields.override, changes, call.describe_caller(tx))
    return todos.change(tx, tenant_id, todo_id, changes, fields.lease_token, force=fields.force, override=override)


@routes.get(
    "/ready",
    summary="List todos that can start now: pending, with all dependencies ended",
    **document_route({200: todo_schemas.ManyTodos}, also=(404,), query=todo_schemas.ReadyQuery),
)
async def ready(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(todo_schemas.ReadyQuery)
    ready_todos = await call.read(lambda tx, tenant_id: views.list_ready(tx, tenant_id, query.to_list_id(), query.limit))
    return to_json_response({"todos": to_json_list(ready_todos)})


@routes.post(
    "/claim",
    summary="Claim the next ready todo for an agent",
    **document_route({200: todo_schemas.Claimed, 204: None}, also=(404,), body=todo_schemas.NewClaim, idempotent=True),
)
async def claim(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(CLAIM)

    def take(tx: Transaction, tenant_id: int) -> dict[str, Any] | None:
        new_claim = claims.claim(tx, tenant_id, body.agent_id, body.conversation_id or None, body.lease_s)
        return new_claim.as_json() if new_claim else None

    return await call.post(take, 200)


@routes.get(
    "/{todo_id:todo_id}", summary="Get a todo", **document_route({200: todo_schemas.OneTodo}, also=(404,), path={"todo_id": int})
)
async def get(request: Request) -> Response:
    call = RequestContext(request)
    todo_id = await call.parse_path_id("todo_id")
    todo = await call.read(lambda tx, tenant_id: todos.get(tx, tenant_id, todo_id))
    return to_json_response({"todo": todo.as_json()})


@routes.patch(
    "/{todo_id:todo_id}",
    summary="Change a todo",
    **document_route({200: todo_schemas.OneTodo}, also=(404,), body=todo_schemas.TodoFields, path={"todo_id": int}),
)
async def change(request: Request) -> Response:
    call = RequestContext(request)
    todo_id = await call.parse_path_id("todo_id")
    fields = await call.body(FIELDS)
    todo = await call.write(lambda tx, tenant_id: apply_fields(call, tx, tenant_id, todo_id, fields))
    return to_json_response({"todo": todo.as_json()})


@routes.get(
    "/{todo_id:todo_id}/receipts",
    summary="List what the checks of a todo found, newest first",
    **document_route({200: ManyReceipts}, also=(404,), path={"todo_id": int}),
)
async def list_receipts(request: Request) -> Response:
    call = RequestContext(request)
    todo_id = await call.parse_path_id("todo_id")

    def view(tx: Transaction, tenant_id: int) -> list[dict[str, Any]]:
        todos.get(tx, tenant_id, todo_id)
        return [receipt.as_json() for receipt in receipts.list_newest(tx, tenant_id, "todo", todo_id)]

    return to_json_response({"receipts": await call.read(view)})


@routes.post(
    "/{todo_id:todo_id}/verify",
    summary="Run the checks of a todo again",
    **document_route({200: OneReceipt}, also=(404, 409), path={"todo_id": int}, idempotent=True),
)
async def verify(request: Request) -> Response:
    """A completed todo whose checks do not pass is `broken`. The response waits for the checks, which can take minutes."""
    call = RequestContext(request)
    todo_id = await call.parse_path_id("todo_id")
    return await call.post(lambda tx, tenant_id: {"receipt": receipts.verify(tx, tenant_id, todo_id).as_json()}, 200)


@routes.delete(
    "/{todo_id:todo_id}",
    summary="Delete a todo for good",
    **document_route({200: todo_schemas.Deleted}, also=(404, 409, 507), query=todo_schemas.DeleteQuery, path={"todo_id": int}),
)
async def delete(request: Request) -> Response:
    call = RequestContext(request)
    todo_id = await call.parse_path_id("todo_id")
    query = await call.query(todo_schemas.DeleteQuery)
    await call.write(lambda tx, tenant_id: todos.remove(tx, tenant_id, todo_id, query.lease_token, force=query.force))
    return to_json_response({"deleted": True})


@routes.post(
    "/{todo_id:todo_id}/heartbeat",
    summary="Extend the lease on a claimed todo",
    **document_route({200: todo_schemas.Claimed}, also=(404,), body=todo_schemas.Heartbeat, path={"todo_id": int}, idempotent=True),
)
async def heartbeat(request: Request) -> Response:
    call = RequestContext(request)
    todo_id = await call.parse_path_id("todo_id")
    body = await call.body(HEARTBEAT)
    return await call.post(
        lambda tx, tenant_id: claims.heartbeat(tx, tenant_id, todo_id, body.lease_token, body.lease_s).as_json(), 200
    )
