"""Runs turns for chat front ends, in the streaming protocols they use: AG-UI and the Vercel AI SDK."""

import json
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.engine import run_ends
from headway.actions.todos import conversations, finding
from headway.actions.turns import steering, turns
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.job import Job
from headway.ledger.run import Run, TurnMode
from headway.operations import front_ends
from headway.operations.front_ends import FrontEndRequest
from headway.storage.transaction import Transaction
from headway.surfaces.http import ag_ui, ui_stream
from headway.surfaces.http.ag_ui import AgUiEncoder
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.person_answers import PersonAnswer, apply_answers, encode_result, has_turn
from headway.surfaces.http.request_context import ATTACHMENTS_BODY_LIMIT, RequestContext
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.server_sent_events import MEDIA_TYPE, EventStream
from headway.surfaces.http.turn_streams import CreateEncoder, TurnEncoder, stop_when_left, stream_turn
from headway.surfaces.http.ui_stream import UiStreamEncoder

routes = HttpRoutes("/v1", "front ends")

RUN_AGENT = TypeAdapter(front_ends.RunAgentInput)
UI_MESSAGES = TypeAdapter(front_ends.UiMessages)
VERSION_WITHOUT_APPROVALS = 5  # of the AI SDK
STREAM_ANSWER = {"description": "The events, until the turn ends or waits", "content": {MEDIA_TYPE: {}}}
ListResults = Callable[[str], list[PersonAnswer]]  # the results of the client's own tools in a turn


class FrontEndTurn(NamedTuple):
    """A message of a front end, with what it tells the agent beside it."""

    key: str
    request: FrontEndRequest
    mode: TurnMode
    context: str
    client_tools: str


def document_turn_stream(body: Any) -> dict[str, Any]:
    documentation = document_route({200: None}, body=body, query=front_ends.FrontEndQuery, idempotent=True)
    documentation["responses"][200] = STREAM_ANSWER
    return documentation


@routes.post(
    "/ag-ui", summary="Send a message and stream the answer as AG-UI events", **document_turn_stream(front_ends.RunAgentInput)
)
async def run_ag_ui(request: Request) -> Response:
    """A turn that waits for a person ends its run with interrupts. A request with `resume` continues it. A call of a tool that the
    client has also ends the run. A request with its result continues it."""
    call = RequestContext(request)
    body = await call.body(RUN_AGENT, ATTACHMENTS_BODY_LIMIT)

    build = partial(AgUiEncoder, body.threadId, body.runId, body.messages, body.state)

    def create_encoder(turn_id: str) -> TurnEncoder:
        return build(ag_ui.find_known_parts(turn_id, body.messages))

    turn_id = await find_turn(call, body.threadId, ag_ui.find_continued(body.messages))
    if not body.resume and not turn_id:
        turn = await parse_turn(call, body.threadId, body)
        return await start_turn(call, turn, build(), create_encoder, lambda id: ag_ui.list_client_results(id, body.messages))
    list_answers = partial(ag_ui.list_answers, body.resume, body.messages)
    return await continue_turn(call, body.threadId, turn_id, list_answers, create_encoder)


@routes.post(
    "/ui-stream",
    summary="Send a message and stream the answer as a UI message stream",
    **document_turn_stream(front_ends.UiMessages),
)
async def stream_ui(request: Request) -> Response:
    """A turn that waits for a person, or for a tool that the client has, ends its message with requests. The same message with the
    answers continues it."""
    call = RequestContext(request)
    body = await call.body(UI_MESSAGES, ATTACHMENTS_BODY_LIMIT)
    build = partial(UiStreamEncoder, has_approvals=body.sdk > VERSION_WITHOUT_APPROVALS)
    continued = ui_stream.find_continued(body.messages, body.messageId) or {}
    turn_id = await find_turn(call, body.id, continued.get("id"))
    if turn_id or ui_stream.has_answers(continued):
        known, list_answers = ui_stream.find_known_parts(continued), partial(ui_stream.list_answers, continued)
        answer = await continue_turn(call, body.id, turn_id, list_answers, lambda _turn_id: build(known))
    else:
        turn = await parse_turn(call, body.id, body)
        list_results = partial(ui_stream.list_client_results, body.messages)
        answer = await start_turn(call, turn, build(), lambda _turn_id: build(), list_results)
    answer.headers.update(ui_stream.UI_STREAM_HEADERS)
    return answer


RESUME_DOCS: dict[str, Any] = document_route({200: None, 204: None}, path={"key": str}, query=front_ends.ResumeQuery)
RESUME_DOCS["responses"][200] = STREAM_ANSWER


