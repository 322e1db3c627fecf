"""Runs turns for chat front ends, in the streaming protocols they use: AG-UI and the Vercel AI SDK."""

import json
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, turns
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.job import Job
from headway.storage.transaction import Transaction
from headway.surfaces.http import ag_ui, ui_messages, ui_stream
from headway.surfaces.http.ag_ui import AgUiEncoder
from headway.surfaces.http.bodies import ATTACHMENTS_BODY_LIMIT
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.person_answers import PersonAnswer, apply_answers, has_turn
from headway.surfaces.http.request_context import RequestContext
from headway.surfaces.http.schemas import agents, front_ends
from headway.surfaces.http.schemas.front_ends import Mode
from headway.surfaces.http.server_sent_events import MEDIA_TYPE
from headway.surfaces.http.turn_streams import CreateEncoder, TurnEncoder, stream_turn
from headway.surfaces.http.ui_stream import UiStreamEncoder

routes = APIRouter(prefix="/v1", tags=["front ends"])

RUN_AGENT = TypeAdapter(front_ends.RunAgentInput)
UI_MESSAGES = TypeAdapter(front_ends.UiMessages)
VERSION_WITHOUT_APPROVALS = 5  # of the AI SDK


def document_turn_stream(body: Any) -> dict[str, Any]:
    documentation = document_route({200: None}, body=body, query=agents.WaitQuery, idempotent=True)
    documentation["responses"][200] = {
        "description": "The events, until the turn ends or waits for a person",
        "content": {MEDIA_TYPE: {}},
    }
    documentation["response_class"] = Response
    return documentation


@routes.post(
    "/ag-ui", summary="Send a message and stream the answer as AG-UI events", **document_turn_stream(front_ends.RunAgentInput)
)
async def run_agent(request: Request) -> Response:
    """A turn that waits for a person ends its run with interrupts. A request with `resume` continues it."""
    call = RequestContext(request)
    body = await call.body(RUN_AGENT, ATTACHMENTS_BODY_LIMIT)

    build = partial(AgUiEncoder, body.threadId, body.runId, body.messages, body.state)
    turn_id = await find_turn(call, body.threadId, ag_ui.find_continued(body.messages))
    if not body.resume and not turn_id:
        return await start_turn(call, body.threadId, body.messages, body.mode, build())
    list_answers = partial(ag_ui.list_answers, body.resume, body.messages)
    return await continue_turn(
        call, body.threadId, turn_id, list_answers, lambda turn_id: build(ag_ui.find_known_parts(turn_id, body.messages))
    )


@routes.post(
    "/ui-stream",
    summary="Send a message and stream the answer as a UI message stream",
    **document_turn_stream(front_ends.UiMessages),
)
async def stream_ui(request: Request) -> Response:
    """A turn that waits for a person ends its message with requests. The same message with the answers continues it."""
    call = RequestContext(request)
    body = await call.body(UI_MESSAGES, ATTACHMENTS_BODY_LIMIT)
    build = partial(UiStreamEncoder, has_approvals=body.sdk > VERSION_WITHOUT_APPROVALS)
    continued = ui_messages.find_continued(body.messages, body.messageId) or {}
    turn_id = await find_turn(call, body.id, continued.get("id"))
    if turn_id or ui_messages.has_answers(continued):
        known, list_answers = ui_messages.find_known_parts(continued), partial(ui_messages.list_answers, continued)
        answer = await continue_turn(call, body.id, turn_id, list_answers, lambda _turn_id: build(known))
    else:
        answer = await start_turn(call, body.id, body.messages, body.mode, build())
    answer.headers.update(ui_stream.UI_STREAM_HEADERS)
    return answer


async def start_turn(
    request: RequestContext, key: str, messages: list[dict[str, Any]], mode: Mode, encoder: TurnEncoder
) -> Response:
    query = await request.query(agents.WaitQuery)
    content, attachments = await request.known(front_ends.get_request, messages)
    started_jobs: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        conversation = conversations.get_or_create(tx, tenant_id, key)
        started_jobs[:] = [request.headway.begin_turn(tx, tenant_id, conversation.id, content, mode, attachments)]
        return {"turn_id": turns.get_turn_id(started_jobs[0])}

    return await stream_turn(request, begin, started_jobs, query.wait or 0, lambda _turn_id: encoder)


async def find_turn(request: RequestContext, key: str, turn_id: Any) -> str | None:
    """Return the id of the turn that a client has, if there is one in its conversation."""
    if not isinstance(turn_id, str) or not turn_id:
        return None
    return turn_id if await request.read(lambda tx, tenant_id: has_turn(tx, tenant_id, key, turn_id)) else None


async def continue_turn(
    request: RequestContext,
    key: str,
    turn_id: str | None,
    list_answers: Callable[[], list[PersonAnswer]],
    create_encoder: CreateEncoder,
) -> Response:
    """Apply the answers that a turn waits for, and stream the rest of it. A wrong answer is an error of the protocol."""

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        answers = list_answers()
        return {"turn_id": apply_answers(request, tx, tenant_id, key, answers) if answers else turn_id}

    try:
        answer = await stream_turn(request, begin, [], 0, create_encoder)
    except (NotFound, Invalid) as error:
        return Response(create_encoder("").encode_error(str(error), error.code), media_type=MEDIA_TYPE)
    if answer.status_code >= HTTPStatus.BAD_REQUEST:  # a refusal that is stored for the Idempotency-Key
        problem = json.loads(bytes(answer.body))
        return Response(create_encoder("").encode_error(problem["detail"], problem["code"]), media_type=MEDIA_TYPE)
    request.headway.nudge()
    return answer
