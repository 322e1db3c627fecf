"""/v1/views"""

from typing import Any, Final

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import tokens
from headway.actions.board import saved_views
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import board as shapes
from headway.surfaces.http.schemas.todos import Deleted

routes = APIRouter(prefix="/v1/views", tags=["todos"])

NEW: Final = TypeAdapter(shapes.NewView)
FIELDS: Final = TypeAdapter(shapes.ViewFields)


def name_caller(call: RequestContext, tx: Transaction) -> str:
    return tokens.name_person(tx, tokens.authenticate(tx, call.digest))


@routes.get("", summary="List the saved views of the board, by name", **document_route({200: shapes.ManyViews}))
async def list_views(request: Request) -> Response:
    views = await RequestContext(request).read(saved_views.list_all)
    return to_json_response({"views": [view.as_json() for view in views]})


@routes.post(
    "",
    summary="Save filters of the board under a name",
    **document_route({201: shapes.OneView}, body=shapes.NewView, idempotent=True),
)
async def create(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(NEW)

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        view = saved_views.add(tx, tenant_id, body.name, body.filters.to_filters(), name_caller(call, tx))
        return {"view": view.as_json()}

    return await call.post(act)


@routes.patch(
    "/{view_id}",
    summary="Rename a saved view, or replace its filters",
    **document_route({200: shapes.OneView}, also=(404,), body=shapes.ViewFields, path={"view_id": int}),
)
async def change(request: Request) -> Response:
    call = RequestContext(request)
    view_id, fields = await call.parse_path_id("view_id"), await call.body(FIELDS)
    view = await call.write(
        lambda tx, tenant_id: saved_views.change(tx, tenant_id, view_id, fields.change(), name_caller(call, tx))
    )
    return to_json_response({"view": view.as_json()})


@routes.delete(
    "/{view_id}",
    summary="Delete a saved view. Its todos stay",
    **document_route({200: Deleted}, also=(404, 507), path={"view_id": int}),
)
async def delete(request: Request) -> Response:
    call = RequestContext(request)
    view_id = await call.parse_path_id("view_id")
    await call.write(lambda tx, tenant_id: saved_views.remove(tx, tenant_id, view_id))
    return to_json_response({"deleted": True})
