"""Turns: what is said in a conversation, and what agents make of it."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, timeline, turns
from headway.ledger.job import Job
from headway.ledger.text import MAX_INTEGER
from headway.storage.transaction import Transaction
from headway.surfaces.http import agent_shapes
from headway.surfaces.http.calls import Call, rendered
from headway.surfaces.http.describing import described
from headway.surfaces.http.event_routes import STREAM
from headway.surfaces.http.turn_streams import drive, once_free, told

routes = APIRouter(prefix="/v1", tags=["turns"])

MESSAGE = TypeAdapter(agent_shapes.NewMessage)
TURN = TypeAdapter(agent_shapes.NewTurn)
EVENT_STREAM = "text/event-stream"


@routes.get(
    "/conversations/{conversation_id}/messages",
    summary="What was said, oldest first",
    **described({200: agent_shapes.ManyMessages}, also=(404,), query=agent_shapes.MessagesQuery, path={"conversation_id": int}),
)
async def list_messages(request: Request) -> Response:
    call = Call(request)
    conversation_id = await call.path_id("conversation_id")
    query = await call.query(agent_shapes.MessagesQuery)
    before = query.before or MAX_INTEGER
    found = await call.read(lambda tx, tenant_id: turns.messages(tx, tenant_id, conversation_id, query.limit, before))
    return rendered({"messages": [message.as_json() for message in found]})


@routes.get(
    "/conversations/{conversation_id}/timeline",
    summary="What happened, oldest first, and what is going on: a page to go on listening from",
    **described({200: agent_shapes.OneTimeline}, also=(404,), query=agent_shapes.TimelineQuery, path={"conversation_id": int}),
)
async def get_timeline(request: Request) -> Response:
    call = Call(request)
    conversation_id = await call.path_id("conversation_id")
    query = await call.query(agent_shapes.TimelineQuery)
    view = timeline.View(call.headway.settings.limits, call.headway.speech, query.limit, query.before or MAX_INTEGER)
    found = await call.read(lambda tx, tenant_id: timeline.show(tx, tenant_id, conversation_id, view))
    return rendered({"timeline": found})


SAYING: dict[str, Any] = described(
    {202: agent_shapes.TurnAccepted},
    also=(404,),
    body=agent_shapes.NewMessage,
    query=agent_shapes.WaitQuery,
    path={"conversation_id": int},
    idempotent=True,
)
SAYING["responses"] |= STREAM


@routes.post("/conversations/{conversation_id}/messages", summary="Say something, and have an agent answer it", **SAYING)
async def say(request: Request) -> Response:
    """The turn's own stream for those who accept one; the turn's id for everybody else. Who hangs up does not stop it."""
    call = Call(request)
    conversation_id = await call.path_id("conversation_id")
    query = await call.query(agent_shapes.WaitQuery)
    wanted = await call.body(MESSAGE)
    begun: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        begun[:] = [call.headway.begin_turn(tx, tenant_id, conversation_id, wanted.content, wanted.mode)]
        return {"turn_id": turns.turn_of(begun[0])}

    if EVENT_STREAM not in request.headers.get("accept", ""):
        answer = await once_free(call, begin, query.wait or 0)
        drive(call, begun)
        return answer
    return await told(call, begin, begun, query.wait or 0)


@routes.post(
    "/turns/{turn_id}/cancel",
    summary="Stop a running turn",
    **described({200: agent_shapes.OneTurn}, also=(404, 409), path={"turn_id": str}, idempotent=True),
)
async def cancel(request: Request) -> Response:
    call = Call(request)
    turn_id = request.path_params["turn_id"]

    ended: list[str] = []

    def stop(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        ended[:] = turns.cancel(tx, tenant_id, turn_id)
        return {"turn": turns.show(tx, tenant_id, turn_id, call.headway.settings.limits)}

    answer = await call.post(stop, 200)
    call.headway.interrupt(ended)
    return answer


@routes.post(
    "/turns",
    summary="Open a turn without running an agent, for those who bring their own loop",
    **described({201: agent_shapes.OneTurn}, also=(404,), body=agent_shapes.NewTurn, idempotent=True),
)
async def open_turn(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(TURN)

    def opened(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        turn = conversations.open_turn(tx, tenant_id, wanted.conversation_id)
        return {"turn": turns.show(tx, tenant_id, turn.id, call.headway.settings.limits)}

    return await call.post(opened)


@routes.get("/turns/{turn_id}", summary="One turn", **described({200: agent_shapes.OneTurn}, also=(404,), path={"turn_id": str}))
async def get_turn(request: Request) -> Response:
    call = Call(request)
    turn_id = request.path_params["turn_id"]
    return rendered(
        {"turn": await call.read(lambda tx, tenant_id: turns.show(tx, tenant_id, turn_id, call.headway.settings.limits))}
    )
