"""OpenAI's Responses API: a turn as a response, whose id is derived from the turn's."""

from collections.abc import Iterator
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access.spending import Usage
from headway.actions.engine import run_ends
from headway.actions.history.client_histories import ConversationName
from headway.actions.runs import waiting
from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.ledger.errors import Invalid, TurnFailed
from headway.ledger.events import encode_json
from headway.ledger.tenancy import Turn
from headway.operations import front_ends
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import ATTACHMENTS_BODY_LIMIT, RequestContext, to_json_response
from headway.surfaces.http.routes.openai.answers import (
    AnswerEnd,
    AnswerHead,
    AnswerText,
    AnswerTranslator,
    ClientCall,
    Document,
    EndReason,
    build_waiting_end,
    split_usage,
    to_end_reason,
)
from headway.surfaces.http.routes.openai.chat_completions import document_answer
from headway.surfaces.http.routes.openai.messages import build_call_id
from headway.surfaces.http.routes.openai.turns import (
    CONVERSATION_HEADER,
    answer_request,
    begin_in_background,
    build_headers,
    find_name,
    parse_request,
)
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.server_sent_events import frame_data
from headway.surfaces.turn_events import TurnEventTranslator, WaitingItem

STATUSES: Final[dict[EndReason, str]] = {
    "unfinished": "incomplete",
    "filtered": "incomplete",
    "canceled": "cancelled",
    "failed": "failed",
}
# There is no event for a response that was canceled; its status says so.
END_EVENTS: Final = {"incomplete": "response.incomplete", "failed": "response.failed"}

ItemKind = Literal["reasoning", "message"]


class ResponseEncoder:
    """Encodes one response. Its output is a sequence of items, one for each stretch of progress or answer."""

    def __init__(self, head: AnswerHead) -> None:
        self.answer = AnswerTranslator()
        self.head = head
        self.sequence = 0
        self.items: list[Document] = []  # the ended ones
        self.kind: ItemKind | None = None  # of the item that is being sent
        self.text = ""  # of that item

    @property
    def translator(self) -> TurnEventTranslator:
        return self.answer.translator

    def encode(self, kind: str, data: Document) -> str:
        frames = self.begin()
        for part in self.answer.translate(kind, data):
            if part.text:
                frames += self.send_text("message" if isinstance(part, AnswerText) else "reasoning", part.text)
        return frames

    def begin(self) -> str:
        if self.sequence:
            return ""
        response = build_response(self.head, "in_progress", [])
        return self.frame("response.created", response=response) + self.frame("response.in_progress", response=response)

    def encode_end(self, end: AnswerEnd, usage: Usage) -> str:
        frames = self.begin()
        closing = self.answer.close(end)
        if closing:
            frames += self.send_text("message", closing)
        frames += self.end_item()
        for call in end.calls:
            frames += self.send_call(call)
        document = build_ended_response(self.head, self.items, end, usage)
        return frames + self.frame(END_EVENTS.get(document["status"], "response.completed"), response=document)

    def encode_error(self, message: str, code: str) -> str:
        return self.frame("error", message=message, code=code, param=None)

    def send_text(self, kind: ItemKind, text: str) -> str:
        frames = ""
        if self.kind != kind:
            frames = self.end_item()
            self.kind = kind
            frames += "".join(self.begin_item(kind))
        self.text += text
        if kind == "message":
            return frames + self.frame("response.output_text.delta", **self.locate_part(), delta=text, logprobs=[])
        return frames + self.frame("response.reasoning_summary_text.delta", **self.locate_part(), delta=text)

    def begin_item(self, kind: ItemKind) -> Iterator[str]:
        item = build_item(kind, self.item_id, None)
        yield self.frame("response.output_item.added", output_index=len(self.items), item=item)
        name = "response.content_part.added" if kind == "message" else "response.reasoning_summary_part.added"
        yield self.frame(name, **self.locate_part(), part=build_part(kind, ""))

    def end_item(self) -> str:
        if self.kind is None:
            return ""
        kind, location, part = self.kind, self.locate_part(), build_part(self.kind, self.text)
        item = build_item(kind, self.item_id, self.text)
        if kind == "message":
            frames = self.frame("response.output_text.done", **location, text=self.text, logprobs=[])
            frames += self.frame("response.content_part.done", **location, part=part)
        else:
            frames = self.frame("response.reasoning_summary_text.done", **location, text=self.text)
            frames += self.frame("response.reasoning_summary_part.done", **location, part=part)
        frames += self.frame("response.output_item.done", output_index=len(self.items), item=item)
        self.items.append(item)
        self.kind, self.text = None, ""
        return frames

    def send_call(self, call: ClientCall) -> str:
        item, index = build_call_item(self.head, call), len(self.items)
        location = {"item_id": item["id"], "output_index": index}
        self.items.append(item)
        return (
            self.frame("response.output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"})
            + self.frame("response.function_call_arguments.delta", **location, delta=call.arguments)
            + self.frame("response.function_call_arguments.done", **location, name=call.tool, arguments=call.arguments)
            + self.frame("response.output_item.done", output_index=index, item=item)
        )

    @property
    def item_id(self) -> str:
        return build_item_id(self.kind or "message", self.head.hex_id, len(self.items))

    def locate_part(self) -> Document:
        """Return the address of a part of the output."""
        index = {"content_index": 0} if self.kind == "message" else {"summary_index": 0}
        return {"item_id": self.item_id, "output_index": len(self.items), **index}

    def frame(self, kind: str, **fields: Any) -> str:
        document = {"type": kind, "sequence_number": self.sequence, **fields}
        self.sequence += 1
        return f"event: {kind}\n{frame_data(encode_json(document))}"

    def build_document(self, end: AnswerEnd, usage: Usage) -> Document:
        self.encode_end(end, usage)
        return build_ended_response(self.head, self.items, end, usage)


