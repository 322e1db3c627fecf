"""Encodes a turn as a chat completion. Progress is sent as `reasoning_content`, which clients show apart from the answer."""

from typing import Any, Final

from headway.actions.spending import Usage
from headway.ledger.events import encode_json
from headway.surfaces.http.routes.openai.answers import AnswerEnd, AnswerText, AnswerTranslator, EndReason
from headway.surfaces.http.routes.openai.encoders import AnswerHead, Document, build_error, split_usage
from headway.surfaces.http.routes.openai.messages import build_call_id
from headway.surfaces.http.server_sent_events import DONE_FRAME, frame_data
from headway.surfaces.http.turn_events import TurnEventTranslator

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
