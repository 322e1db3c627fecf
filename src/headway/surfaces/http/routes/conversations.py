"""/v1/conversations"""

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, views
from headway.ledger.text import MAX_INTEGER
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import todos as todo_schemas

routes = APIRouter(prefix="/v1", tags=["conversations"])

CONVERSATION = TypeAdapter(todo_schemas.NewConversation)


@routes.post(
    "/conversations",
    summary="Create a conversation",
    **document_route({201: todo_schemas.OneConversation}, body=todo_schemas.NewConversation, idempotent=True),
)
async def create(request: Request) -> Response:
    call = RequestContext(request)
    wanted = await call.body(CONVERSATION)
    return await call.post(
        lambda tx, tenant_id: {"conversation": conversations.add(tx, tenant_id, wanted.title, wanted.key).as_json()}
    )


@routes.get(
    "/conversations",
    summary="List conversations, newest first",
    **document_route({200: todo_schemas.ManyConversations}, query=todo_schemas.ConversationsQuery),
)
async def list_conversations(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(todo_schemas.ConversationsQuery)
    before = query.before or MAX_INTEGER
    found = await call.read(lambda tx, tenant_id: views.list_conversations(tx, tenant_id, query.limit, before))
    return to_json_response({"conversations": [one.as_json() for one in found]})


@routes.get(
    "/conversations/{conversation_id}",
    summary="Get a conversation",
    **document_route({200: todo_schemas.OneConversation}, also=(404,), path={"conversation_id": int}),
)
async def get(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    found = await call.read(lambda tx, tenant_id: conversations.get(tx, tenant_id, conversation_id))
    return to_json_response({"conversation": found.as_json()})
