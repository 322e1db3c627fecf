"""Routes for turns: messages, timelines, and starting and canceling turns."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, run_ends, turns
from headway.actions.history import timeline
from headway.actions.people import steering
from headway.ledger.attachment import BINARY_TYPES
from headway.ledger.job import Job
from headway.ledger.text import MAX_INTEGER
from headway.storage.transaction import Transaction
from headway.surfaces.http.bodies import ATTACHMENTS_BODY_LIMIT
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routes.events import STREAM_RESPONSE
from headway.surfaces.http.schemas import agents
from headway.surfaces.http.schemas.todos import PageQuery
from headway.surfaces.http.server_sent_events import MEDIA_TYPE
from headway.surfaces.http.turn_streams import start_jobs, stream_turn
from headway.surfaces.http.turn_waits import begin_when_free

routes = APIRouter(prefix="/v1", tags=["turns"])

MESSAGE = TypeAdapter(agents.NewMessage)
TURN = TypeAdapter(agents.NewTurn)
STEERING = TypeAdapter(agents.NewSteering)


@routes.get(
    "/conversations/{conversation_id}/messages",
    summary="List messages, oldest first",
    **document_route({200: agents.ManyMessages}, also=(404,), query=agents.MessagesQuery, path={"conversation_id": int}),
)
async def list_messages(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    query = await call.query(agents.MessagesQuery)
    before = query.before or MAX_INTEGER
    messages = await call.read(lambda tx, tenant_id: turns.list_messages(tx, tenant_id, conversation_id, query.limit, before))
    return to_json_response({"messages": [message.as_json() for message in messages]})


@routes.get(
    "/conversations/{conversation_id}/timeline",
    summary="List past events, oldest first, with the running turn and the event to stream from",
    **document_route({200: agents.OneTimeline}, also=(404,), query=agents.TimelineQuery, path={"conversation_id": int}),
)
async def get_timeline(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    query = await call.query(agents.TimelineQuery)
    view = timeline.TimelineView(call.headway.settings.limits, call.headway.live_text, query.limit, query.before or MAX_INTEGER)
    document = await call.read(lambda tx, tenant_id: timeline.show(tx, tenant_id, conversation_id, view))
    return to_json_response({"timeline": document})


SAY_DOCS: dict[str, Any] = document_route(
    {202: agents.TurnAccepted},
    also=(404,),
    body=agents.NewMessage,
    query=agents.WaitQuery,
    path={"conversation_id": int},
    idempotent=True,
)
SAY_DOCS["responses"] |= STREAM_RESPONSE


@routes.post("/conversations/{conversation_id}/messages", summary="Send a message for an agent to answer", **SAY_DOCS)
async def say(request: Request) -> Response:
    """With `Accept: text/event-stream`, answers with the turn's events; otherwise with its id. Disconnecting does not stop it."""
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    query = await call.query(agents.WaitQuery)
    message = await call.body(MESSAGE, ATTACHMENTS_BODY_LIMIT)
    attachments = await call.known(agents.build_attachments, message)
    started_jobs: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        job = call.headway.begin_turn(
            tx, tenant_id, conversation_id, message.content, message.mode, attachments, message.continues or ""
        )
        started_jobs[:] = [job]
        return {"turn_id": turns.get_turn_id(started_jobs[0])}

    if MEDIA_TYPE not in request.headers.get("accept", ""):
        answer = await begin_when_free(call, begin, query.wait or 0)
        start_jobs(call, started_jobs)
        return answer
    return await stream_turn(call, begin, started_jobs, query.wait or 0)


@routes.post(
    "/turns/{turn_id}/cancel",
    summary="Cancel a running turn. What its agent was saying is kept as a message of the kind stopped",
    **document_route({200: agents.OneTurn}, also=(404, 409), path={"turn_id": str}, idempotent=True),
)
async def cancel(request: Request) -> Response:
    call = RequestContext(request)
    turn_id = request.path_params["turn_id"]

    ended: list[str] = []

    def stop(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        ended[:] = run_ends.cancel_turn(tx, tenant_id, turn_id, call.headway.live_text)
        return {"turn": turns.show(tx, tenant_id, turn_id, call.headway.settings.limits)}

    answer = await call.post(stop, 200)
    call.headway.interrupt(ended)
    return answer


@routes.post(
    "/turns/{turn_id}/messages",
    summary="Send a message to a running turn, whose agent reads it at its next step",
    **document_route({202: agents.OneSteering}, also=(404,), body=agents.NewSteering, path={"turn_id": str}, idempotent=True),
)
async def send_message(request: Request) -> Response:
    call, turn_id = RequestContext(request), request.path_params["turn_id"]
    body = await call.body(STEERING)

    def send(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"message": steering.send_to_turn(tx, tenant_id, turn_id, body.content, call.describe_caller(tx)).as_json()}

    return await call.post(send, 202)


@routes.get(
    "/turns/{turn_id}/messages",
    summary="List the messages that were sent to a turn while it ran, oldest first",
    **document_route({200: agents.ManySteering}, also=(404,), query=PageQuery, path={"turn_id": str}),
)
async def list_sent(request: Request) -> Response:
    call, turn_id = RequestContext(request), request.path_params["turn_id"]
    query = await call.query(PageQuery)
    messages = await call.read(lambda tx, tenant_id: steering.list_by_turn(tx, tenant_id, turn_id, query.limit))
    return to_json_response({"messages": [message.as_json() for message in messages]})


@routes.post(
    "/turns",
    summary="Open a turn without running an agent, for clients with their own agent loop",
    **document_route({201: agents.OneTurn}, also=(404,), body=agents.NewTurn, idempotent=True),
)
async def open_turn(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(TURN)

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        turn = conversations.open_turn(tx, tenant_id, body.conversation_id)
        return {"turn": turns.show(tx, tenant_id, turn.id, call.headway.settings.limits)}

    return await call.post(begin)


@routes.get("/turns/{turn_id}", summary="Get a turn", **document_route({200: agents.OneTurn}, also=(404,), path={"turn_id": str}))
async def get_turn(request: Request) -> Response:
    call = RequestContext(request)
    turn_id = request.path_params["turn_id"]
    return to_json_response(
        {"turn": await call.read(lambda tx, tenant_id: turns.show(tx, tenant_id, turn_id, call.headway.settings.limits))}
    )


ATTACHMENT_DOCS: dict[str, Any] = document_route({200: None}, also=(404,), path={"turn_id": str, "n": int})
ATTACHMENT_DOCS["responses"][200] = {
    "description": "The file",
    "content": {media_type: {} for media_type in ("text/plain", *sorted(BINARY_TYPES))},
}
ATTACHMENT_DOCS["response_class"] = Response


@routes.get("/turns/{turn_id}/attachments/{n}", summary="Download a file that came with the turn's message", **ATTACHMENT_DOCS)
async def get_attachment(request: Request) -> Response:
    call = RequestContext(request)
    n = await call.parse_path_id("n")
    turn_id = request.path_params["turn_id"]
    attachment = await call.read(lambda tx, tenant_id: turns.get_attachment(tx, tenant_id, turn_id, n))
    # Text is never served under its own type, because a browser would run scripts in it.
    media_type = "text/plain; charset=utf-8" if attachment.is_text else attachment.media_type
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(attachment.name, safe='')}"}
    return Response(attachment.data, 200, headers, media_type)
