"""Turns for chat front ends that speak a protocol of their own."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, turns
from headway.ledger.job import Job
from headway.storage.transaction import Transaction
from headway.surfaces.http import agent_shapes, front_shapes, ui_stream
from headway.surfaces.http.ag_ui import AgUi
from headway.surfaces.http.calls import Call
from headway.surfaces.http.describing import described
from headway.surfaces.http.front_shapes import Mode
from headway.surfaces.http.turn_streams import Tell, told, translation
from headway.surfaces.http.ui_stream import UiStream

routes = APIRouter(prefix="/v1", tags=["front ends"])

EVENT_STREAM = "text/event-stream"
RUN_AGENT = TypeAdapter(front_shapes.RunAgentInput)
UI_MESSAGES = TypeAdapter(front_shapes.UiMessages)


def telling(body: Any) -> dict[str, Any]:
    documentation = described({200: None}, body=body, query=agent_shapes.WaitQuery, idempotent=True)
    documentation["responses"][200] = {"description": "The events, until the turn ends", "content": {EVENT_STREAM: {}}}
    documentation["response_class"] = Response
    return documentation


@routes.post("/ag-ui", summary="Have an agent answer, as AG-UI events", **telling(front_shapes.RunAgentInput))
async def run_agent(request: Request) -> Response:
    call = Call(request)
    asked = await call.body(RUN_AGENT)
    ag_ui = AgUi(asked.threadId, asked.runId, asked.messages, asked.state)
    return await answered(call, asked.threadId, asked.messages, asked.mode, ag_ui.tell)


@routes.post("/ui-stream", summary="Have an agent answer, as a UI message stream", **telling(front_shapes.UiMessages))
async def stream_ui(request: Request) -> Response:
    call = Call(request)
    asked = await call.body(UI_MESSAGES)
    answer = await answered(call, asked.id, asked.messages, asked.mode, UiStream().tell)
    answer.headers.update(ui_stream.HEADERS)
    return answer


async def answered(call: Call, key: str, messages: list[dict[str, Any]], mode: Mode, tell: Tell) -> Response:
    query = await call.query(agent_shapes.WaitQuery)
    begun: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        content = front_shapes.request_in(messages)
        conversation = conversations.with_key(tx, tenant_id, key)
        begun[:] = [call.headway.begin_turn(tx, tenant_id, conversation.id, content, mode)]
        return {"turn_id": turns.turn_of(begun[0])}

    return await told(call, begin, begun, query.wait or 0, translation(tell))
