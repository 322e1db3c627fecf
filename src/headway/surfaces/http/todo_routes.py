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
from headway.surfaces.http import shapes
from headway.surfaces.http.calls import Call, rendered
from headway.surfaces.http.describing import described
from headway.surfaces.http.problems import invalid

routes = APIRouter(prefix="/v1/todos", tags=["todos"])

FIELDS = TypeAdapter(shapes.TodoFields)
CLAIM = TypeAdapter(shapes.NewClaim)
HEARTBEAT = TypeAdapter(shapes.Heartbeat)


class TodoId(Convertor[str]):
    """Whatever stands in an id's place, but for the words beside it: DELETE /todos/ready is a wrong method, not a wrong id."""

    regex = "(?!(?:ready|claim)(?:/|$))[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("todo_id", TodoId())


def many(found: list[Todo]) -> list[dict[str, Any]]:
    return [todo.as_json() for todo in found]


@routes.post(
    "",
    summary="Write one todo down, or several in one transaction",
    **described({201: shapes.OneOrManyTodos}, also=(404,), body=shapes.Creation, idempotent=True),
)
async def create(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(shapes.CREATION)
    if isinstance(wanted, shapes.NewTodos):
        drafts = [one.draft() for one in wanted.todos]
        return await call.post(lambda tx, tenant_id: {"todos": many(todos.add_many(tx, tenant_id, drafts))})
    draft = wanted.draft()
    return await call.post(lambda tx, tenant_id: {"todo": todos.add(tx, tenant_id, draft).as_json()})


@routes.get(
    "",
    summary="The list: in progress, pending by position, ended by most recent",
    **described({200: shapes.TodoPage}, also=(404,), query=shapes.ListQuery),
)
async def list_todos(request: Request) -> Response:
    call = Call(request)
    query = await call.query(shapes.ListQuery)
    page = await call.read(lambda tx, tenant_id: views.todos(tx, tenant_id, query.selection(), query.limit, query.cursor))
    return rendered({"todos": many(page.todos), "next_cursor": page.next_cursor})


@routes.patch(
    "",
    summary="Change several todos, each on its own",
    **described({200: shapes.BatchResult}, body=shapes.Changes),
)
async def change_many(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(shapes.CHANGES)
    rows = wanted.todos if isinstance(wanted, shapes.Rows) else wanted

    def change_all(tx: Transaction, tenant_id: int) -> list[dict[str, Any]]:
        todos.check_placed(sum("position" in (row.model_extra or ()) for row in rows))
        return [change_row(tx, tenant_id, row) for row in rows]

    results = await call.write(change_all)
    good = sum(result["ok"] for result in results)
    return rendered({"ok": good, "errors": len(results) - good, "results": results})


def change_row(tx: Transaction, tenant_id: int, loose: shapes.LooseRow) -> dict[str, Any]:
    try:
        row = shapes.TodoRow.model_validate_json(loose.model_dump_json())
        todo = tx.attempt(lambda tx: todos.change(tx, tenant_id, row.id, row.change(), row.lease_token, force=row.force))
    except ValidationError as error:
        return {"id": loose.id, "ok": False, "error": invalid(error).detail}
    except HeadwayError as error:
        return {"id": loose.id, "ok": False, "error": str(error)}
    return {"id": loose.id, "ok": True, "todo": todo.as_json()}


@routes.get(
    "/ready",
    summary="What could be started now: pending and not waiting for anything",
    **described({200: shapes.ManyTodos}, also=(404,), query=shapes.ReadyQuery),
)
async def ready(request: Request) -> Response:
    call = Call(request)
    query = await call.query(shapes.ReadyQuery)
    found = await call.read(lambda tx, tenant_id: views.ready(tx, tenant_id, query.list_id(), query.limit))
    return rendered({"todos": many(found)})


@routes.post(
    "/claim",
    summary="Take the next ready todo for an agent",
    **described({200: shapes.Claimed, 204: None}, also=(404,), body=shapes.NewClaim, idempotent=True),
)
async def claim(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(CLAIM)

    def take(tx: Transaction, tenant_id: int) -> dict[str, Any] | None:
        taken = claims.claim(tx, tenant_id, wanted.agent_id, wanted.conversation_id or None, wanted.lease_s)
        return taken.as_json() if taken else None

    return await call.post(take, 200)


@routes.get("/{todo_id:todo_id}", summary="One todo", **described({200: shapes.OneTodo}, also=(404,), path={"todo_id": int}))
async def get(request: Request) -> Response:
    call = Call(request)
    todo_id = await call.path_id("todo_id")
    todo = await call.read(lambda tx, tenant_id: todos.get(tx, tenant_id, todo_id))
    return rendered({"todo": todo.as_json()})


@routes.patch(
    "/{todo_id:todo_id}",
    summary="Change a todo",
    **described({200: shapes.OneTodo}, also=(404,), body=shapes.TodoFields, path={"todo_id": int}),
)
async def change(request: Request) -> Response:
    call = Call(request)
    todo_id = await call.path_id("todo_id")
    wanted = await call.body(FIELDS)
    todo = await call.write(
        lambda tx, tenant_id: todos.change(tx, tenant_id, todo_id, wanted.change(), wanted.lease_token, force=wanted.force)
    )
    return rendered({"todo": todo.as_json()})


@routes.delete(
    "/{todo_id:todo_id}",
    summary="Delete a todo for good",
    **described({200: shapes.Deleted}, also=(404, 409, 507), query=shapes.DeleteQuery, path={"todo_id": int}),
)
async def delete(request: Request) -> Response:
    call = Call(request)
    todo_id = await call.path_id("todo_id")
    query = await call.query(shapes.DeleteQuery)
    await call.write(lambda tx, tenant_id: todos.remove(tx, tenant_id, todo_id, query.lease_token, force=query.force))
    return rendered({"deleted": True})


@routes.post(
    "/{todo_id:todo_id}/heartbeat",
    summary="Keep a claimed todo for longer",
    **described({200: shapes.Claimed}, also=(404,), body=shapes.Heartbeat, path={"todo_id": int}, idempotent=True),
)
async def heartbeat(request: Request) -> Response:
    call = Call(request)
    todo_id = await call.path_id("todo_id")
    wanted = await call.body(HEARTBEAT)
    return await call.post(
        lambda tx, tenant_id: claims.heartbeat(tx, tenant_id, todo_id, wanted.lease_token, wanted.lease_s).as_json(), 200
    )
