"""/v1/conversations"""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, turns, views
from headway.ledger.job import Job
from headway.ledger.text import MAX_INTEGER
from headway.storage.transaction import Transaction
from headway.surfaces.http.bodies import ATTACHMENTS_BODY_LIMIT
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import agents
from headway.surfaces.http.schemas import todos as todo_schemas
from headway.surfaces.http.turn_streams import start_jobs

routes = APIRouter(prefix="/v1", tags=["conversations"])

CONVERSATION = TypeAdapter(agents.NewConversation)


@routes.post(
    "/conversations",
    summary="Create a conversation, and send its first message if there is one",
    **document_route({201: agents.StartedConversation}, also=(404,), body=agents.NewConversation, idempotent=True),
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
    summary="List conversations, newest first",
    **document_route({200: todo_schemas.ManyConversations}, query=todo_schemas.ConversationsQuery),
)
async def list_conversations(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(todo_schemas.ConversationsQuery)
    before = query.before or MAX_INTEGER
    page = await call.read(lambda tx, tenant_id: views.list_conversations(tx, tenant_id, query.limit, before))
    return to_json_response({"conversations": [conversation.as_json() for conversation in page]})


@routes.get(
    "/conversations/{conversation_id}",
    summary="Get a conversation",
    **document_route({200: todo_schemas.OneConversation}, also=(404,), path={"conversation_id": int}),
)
async def get(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    conversation = await call.read(lambda tx, tenant_id: conversations.get(tx, tenant_id, conversation_id))
    return to_json_response({"conversation": conversation.as_json()})
