"""/v1/todos/{todo_id}/comments"""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import tokens
from headway.actions.board import comments
from headway.ledger.todo import Comment
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import board as shapes
from headway.surfaces.http.schemas.todos import CursorQuery, Deleted

routes = APIRouter(prefix="/v1/todos/{todo_id:todo_id}/comments", tags=["todos"])

COMMENT = TypeAdapter(shapes.NewComment)


def to_json(comment: Comment, person: str, *, is_operator: bool) -> dict[str, Any]:
    is_own = comment.person == person
    return comment.as_json() | {"editable": is_own, "deletable": is_operator or is_own}


def identify(call: RequestContext, tx: Transaction) -> tuple[str, bool]:
    """Return the caller's name, and whether they are an operator."""
    token = tokens.authenticate(tx, call.digest)
    return tokens.name_person(tx, token), token.operator


@routes.get(
    "",
    summary="List the comments on a todo, oldest first",
    **document_route({200: shapes.ManyComments}, also=(404,), query=CursorQuery, path={"todo_id": int}),
)
async def list_comments(request: Request) -> Response:
    call = RequestContext(request)
    todo_id, query = await call.parse_path_id("todo_id"), await call.query(CursorQuery)

    def view(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        person, is_operator = identify(call, tx)
        page = comments.list_page(tx, tenant_id, todo_id, query.limit, query.cursor)
        rows = [to_json(comment, person, is_operator=is_operator) for comment in page.comments]
        return {"comments": rows, "next_cursor": page.next_cursor}

    return to_json_response(await call.read(view))


@routes.post(
    "",
    summary="Comment on a todo",
    **document_route({201: shapes.OneComment}, also=(404,), body=shapes.NewComment, path={"todo_id": int}, idempotent=True),
)
async def create(request: Request) -> Response:
    call = RequestContext(request)
    todo_id, body = await call.parse_path_id("todo_id"), await call.body(COMMENT)

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        person, is_operator = identify(call, tx)
        return {"comment": to_json(comments.add(tx, tenant_id, todo_id, body.text, person), person, is_operator=is_operator)}

    return await call.post(act)


@routes.patch(
    "/{comment_id}",
    summary="Edit a comment of the caller",
    **document_route({200: shapes.OneComment}, also=(404,), body=shapes.NewComment, path={"todo_id": int, "comment_id": int}),
)
async def edit(request: Request) -> Response:
    call = RequestContext(request)
    todo_id, comment_id = await call.parse_path_id("todo_id"), await call.parse_path_id("comment_id")
    body = await call.body(COMMENT)

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        person, is_operator = identify(call, tx)
        comment = comments.edit(tx, tenant_id, todo_id, comment_id, body.text, person)
        return {"comment": to_json(comment, person, is_operator=is_operator)}

    return to_json_response(await call.write(act))


@routes.delete(
    "/{comment_id}",
    summary="Delete a comment for good: the caller's own, or any if the caller is an operator",
    **document_route({200: Deleted}, also=(404, 507), path={"todo_id": int, "comment_id": int}),
)
async def delete(request: Request) -> Response:
    call = RequestContext(request)
    todo_id, comment_id = await call.parse_path_id("todo_id"), await call.parse_path_id("comment_id")

    def act(tx: Transaction, tenant_id: int) -> None:
        person, is_operator = identify(call, tx)
        comments.remove(tx, tenant_id, todo_id, comment_id, person, operator=is_operator)

    await call.write(act)
    return to_json_response({"deleted": True})
