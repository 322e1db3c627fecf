"""Runs turns for chat front ends, in the streaming protocols they use: AG-UI and the Vercel AI SDK."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, turns
from headway.ledger.job import Job
from headway.storage.transaction import Transaction
from headway.surfaces.http import ui_stream
from headway.surfaces.http.ag_ui import AgUiEncoder
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import ATTACHMENTS_BODY_LIMIT, RequestContext
from headway.surfaces.http.schemas import agents, front_ends
from headway.surfaces.http.schemas.front_ends import Mode
from headway.surfaces.http.server_sent_events import MEDIA_TYPE
from headway.surfaces.http.turn_streams import EventEncoder, build_encoder, stream_turn
from headway.surfaces.http.ui_stream import UiStreamEncoder

routes = APIRouter(prefix="/v1", tags=["front ends"])

RUN_AGENT = TypeAdapter(front_ends.RunAgentInput)
UI_MESSAGES = TypeAdapter(front_ends.UiMessages)


def document_turn_stream(body: Any) -> dict[str, Any]:
    documentation = document_route({200: None}, body=body, query=agents.WaitQuery, idempotent=True)
    documentation["responses"][200] = {"description": "The events, until the turn ends", "content": {MEDIA_TYPE: {}}}
    documentation["response_class"] = Response
    return documentation


@routes.post(
    "/ag-ui", summary="Send a message and stream the answer as AG-UI events", **document_turn_stream(front_ends.RunAgentInput)
)
async def run_agent(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(RUN_AGENT, ATTACHMENTS_BODY_LIMIT)
    ag_ui = AgUiEncoder(body.threadId, body.runId, body.messages, body.state)
    return await answer_with_stream(call, body.threadId, body.messages, body.mode, ag_ui.encode)


@routes.post(
    "/ui-stream",
    summary="Send a message and stream the answer as a UI message stream",
    **document_turn_stream(front_ends.UiMessages),
)
async def stream_ui(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(UI_MESSAGES, ATTACHMENTS_BODY_LIMIT)
    answer = await answer_with_stream(call, body.id, body.messages, body.mode, UiStreamEncoder().encode)
    answer.headers.update(ui_stream.UI_STREAM_HEADERS)
    return answer


async def answer_with_stream(
    request: RequestContext, key: str, messages: list[dict[str, Any]], mode: Mode, encode: EventEncoder
) -> Response:
    query = await request.query(agents.WaitQuery)
    content, attachments = await request.known(front_ends.get_request, messages)
    started_jobs: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        conversation = conversations.get_or_create(tx, tenant_id, key)
        started_jobs[:] = [request.headway.begin_turn(tx, tenant_id, conversation.id, content, mode, attachments)]
        return {"turn_id": turns.get_turn_id(started_jobs[0])}

    return await stream_turn(request, begin, started_jobs, query.wait or 0, build_encoder(encode))
