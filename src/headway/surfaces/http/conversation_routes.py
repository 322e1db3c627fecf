"""/v1/conversations"""

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, views
from headway.ledger.text import MAX_INTEGER
from headway.surfaces.http import shapes
from headway.surfaces.http.calls import Call, rendered
from headway.surfaces.http.describing import described

routes = APIRouter(prefix="/v1", tags=["conversations"])

CONVERSATION = TypeAdapter(shapes.NewConversation)


@routes.post(
    "/conversations",
    summary="Open a conversation",
    **described({201: shapes.OneConversation}, body=shapes.NewConversation, idempotent=True),
)
async def create(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(CONVERSATION)
    return await call.post(
        lambda tx, tenant_id: {"conversation": conversations.add(tx, tenant_id, wanted.title, wanted.key).as_json()}
    )


@routes.get(
    "/conversations",
    summary="The newest conversations",
    **described({200: shapes.ManyConversations}, query=shapes.ConversationsQuery),
)
async def list_conversations(request: Request) -> Response:
    call = Call(request)
    query = await call.query(shapes.ConversationsQuery)
    before = query.before or MAX_INTEGER
    found = await call.read(lambda tx, tenant_id: views.conversation_page(tx, tenant_id, query.limit, before))
    return rendered({"conversations": [one.as_json() for one in found]})


@routes.get(
    "/conversations/{conversation_id}",
    summary="One conversation",
    **described({200: shapes.OneConversation}, also=(404,), path={"conversation_id": int}),
)
async def get(request: Request) -> Response:
    call = Call(request)
    conversation_id = await call.path_id("conversation_id")
    found = await call.read(lambda tx, tenant_id: conversations.get(tx, tenant_id, conversation_id))
    return rendered({"conversation": found.as_json()})
