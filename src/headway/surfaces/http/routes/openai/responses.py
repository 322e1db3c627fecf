"""/v1/responses: a turn as a response. Its id is made of the turn's."""

from typing import Any
from uuid import UUID

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import conversations, run_ends, turns
from headway.actions.history.client_histories import ConversationName
from headway.actions.people import waiting
from headway.ledger.errors import Invalid, TurnFailed
from headway.ledger.tenancy import Turn
from headway.operations.schemas import openai
from headway.storage.transaction import Transaction
from headway.surfaces.http.bodies import ATTACHMENTS_BODY_LIMIT
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routes.openai.answers import AnswerEnd, build_waiting_end, to_end_reason
from headway.surfaces.http.routes.openai.chat_completions import document_answer
from headway.surfaces.http.routes.openai.encoders import AnswerHead, Document
from headway.surfaces.http.routes.openai.response_encoder import (
    ResponseEncoder,
    build_ended_response,
    build_output,
    build_response,
)
from headway.surfaces.http.routes.openai.turns import (
    CONVERSATION_HEADER,
    answer_request,
    begin_in_background,
    build_headers,
    find_name,
    parse_request,
)
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.turn_events import WaitingItem

routes = HttpRoutes("/v1", "openai")

RESPONSE = TypeAdapter(openai.ResponseRequest)
ID_PREFIX = "resp_"


@routes.post(
    "/responses",
    summary="Have an agent answer the last message, in the form of OpenAI's Responses API",
    **document_answer(openai.OpenAiResponse, openai.ResponseRequest),
)
async def create_response(request: Request) -> Response:
    """Disconnecting does not stop the turn."""
    call = RequestContext(request)
    body = await call.body(RESPONSE, ATTACHMENTS_BODY_LIMIT)
    parameters = body.model_dump(exclude={"input"})
    parsed = await parse_request(
        call, body.model, list_messages(body), parameters, lambda: find_response_name(call, body, parameters)
    )
    if not body.background:
        return await answer_request(call, parsed, ResponseEncoder, stream=body.stream)
    head = await begin_in_background(call, parsed)
    if isinstance(head, Response):
        return head
    response = to_json_response(build_response(head, "in_progress", []))
    response.headers.update(build_headers(head))
    return response


def list_messages(body: openai.ResponseRequest) -> list[Document]:
    """List the input as messages. Items of other kinds have no role."""
    messages = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    return [{"role": "developer", "content": body.instructions}, *messages] if body.instructions else messages


def find_response_name(call: RequestContext, body: openai.ResponseRequest, parameters: dict[str, Any]) -> ConversationName:
    if body.stream and body.background:
        raise Invalid("background and stream cannot be combined. A turn continues when its stream is closed.")
    if call.request.headers.get(CONVERSATION_HEADER, "").strip():
        return find_name(call, parameters)
    if body.previous_response_id:
        return ConversationName(turn_id=parse_response_id(body.previous_response_id))
    if body.conversation:
        return ConversationName(key=body.conversation if isinstance(body.conversation, str) else body.conversation.id)
    return find_name(call, parameters)


def parse_response_id(response_id: str) -> str:
    """Return the id of a response's turn."""
    try:
        return str(UUID(hex=response_id.removeprefix(ID_PREFIX)))
    except ValueError:
        return response_id  # no turn has this id


@routes.get(
    "/responses/{response_id}",
    summary="Get a response",
    **document_route({200: openai.OpenAiResponse}, also=(404,), path={"response_id": str}, openai_errors=True),
)
async def get_response(request: Request) -> Response:
    call, turn_id = RequestContext(request), parse_response_id(request.path_params["response_id"])
    return to_json_response(await call.read(lambda tx, tenant_id: show(tx, tenant_id, turn_id)))


@routes.post(
    "/responses/{response_id}/cancel",
    summary="Cancel the turn of a response",
    **document_route({200: openai.OpenAiResponse}, also=(404, 409), path={"response_id": str}, idempotent=True, openai_errors=True),
)
async def cancel_response(request: Request) -> Response:
    call, turn_id = RequestContext(request), parse_response_id(request.path_params["response_id"])
    ended: list[str] = []

    def stop(tx: Transaction, tenant_id: int) -> Document:
        ended[:] = run_ends.cancel_turn(tx, tenant_id, turn_id, call.headway.live_text)
        return show(tx, tenant_id, turn_id)

    answer = await call.post(stop, 200)
    call.headway.interrupt(ended)
    return answer


def show(tx: Transaction, tenant_id: int, turn_id: str) -> Document:
    """Return the response of a turn as it is now, without its progress."""
    run, turn = turns.get_run(tx, tenant_id, turn_id), conversations.get_turn(tx, tenant_id, turn_id)
    head = AnswerHead(turn.id, turn.conversation_id, turn.started_at // 1000, run.role, {})
    end = find_stored_end(tx, tenant_id, turn, run.result or "")
    if end is None:
        return build_response(head, "in_progress", [])
    return build_ended_response(head, build_output(head, end), end, turns.get_usage(tx, tenant_id, turn.id))


def find_stored_end(tx: Transaction, tenant_id: int, turn: Turn, result: str) -> AnswerEnd | None:
    """Return how the answer of a turn ended, or that it waits for a person. None: the turn runs."""
    match turn.shown_status:
        case "failed":
            return AnswerEnd("failed", result, TurnFailed().code)
        case "canceled":
            return AnswerEnd("canceled")
        case "finished":
            return AnswerEnd(to_end_reason(turn.outcome or ""), result, outcome=turn.outcome or "")
    oldest = next(iter(waiting.list_by_turn(tx, tenant_id, turn.id)), None)
    return build_waiting_end({(oldest.kind, oldest.id): WaitingItem("", oldest.as_item())}) if oldest else None
