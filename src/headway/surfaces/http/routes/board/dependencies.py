"""/v1/todos/{todo_id}/dependencies"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.board import dependencies
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import board as shapes

routes = APIRouter(prefix="/v1/todos/{todo_id:todo_id}/dependencies", tags=["todos"])


@routes.get(
    "",
    summary="List what a todo waits for, and what waits for it",
    **document_route({200: shapes.Neighbours}, also=(404,), path={"todo_id": int}),
)
async def list_dependencies(request: Request) -> Response:
    call = RequestContext(request)
    todo_id = await call.parse_path_id("todo_id")
    found = await call.read(lambda tx, tenant_id: dependencies.list_neighbours(tx, tenant_id, todo_id))
    return to_json_response(found.as_json())