def build_ended_response(head: AnswerHead, output: list[Document], end: AnswerEnd, usage: Usage) -> Document:
    status = STATUSES.get(end.reason, "completed")
    document = build_response(head, status, output) | {"usage": split_usage(usage, ("input", "output"))}
    if status == "incomplete":
        document["incomplete_details"] = {"reason": "content_filter" if end.reason == "filtered" else "max_output_tokens"}
    if status == "failed":
        document["error"] = {"code": end.code, "message": end.text}
    if end.outcome:
        document["metadata"] = {**document["metadata"], "outcome": end.outcome}
    return document


def build_response(head: AnswerHead, status: str, output: list[Document]) -> Document:
    own = {"conversation": str(head.conversation_id), "turn": head.turn_id}
    return {
        "id": f"resp_{head.hex_id}",
        "object": "response",
        "created_at": head.created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {**head.metadata, **own},
        "model": head.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def build_output(head: AnswerHead, end: AnswerEnd) -> list[Document]:
    """Build the output of a turn that ended earlier, or that waits."""
    content = "" if end.reason == "failed" else end.text
    messages = [build_item("message", build_item_id("message", head.hex_id, 0), content)] if content.strip() else []
    return [*messages, *(build_call_item(head, call) for call in end.calls)]


def build_call_item(head: AnswerHead, call: ClientCall) -> Document:
    return {
        "id": f"fc_{head.hex_id}_{call.question_id}",
        "type": "function_call",
        "call_id": build_call_id(head.hex_id, call.question_id),
        "name": call.tool,
        "arguments": call.arguments,
        "status": "completed",
    }


def build_item_id(kind: ItemKind, hex_id: str, index: int) -> str:
    return f"{'msg' if kind == 'message' else 'rs'}_{hex_id}_{index}"


def build_item(kind: ItemKind, item_id: str, text: str | None) -> Document:
    """Build an item. One without text has only begun."""
    parts = [] if text is None else [build_part(kind, text)]
    if kind == "reasoning":
        return {"id": item_id, "type": "reasoning", "summary": parts}
    status = "in_progress" if text is None else "completed"
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": parts}


def build_part(kind: ItemKind, text: str) -> Document:
    if kind == "reasoning":
        return {"type": "summary_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


# /v1/responses: a turn as a response. The response's id is derived from the turn's id.


routes = HttpRoutes("/v1", "openai")

RESPONSE = TypeAdapter(front_ends.ResponseRequest)
ID_PREFIX = "resp_"


@routes.post(
    "/responses",
    summary="Have an agent answer the last message, in the form of OpenAI's Responses API",
    **document_answer(front_ends.OpenAiResponse, front_ends.ResponseRequest),
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


def list_messages(body: front_ends.ResponseRequest) -> list[Document]:
    """List the input as messages. Items of other kinds have no role."""
    messages = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    return [{"role": "developer", "content": body.instructions}, *messages] if body.instructions else messages


def find_response_name(call: RequestContext, body: front_ends.ResponseRequest, parameters: dict[str, Any]) -> ConversationName:
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
    **document_route({200: front_ends.OpenAiResponse}, also=(404,), path={"response_id": str}, openai_errors=True),
)
async def get_response(request: Request) -> Response:
    call, turn_id = RequestContext(request), parse_response_id(request.path_params["response_id"])
    return to_json_response(await call.read(lambda tx, tenant_id: show(tx, tenant_id, turn_id)))


@routes.post(
    "/responses/{response_id}/cancel",
    summary="Cancel the turn of a response",
    **document_route(
        {200: front_ends.OpenAiResponse}, also=(404, 409), path={"response_id": str}, idempotent=True, openai_errors=True
    ),
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
    run, turn = turns.get_run(tx, tenant_id, turn_id), finding.get_turn(tx, tenant_id, turn_id)
    head = AnswerHead(turn.id, turn.conversation_id, turn.started_at // 1000, run.role, {})
    end = find_stored_end(tx, tenant_id, turn, run.result or "")
    if end is None:
        return build_response(head, "in_progress", [])
    return build_ended_response(head, build_output(head, end), end, turns.get_usage(tx, tenant_id, turn.id))


def find_stored_end(tx: Transaction, tenant_id: int, turn: Turn, result: str) -> AnswerEnd | None:
    """Return how the answer of a turn ended, or that it waits for a person. Returns None while the turn runs."""
    match turn.shown_status:
        case "failed":
            return AnswerEnd("failed", result, TurnFailed().code)
        case "canceled":
            return AnswerEnd("canceled")
        case "finished":
            return AnswerEnd(to_end_reason(turn.outcome or ""), result, outcome=turn.outcome or "")
    oldest = next(iter(waiting.list_by_turn(tx, tenant_id, turn.id)), None)
    return build_waiting_end({(oldest.kind, oldest.id): WaitingItem("", oldest.as_item())}) if oldest else None
