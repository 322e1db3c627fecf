"""Encodes a turn as a UI message stream (version 1) of the Vercel AI SDK, which `useChat` reads."""

from collections.abc import Iterable, Iterator
from typing import Any

from headway.ledger.events import encode_json
from headway.surfaces.http.server_sent_events import DONE_FRAME, frame_data
from headway.surfaces.http.turn_events import (
    ASK_PERSON,
    NO_ANSWER,
    KnownParts,
    QuestionAnswered,
    QuestionAsked,
    SideEvent,
    TextAppended,
    TextFinished,
    TextStarted,
    TextWithdrawn,
    TodosUpdated,
    ToolCallFinished,
    ToolCallStarted,
    TurnCanceled,
    TurnErrored,
    TurnEvent,
    TurnEventTranslator,
    TurnFinished,
    TurnStarted,
    get_question,
)

UI_STREAM_HEADERS = {"x-vercel-ai-ui-message-stream": "v1", "cache-control": "no-cache"}
SERVER_TOOL_FLAGS = {"providerExecuted": True, "dynamic": True}  # the client neither knows nor calls our tools
CLIENT_TOOL_FLAGS = {"dynamic": True}  # the client answers
APPROVAL_PART = "data-approval"  # asks for approval in version 5, which has no chunk for it
NO_RESULT = "The turn ended before this call had a result."
WITHDRAWN_METADATA = {"headway": {"withdrawn": True}}
Document = dict[str, Any]


