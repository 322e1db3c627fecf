"""/v1/chat/completions: a turn as a chat completion."""

from functools import partial
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.operations.schemas import agents, openai
from headway.surfaces.http.bodies import ATTACHMENTS_BODY_LIMIT
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext
from headway.surfaces.http.routes.openai.completion_encoder import CompletionEncoder
from headway.surfaces.http.routes.openai.turns import CONVERSATION_PARAMETER, answer_request, find_name, parse_request
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.server_sent_events import MEDIA_TYPE

routes = HttpRoutes("/v1", "openai")

COMPLETION = TypeAdapter(openai.ChatCompletionRequest)


def document_answer(answer: type[Any], body: type[Any]) -> dict[str, Any]:
    documentation = document_route(
        {200: answer},
        also=(404,),
        body=body,
        query=agents.WaitQuery,
        headers=(CONVERSATION_PARAMETER,),
        idempotent=True,
        openai_errors=True,
    )
    documentation["responses"][200]["content"][MEDIA_TYPE] = {}
    return documentation


@routes.post(
    "/chat/completions",
    summary="Have an agent answer the last message, in the form of OpenAI's API",
    **document_answer(openai.ChatCompletion, openai.ChatCompletionRequest),
)
async def create_chat_completion(request: Request) -> Response:
    """Disconnecting does not stop the turn."""
    call = RequestContext(request)
    body = await call.body(COMPLETION, ATTACHMENTS_BODY_LIMIT)
    parameters = body.model_dump(exclude={"messages"})
    parsed = await parse_request(call, body.model, body.messages, parameters, lambda: find_name(call, parameters))
    include_usage = bool(body.stream_options and body.stream_options.include_usage)
    return await answer_request(call, parsed, partial(CompletionEncoder, include_usage=include_usage), stream=body.stream)
