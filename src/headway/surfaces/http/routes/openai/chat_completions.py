"""OpenAI's Chat Completions API: a turn as a completion, and the list of models."""

from functools import partial
from typing import Any, Final

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access.spending import Usage
from headway.agents.instructions.roles import Role, UnknownRole
from headway.ledger.events import encode_json
from headway.operations import front_ends, turns
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import ATTACHMENTS_BODY_LIMIT, RequestContext, to_json_response
from headway.surfaces.http.routes.openai.answers import (
    AnswerEnd,
    AnswerHead,
    AnswerText,
    AnswerTranslator,
    Document,
    EndReason,
    build_error,
    split_usage,
)
from headway.surfaces.http.routes.openai.messages import build_call_id
from headway.surfaces.http.routes.openai.turns import CONVERSATION_PARAMETER, answer_request, find_name, parse_request
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.server_sent_events import DONE_FRAME, MEDIA_TYPE, frame_data
from headway.surfaces.turn_events import TurnEventTranslator

FINISH_REASONS: Final[dict[EndReason, str]] = {"unfinished": "length", "filtered": "content_filter", "calls": "tool_calls"}


class CompletionEncoder:
    def __init__(self, head: AnswerHead, *, include_usage: bool = False) -> None:
        self.answer = AnswerTranslator()
        self.head = head
        self.include_usage = include_usage
        self.has_begun = False

    @property
    def translator(self) -> TurnEventTranslator:
        return self.answer.translator

    def encode(self, kind: str, data: Document) -> str:
        frames = ""
        for part in self.answer.translate(kind, data):
            name = "content" if isinstance(part, AnswerText) else "reasoning_content"
            frames += self.encode_delta({name: part.text}) if part.text else ""
        return frames

    def encode_end(self, end: AnswerEnd, usage: Usage) -> str:
        if end.reason == "failed":
            return self.encode_error(end.text, end.code)
        closing = self.answer.close(end)
        frames = self.encode_delta({"content": closing}) if closing or not self.has_begun else ""
        if end.calls:
            calls = [{"index": index, **call} for index, call in enumerate(self.build_calls(end))]
            frames += self.encode_delta({"tool_calls": calls})
        frames += self.encode_delta({}, FINISH_REASONS.get(end.reason, "stop"))
        if self.include_usage:
            frames += frame_data(encode_json({**self.frame(), "choices": [], "usage": split_completion_usage(usage)}))
        return frames + DONE_FRAME

    def encode_error(self, message: str, code: str) -> str:
        return frame_data(encode_json(build_error(message, code))) + DONE_FRAME

    def encode_delta(self, delta: Document, finish_reason: str | None = None) -> str:
        if not self.has_begun:
            self.has_begun = True
            delta = {"role": "assistant", **delta}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        usage: dict[str, Any] = {"usage": None} if self.include_usage else {}
        return frame_data(encode_json({**self.frame(), "choices": [choice], **usage}))

    def frame(self) -> Document:
        return {
            "id": f"chatcmpl-{self.head.hex_id}",
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
        }

    def build_document(self, end: AnswerEnd, usage: Usage) -> Document:
        self.answer.close(end)
        message: Document = {"role": "assistant", "content": self.answer.content, "refusal": None}
        if self.answer.progress:
            message["reasoning_content"] = self.answer.progress
        if end.calls:
            message |= {"content": self.answer.content or None, "tool_calls": self.build_calls(end)}
        reason = FINISH_REASONS.get(end.reason, "stop")
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        frame = {**self.frame(), "object": "chat.completion"}
        return {**frame, "choices": [choice], "usage": split_completion_usage(usage)}

    def build_calls(self, end: AnswerEnd) -> list[Document]:
        return [
            {
                "id": build_call_id(self.head.hex_id, call.question_id),
                "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments},
            }
            for call in end.calls
        ]


def split_completion_usage(usage: Usage) -> Document:
    return split_usage(usage, ("prompt", "completion"))


# /v1/chat/completions: a turn as a chat completion.


routes = HttpRoutes("/v1", "openai")

COMPLETION = TypeAdapter(front_ends.ChatCompletionRequest)


def document_answer(answer: type[Any], body: type[Any]) -> dict[str, Any]:
    documentation = document_route(
        {200: answer},
        also=(404,),
        body=body,
        query=turns.WaitQuery,
        headers=(CONVERSATION_PARAMETER,),
        idempotent=True,
        openai_errors=True,
    )
    documentation["responses"][200]["content"][MEDIA_TYPE] = {}
    return documentation


@routes.post(
    "/chat/completions",
    summary="Have an agent answer the last message, in the form of OpenAI's API",
    **document_answer(front_ends.ChatCompletion, front_ends.ChatCompletionRequest),
)
async def create_chat_completion(request: Request) -> Response:
    """Disconnecting does not stop the turn."""
    call = RequestContext(request)
    body = await call.body(COMPLETION, ATTACHMENTS_BODY_LIMIT)
    parameters = body.model_dump(exclude={"messages"})
    parsed = await parse_request(call, body.model, body.messages, parameters, lambda: find_name(call, parameters))
    include_usage = bool(body.stream_options and body.stream_options.include_usage)
    return await answer_request(call, parsed, partial(CompletionEncoder, include_usage=include_usage), stream=body.stream)


# /v1/models: the roles of the agents, as models.


@routes.get(
    "/models",
    summary="List the roles of the agents, as models",
    **document_route({200: front_ends.OpenAiModels}, openai_errors=True),
)
async def list_models(request: Request) -> Response:
    call = RequestContext(request)
    await call.read(lambda _tx, _tenant_id: None)
    models = [describe_role(role) for role in call.headway.roles.by_name.values()]
    return to_json_response({"object": "list", "data": models})


@routes.get(
    "/models/{model}",
    summary="Get a role, as a model",
    **document_route({200: front_ends.OpenAiModel}, also=(404,), path={"model": str}, openai_errors=True),
)
async def get_model(request: Request) -> Response:
    call = RequestContext(request)
    await call.read(lambda _tx, _tenant_id: None)
    try:
        return to_json_response(describe_role(call.headway.roles.find(request.path_params["model"])))
    except UnknownRole:
        raise Problem(404, "model_not_found", "There is no such model. GET /v1/models lists them.") from None


def describe_role(role: Role) -> dict[str, Any]:
    return {"id": role.name, "object": "model", "created": 0, "owned_by": "headway", "description": role.description}