class UiStreamEncoder:
    """Encodes one message for a client. A step ends once the model has received tool results or had its text withdrawn.

    A client sends its message again once every call of the last step has a result or a decision (`sendAutomaticallyWhen`). So the
    last step of an ended turn has no calls.
    """

    def __init__(self, known: KnownParts | None = None, *, has_approvals: bool = True) -> None:
        self.is_in_step = False
        self.is_step_over = False  # whether the next output starts a new step
        self.has_approvals = has_approvals
        self.translator = TurnEventTranslator(known)
        known = known or KnownParts()
        self.known_calls = frozenset(known.calls)
        self.known_decisions = frozenset(known.decisions)
        self.open_calls = dict.fromkeys(id for id in known.calls if id not in known.results)

    def encode(self, kind: str, data: Document) -> str:
        frames = ""
        for turn_event in self.translator.translate(kind, data):
            frames += encode_parts(self.parts(turn_event))
            if isinstance(turn_event, TurnFinished | TurnErrored | TurnCanceled):
                frames += DONE_FRAME
        return frames

    def encode_wait(self) -> str:
        """End the message with requests for what the turn waits for. The client sends it again with the answers."""
        return encode_parts(self.requests()) + DONE_FRAME

    def encode_error(self, message: str, _code: str) -> str:
        return encode_parts([{"type": "error", "errorText": message}]) + DONE_FRAME

    def parts(self, turn_event: TurnEvent) -> Iterator[Document]:
        match turn_event:
            case TurnStarted(turn):
                yield {"type": "start", "messageId": turn["turn_id"], "messageMetadata": turn}
                if not self.translator.is_continued:
                    yield from self.start_step()
            case TextStarted() | TextAppended() | TextFinished() | TextWithdrawn():
                yield from self.text(turn_event)
            case ToolCallStarted() | ToolCallFinished():
                yield from self.tool(turn_event)
            case QuestionAsked() | QuestionAnswered():
                yield from self.question(turn_event)
            case TodosUpdated(todos):
                yield {"type": "data-todos", "id": "todos", "data": todos}
            case SideEvent(name, data):
                yield {"type": f"data-{name.replace('_', '-')}", "data": data, "transient": True}
            case TurnFinished() | TurnErrored() | TurnCanceled():
                yield from self.end(turn_event)

    def end(self, turn_event: TurnFinished | TurnErrored | TurnCanceled) -> Iterator[Document]:
        for id in self.open_calls:
            yield {"type": "tool-output-error", "toolCallId": id, "errorText": NO_RESULT, **SERVER_TOOL_FLAGS}
        if self.open_calls or self.is_step_over or not self.is_in_step:
            yield from self.start_step()
        match turn_event:
            case TurnFinished(end):
                yield {"type": "finish-step"}
                reason = "content-filter" if end["outcome"] == "filtered" else "stop"
                yield {"type": "finish", "finishReason": reason, "messageMetadata": end}
            case TurnErrored(message):
                yield {"type": "finish-step"}
                yield {"type": "error", "errorText": message}
            case TurnCanceled():
                yield {"type": "abort"}

    def requests(self) -> Iterator[Document]:
        for (kind, item_id), (call_id, document) in self.translator.waiting.items():
            if kind == "question":
                if call_id not in self.known_calls:
                    called = document.get("client_call") or {"tool": ASK_PERSON, "arguments": get_question(document)}
                    call = {"toolCallId": call_id, "toolName": called["tool"], "input": called["arguments"]}
                    yield {"type": "tool-input-available", **call, **CLIENT_TOOL_FLAGS}
            elif self.has_approvals:
                approval = {"approvalId": str(item_id), "toolCallId": call_id}
                yield {"type": "tool-approval-request", **approval, "reason": document["why"]}
            else:
                yield {"type": APPROVAL_PART, "id": f"approval-{item_id}", "data": {**document, "tool_call_id": call_id}}
        if self.is_in_step:
            yield {"type": "finish-step"}
        yield {"type": "finish", "finishReason": "tool-calls"}

    def text(self, turn_event: TextStarted | TextAppended | TextFinished | TextWithdrawn) -> Iterator[Document]:
        match turn_event:
            case TextStarted(id):
                if self.is_step_over or not self.is_in_step:
                    yield from self.start_step()
                yield {"type": "text-start", "id": id}
            case TextAppended(id, delta):
                yield {"type": "text-delta", "id": id, "delta": delta}
            case TextFinished(id, kind="text"):
                yield {"type": "text-end", "id": id}
            case TextFinished(id, kind=kind):
                yield {"type": "text-end", "id": id, "providerMetadata": {"headway": {"kind": kind}}}
            case TextWithdrawn(id):
                yield {"type": "text-end", "id": id, "providerMetadata": WITHDRAWN_METADATA}
                self.is_step_over = True

    def tool(self, turn_event: ToolCallStarted | ToolCallFinished) -> Iterator[Document]:
        match turn_event:
            case ToolCallStarted(id, tool, arguments):
                yield from self.start_call(id, tool, arguments, SERVER_TOOL_FLAGS)
                yield {"type": "tool-input-available", "toolCallId": id, "toolName": tool, "input": arguments, **SERVER_TOOL_FLAGS}
            case ToolCallFinished(id, result, is_error):
                if is_error and self.has_approvals and id in self.known_decisions & self.translator.rejected_calls:
                    yield {"type": "tool-output-denied", "toolCallId": id}
                elif is_error:
                    error = result if isinstance(result, str) else encode_json(result)
                    yield {"type": "tool-output-error", "toolCallId": id, "errorText": error, **SERVER_TOOL_FLAGS}
                else:
                    yield {"type": "tool-output-available", "toolCallId": id, "output": result, **SERVER_TOOL_FLAGS}
                self.finish_call(id)

    def question(self, turn_event: QuestionAsked | QuestionAnswered) -> Iterator[Document]:
        """Encode a question as a call that the client answers. Its input is complete only in a stream that ends with it: the client
        asks the person then."""
        match turn_event:
            case QuestionAsked(id, arguments, tool):
                yield from self.start_call(id, tool, arguments, CLIENT_TOOL_FLAGS)
            case QuestionAnswered(id, answer, is_canceled):
                if is_canceled:
                    yield {"type": "tool-output-error", "toolCallId": id, "errorText": NO_ANSWER, **CLIENT_TOOL_FLAGS}
                else:
                    yield {"type": "tool-output-available", "toolCallId": id, "output": answer, **CLIENT_TOOL_FLAGS}
                self.finish_call(id)

    def start_call(self, id: str, tool: str, arguments: Any, flags: Document) -> Iterator[Document]:
        if self.is_step_over or not self.is_in_step:
            yield from self.start_step()
        self.open_calls[id] = None
        yield {"type": "tool-input-start", "toolCallId": id, "toolName": tool, **flags}
        yield {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": encode_json(arguments)}

    def finish_call(self, id: str) -> None:
        self.open_calls.pop(id, None)
        self.is_step_over = True

    def start_step(self) -> Iterator[Document]:
        if self.is_in_step:
            yield {"type": "finish-step"}
        self.is_in_step, self.is_step_over = True, False
        yield {"type": "start-step"}


def encode_parts(parts: Iterable[Document]) -> str:
    return "".join(frame_data(encode_json(part)) for part in parts)
