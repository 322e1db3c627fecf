"""Encodes a turn as a response of the Responses API. Progress is the summary of a reasoning item, the answer is a message."""

from collections.abc import Iterator
from typing import Any, Final, Literal

from headway.actions.spending import Usage
from headway.ledger.events import encode_json
from headway.surfaces.http.routes.openai.answers import AnswerEnd, AnswerText, AnswerTranslator, ClientCall, EndReason
from headway.surfaces.http.routes.openai.encoders import AnswerHead, Document, split_usage
from headway.surfaces.http.routes.openai.messages import build_call_id
from headway.surfaces.http.server_sent_events import frame_data
from headway.surfaces.http.turn_events import TurnEventTranslator

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
        self.items: list[Document] = []  # those that have ended
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
            return frames + self.frame("response.output_text.delta", **self.place(), delta=text, logprobs=[])
        return frames + self.frame("response.reasoning_summary_text.delta", **self.place(), delta=text)

    def begin_item(self, kind: ItemKind) -> Iterator[str]:
        item = build_item(kind, self.item_id, None)
        yield self.frame("response.output_item.added", output_index=len(self.items), item=item)
        name = "response.content_part.added" if kind == "message" else "response.reasoning_summary_part.added"
        yield self.frame(name, **self.place(), part=build_part(kind, ""))

    def end_item(self) -> str:
        if self.kind is None:
            return ""
        kind, place, part = self.kind, self.place(), build_part(self.kind, self.text)
        item = build_item(kind, self.item_id, self.text)
        if kind == "message":
            frames = self.frame("response.output_text.done", **place, text=self.text, logprobs=[])
            frames += self.frame("response.content_part.done", **place, part=part)
        else:
            frames = self.frame("response.reasoning_summary_text.done", **place, text=self.text)
            frames += self.frame("response.reasoning_summary_part.done", **place, part=part)
        frames += self.frame("response.output_item.done", output_index=len(self.items), item=item)
        self.items.append(item)
        self.kind, self.text = None, ""
        return frames

    def send_call(self, call: ClientCall) -> str:
        item, index = build_call_item(self.head, call), len(self.items)
        place = {"item_id": item["id"], "output_index": index}
        self.items.append(item)
        return (
            self.frame("response.output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"})
            + self.frame("response.function_call_arguments.delta", **place, delta=call.arguments)
            + self.frame("response.function_call_arguments.done", **place, name=call.tool, arguments=call.arguments)
            + self.frame("response.output_item.done", output_index=index, item=item)
        )

    @property
    def item_id(self) -> str:
        return build_item_id(self.kind or "message", self.head.hex_id, len(self.items))

    def place(self) -> Document:
        """Where a part of the output is."""
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
