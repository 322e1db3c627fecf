"""/v1/conversations"""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, turns
from headway.actions.history import conversation_pages
from headway.ledger.job import Job
from headway.storage.transaction import Transaction
from headway.surfaces.http.bodies import ATTACHMENTS_BODY_LIMIT
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import agents
from headway.surfaces.http.schemas import conversations as shapes
from headway.surfaces.http.turn_streams import start_jobs

routes = APIRouter(prefix="/v1", tags=["conversations"])

CONVERSATION = TypeAdapter(shapes.NewConversation)
FIELDS = TypeAdapter(shapes.ConversationFields)
CONVERSATION_PATH: dict[str, Any] = {"path": {"conversation_id": int}}


@routes.post(
    "/conversations",
    summary="Create a conversation, and send its first message if there is one",
    **document_route({201: shapes.StartedConversation}, also=(404,), body=shapes.NewConversation, idempotent=True),
)
async def create(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(CONVERSATION, ATTACHMENTS_BODY_LIMIT)
    message = body.message
    attachments = await call.known(agents.build_attachments, message) if message else []
    started_jobs: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        conversation = conversations.add(tx, tenant_id, body.title, body.key)
        if message is None:
            return {"conversation": conversation.as_json(), "turn_id": None}
        place = (tenant_id, conversation.id)
        job = call.headway.begin_turn(tx, *place, message.content, message.mode, attachments, message.continues or "")
        started_jobs[:] = [job]
        return {"conversation": conversations.get(tx, *place).as_json(), "turn_id": turns.get_turn_id(job)}

    if message:
        await call.headway.agents_ready()
    answer = await call.post(begin)
    start_jobs(call, started_jobs)
    return answer


@routes.get(
    "/conversations",
    summary="List or search conversations, newest first",
    **document_route({200: shapes.ManyConversations}, query=shapes.ConversationsQuery),
)
async def list_conversations(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.ConversationsQuery)

    def view(tx: Transaction, tenant_id: int) -> conversation_pages.ConversationPage:
        if query.key is not None:
            return conversation_pages.list_by_key(tx, tenant_id, query.key)
        return conversation_pages.list_page(tx, tenant_id, query.selection(), query.limit, query.cursor)

    return to_json_response((await call.read(view)).as_json())


@routes.get(
    "/conversations/{conversation_id}",
    summary="Get a conversation",
    **document_route({200: shapes.OneConversation}, also=(404,), **CONVERSATION_PATH),
)
async def get(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    conversation = await call.read(lambda tx, tenant_id: conversations.show(tx, tenant_id, conversation_id))
    return to_json_response({"conversation": conversation.as_json()})


@routes.patch(
    "/conversations/{conversation_id}",
    summary="Rename a conversation",
    **document_route({200: shapes.OneConversation}, also=(404,), body=shapes.ConversationFields, **CONVERSATION_PATH),
)
async def rename(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id, fields = await call.parse_path_id("conversation_id"), await call.body(FIELDS)
    conversation = await call.write(lambda tx, tenant_id: conversations.rename(tx, tenant_id, conversation_id, fields.title))
    return to_json_response({"conversation": conversation.as_json()})


@routes.delete(
    "/conversations/{conversation_id}",
    summary="Delete a conversation. It can be restored for a day",
    **document_route({200: shapes.DeletedConversation}, also=(404, 409, 507), **CONVERSATION_PATH),
)
async def delete(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    until = await call.write(lambda tx, tenant_id: conversations.remove(tx, tenant_id, conversation_id))
    return to_json_response({"deleted": True, "restorable_until": until // 1000})


@routes.post(
    "/conversations/{conversation_id}/restore",
    summary="Restore a deleted conversation",
    **document_route({200: shapes.OneConversation}, also=(404,), idempotent=True, **CONVERSATION_PATH),
)
async def restore(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    return await call.post(
        lambda tx, tenant_id: {"conversation": conversations.restore(tx, tenant_id, conversation_id).as_json()}, 200
    )
