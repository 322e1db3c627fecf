"""/v1/todos"""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter, ValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import claims, todos, views
from headway.ledger.errors import HeadwayError
from headway.ledger.todo import Todo
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import to_validation_problem
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import todos as todo_schemas

routes = APIRouter(prefix="/v1/todos", tags=["todos"])

FIELDS = TypeAdapter(todo_schemas.TodoFields)
CLAIM = TypeAdapter(todo_schemas.NewClaim)
HEARTBEAT = TypeAdapter(todo_schemas.Heartbeat)


class TodoIdConvertor(Convertor[str]):
    """Matches any path segment except the names of sibling routes: DELETE /todos/ready is a wrong method, not a wrong id."""

    regex = "(?!(?:ready|claim)(?:/|$))[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("todo_id", TodoIdConvertor())


def to_json_list(found: list[Todo]) -> list[dict[str, Any]]:
    return [todo.as_json() for todo in found]


@routes.post(
    "",
    summary="Add one todo, or several in one transaction",
    **document_route({201: todo_schemas.OneOrManyTodos}, also=(404,), body=todo_schemas.TodoCreation, idempotent=True),
)
async def create(request: Request) -> Response:
    call = RequestContext(request)
    wanted = await call.body(todo_schemas.CREATION)
    if isinstance(wanted, todo_schemas.NewTodos):
        drafts = [one.draft() for one in wanted.todos]
        return await call.post(lambda tx, tenant_id: {"todos": to_json_list(todos.add_many(tx, tenant_id, drafts))})
    draft = wanted.draft()
    return await call.post(lambda tx, tenant_id: {"todo": todos.add(tx, tenant_id, draft).as_json()})


@routes.get(
    "",
    summary="List todos: in progress, pending by position, ended by most recent",
    **document_route({200: todo_schemas.TodoPage}, also=(404,), query=todo_schemas.ListQuery),
)
async def list_todos(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(todo_schemas.ListQuery)
    page = await call.read(lambda tx, tenant_id: views.list_todos(tx, tenant_id, query.selection(), query.limit, query.cursor))
    return to_json_response({"todos": to_json_list(page.todos), "next_cursor": page.next_cursor})


@routes.patch(
    "",
    summary="Change several todos, each independently",
    **document_route({200: todo_schemas.BatchResult}, body=todo_schemas.TodoChanges),
)
async def change_many(request: Request) -> Response:
    call = RequestContext(request)
    wanted = await call.body(todo_schemas.CHANGES)
    rows = wanted.todos if isinstance(wanted, todo_schemas.Rows) else wanted

    def change_all(tx: Transaction, tenant_id: int) -> list[dict[str, Any]]:
        todos.check_positioned(sum("position" in (row.model_extra or ()) for row in rows))
        return [change_row(tx, tenant_id, row) for row in rows]

    results = await call.write(change_all)
    good = sum(result["ok"] for result in results)
    return to_json_response({"ok": good, "errors": len(results) - good, "results": results})


def change_row(tx: Transaction, tenant_id: int, loose: todo_schemas.LooseRow) -> dict[str, Any]:
    try:
        row = todo_schemas.TodoChangeRow.model_validate_json(loose.model_dump_json())
        todo = tx.attempt(lambda tx: todos.change(tx, tenant_id, row.id, row.change(), row.lease_token, force=row.force))
    except ValidationError as error:
        return {"id": loose.id, "ok": False, "error": to_validation_problem(error).detail}
    except HeadwayError as error:
        return {"id": loose.id, "ok": False, "error": str(error)}
    return {"id": loose.id, "ok": True, "todo": todo.as_json()}


@routes.get(
    "/ready",
    summary="List todos that can start now: pending, with all dependencies ended",
    **document_route({200: todo_schemas.ManyTodos}, also=(404,), query=todo_schemas.ReadyQuery),
)
async def ready(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(todo_schemas.ReadyQuery)
    found = await call.read(lambda tx, tenant_id: views.list_ready(tx, tenant_id, query.to_list_id(), query.limit))
    return to_json_response({"todos": to_json_list(found)})


@routes.post(
    "/claim",
    summary="Claim the next ready todo for an agent",
    **document_route({200: todo_schemas.Claimed, 204: None}, also=(404,), body=todo_schemas.NewClaim, idempotent=True),
)
async def claim(request: Request) -> Response:
    call = RequestContext(request)
    wanted = await call.body(CLAIM)

    def take(tx: Transaction, tenant_id: int) -> dict[str, Any] | None:
        taken = claims.claim(tx, tenant_id, wanted.agent_id, wanted.conversation_id or None, wanted.lease_s)
        return taken.as_json() if taken else None

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
    wanted = await call.body(FIELDS)
    todo = await call.write(
        lambda tx, tenant_id: todos.change(tx, tenant_id, todo_id, wanted.change(), wanted.lease_token, force=wanted.force)
    )
    return to_json_response({"todo": todo.as_json()})


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
    wanted = await call.body(HEARTBEAT)
    return await call.post(
        lambda tx, tenant_id: claims.heartbeat(tx, tenant_id, todo_id, wanted.lease_token, wanted.lease_s).as_json(), 200
    )
