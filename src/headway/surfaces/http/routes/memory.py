"""/v1/memory: the notes that agents recall. People list, search, add, edit and delete them."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import memory
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import memory as shapes
from headway.surfaces.http.schemas.todos import Deleted

routes = APIRouter(prefix="/v1/memory", tags=["memory"])

ENTRY = TypeAdapter(shapes.NewMemoryEntry)
FIELDS = TypeAdapter(shapes.MemoryFields)
ENTRY_PATH: dict[str, Any] = {"path": {"entry_id": int}}


@routes.get(
    "",
    summary="List or search the tenant's memory, newest first",
    **document_route({200: shapes.ManyMemoryEntries}, also=(404,), query=shapes.MemoryQuery),
)
async def list_entries(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.MemoryQuery)
    page = await call.read(
        lambda tx, tenant_id: memory.list_page(tx, tenant_id, query.selection(), query.q, query.limit, query.cursor)
    )
    return to_json_response(page.as_json())


@routes.post(
    "",
    summary="Add a memory entry",
    **document_route({201: shapes.OneMemoryEntry}, also=(404,), body=shapes.NewMemoryEntry, idempotent=True),
)
async def create(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(ENTRY)

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"entry": memory.add(tx, tenant_id, body.to_entry(), call.describe_caller(tx)).as_json()}

    return await call.post(act)


@routes.get(
    "/{entry_id}",
    summary="Get a memory entry",
    **document_route({200: shapes.OneMemoryEntry}, also=(404,), **ENTRY_PATH),
)
async def get(request: Request) -> Response:
    call = RequestContext(request)
    entry_id = await call.parse_path_id("entry_id")
    entry = await call.read(lambda tx, tenant_id: memory.get(tx, tenant_id, entry_id))
    return to_json_response({"entry": entry.as_json()})


@routes.patch(
    "/{entry_id}",
    summary="Edit a memory entry",
    **document_route({200: shapes.OneMemoryEntry}, also=(404,), body=shapes.MemoryFields, **ENTRY_PATH),
)
async def change(request: Request) -> Response:
    call = RequestContext(request)
    entry_id, fields = await call.parse_path_id("entry_id"), await call.body(FIELDS)
    entry = await call.write(
        lambda tx, tenant_id: memory.change(tx, tenant_id, entry_id, fields.change(), call.describe_caller(tx))
    )
    return to_json_response({"entry": entry.as_json()})


@routes.delete(
    "/{entry_id}",
    summary="Delete a memory entry for good",
    **document_route({200: Deleted}, also=(404, 507), **ENTRY_PATH),
)
async def delete(request: Request) -> Response:
    call = RequestContext(request)
    entry_id = await call.parse_path_id("entry_id")
    await call.write(lambda tx, tenant_id: memory.remove(tx, tenant_id, entry_id))
    return to_json_response({"deleted": True})