@routes.get("/ui-stream/{key}/stream", summary="Stream the turn that runs in a chat from its start", **RESUME_DOCS)
async def resume_ui_stream(request: Request) -> Response:
    """The request of `useChat` with `resume`. Answers 204 if no turn runs."""
    call, key = RequestContext(request), request.path_params["key"]
    query = await call.query(front_ends.ResumeQuery)
    turn_id = await call.read(lambda tx, tenant_id: find_unfinished(tx, tenant_id, key))
    if turn_id is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    build = partial(UiStreamEncoder, has_approvals=query.sdk > VERSION_WITHOUT_APPROVALS)
    answer = await stream_turn(call, lambda _tx, _tenant_id: {"turn_id": turn_id}, [], 0, lambda _turn_id: build())
    answer.headers.update(ui_stream.UI_STREAM_HEADERS)
    return answer


@routes.post(
    "/ui-stream/{key}/stop",
    summary="Cancel the turn that runs in a chat",
    **document_route({200: front_ends.StoppedTurn}, path={"key": str}, idempotent=True),
)
async def stop_ui_stream(request: Request) -> Response:
    """Nothing happens if no turn runs. The key may be that of an AG-UI thread."""
    call, key = RequestContext(request), request.path_params["key"]
    ended: list[str] = []

    def stop(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        turn_id = find_unfinished(tx, tenant_id, key)
        ended[:] = run_ends.cancel_turn(tx, tenant_id, turn_id, call.headway.live_text) if turn_id else []
        return {"turn_id": turn_id}

    answer = await call.post(stop, 200)
    call.headway.interrupt(ended)
    return answer


def find_unfinished(tx: Transaction, tenant_id: int, key: str) -> str | None:
    """Return the id of the turn that runs or waits in the conversation with this key."""
    run = find_running(tx, tenant_id, key)
    return run.turn_id if run else None


def find_running(tx: Transaction, tenant_id: int, key: str) -> Run | None:
    conversation = finding.find_by_key(tx, tenant_id, key)
    return turns.find_running(tx, tenant_id, conversation.id) if conversation else None


async def parse_turn(call: RequestContext, key: str, body: front_ends.RunAgentInput | front_ends.UiMessages) -> FrontEndTurn:
    request = await call.known(front_ends.get_request, body.messages)
    client_tools = await call.known(front_ends.encode_tools, body.tools)
    await call.known(partial(front_ends.check_names, body.tools), call.headway.toolbox.tools)
    return FrontEndTurn(key, request, body.mode, front_ends.join_context(body.context), client_tools)


async def start_turn(
    request: RequestContext, turn: FrontEndTurn, encoder: TurnEncoder, create_encoder: CreateEncoder, list_results: ListResults
) -> Response:
    """Start a turn with the message. If the conversation's turn waits for the client's own tools, continue that turn instead, with
    the results that the client has, and let its agent read the message."""
    query = await request.query(front_ends.FrontEndQuery)
    content, attachments = turn.request
    started_jobs: list[Job] = []
    steered: list[str] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        conversation = conversations.get_or_create(tx, tenant_id, turn.key)
        run = turns.find_running(tx, tenant_id, conversation.id)
        results = {answer.id: encode_result(answer.value) for answer in list_results(run.turn_id or "")} if run else {}
        if run and steering.send_instead_of_results(tx, run, content, results, request.describe_caller(tx)):
            if attachments:
                raise Conflict("The turn waits for a tool of yours. Send the files in a later message.")
            steered[:] = [run.turn_id or ""]
            return {"turn_id": run.turn_id}
        turn_request = turns.TurnRequest(
            content, turn.mode, attachments=tuple(attachments), context=turn.context, client_tools=turn.client_tools
        )
        started_jobs[:] = [request.headway.begin_requested_turn(tx, tenant_id, conversation.id, turn_request)]
        return {"turn_id": turns.get_turn_id(started_jobs[0])}

    answer = await stream_turn(
        request, begin, started_jobs, query.wait or 0, lambda id: create_encoder(id) if id in steered else encoder
    )
    if steered:
        request.headway.nudge()
    return stop_with_connection(request, answer, query)


def stop_with_connection(request: RequestContext, answer: Response, query: front_ends.FrontEndQuery) -> Response:
    """Let a stream cancel its turn when the client leaves, if it asked for that."""
    if query.disconnect == "stop" and isinstance(answer, EventStream):
        stop_when_left(request, answer)
    return answer


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
    query = await request.query(front_ends.FrontEndQuery)

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
    return stop_with_connection(request, answer, query)
