"""Encodes a turn as a UI message stream (version 1) of the Vercel AI SDK, which `useChat` reads."""

from collections.abc import Iterator
from typing import Any

from headway.ledger.events import encode_json
from headway.surfaces.http.server_sent_events import DONE_FRAME, frame_data
from headway.surfaces.http.turn_events import (
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
)

UI_STREAM_HEADERS = {"x-vercel-ai-ui-message-stream": "v1", "cache-control": "no-cache"}
SERVER_TOOL_FLAGS = {"providerExecuted": True, "dynamic": True}  # the client neither knows nor calls our tools
WITHDRAWN_METADATA = {"headway": {"withdrawn": True}}
Document = dict[str, Any]


class UiStreamEncoder:
    """Encodes one message for a client. A step ends once the model has received tool results or had its text withdrawn."""

    def __init__(self) -> None:
        self.is_step_over = False  # whether the next output starts a new step
        self.translator = TurnEventTranslator()

    def encode(self, kind: str, data: Document) -> str:
        frames = ""
        for turn_event in self.translator.translate(kind, data):
            frames += "".join(frame_data(encode_json(part)) for part in self.parts(turn_event))
            if isinstance(turn_event, TurnFinished | TurnErrored | TurnCanceled):
                frames += DONE_FRAME
        return frames

    def parts(self, turn_event: TurnEvent) -> Iterator[Document]:
        match turn_event:
            case TurnStarted(turn):
                yield {"type": "start", "messageId": turn["turn_id"], "messageMetadata": turn}
                yield {"type": "start-step"}
            case TextStarted() | TextAppended() | TextFinished() | TextWithdrawn():
                yield from self.text(turn_event)
            case ToolCallStarted() | ToolCallFinished():
                yield from self.tool(turn_event)
            case TodosUpdated(todos):
                yield {"type": "data-todos", "id": "todos", "data": todos}
            case SideEvent(name, data):
                yield {"type": f"data-{name.replace('_', '-')}", "data": data, "transient": True}
            case TurnFinished(end):
                yield {"type": "finish-step"}
                reason = "content-filter" if end["outcome"] == "filtered" else "stop"
                yield {"type": "finish", "finishReason": reason, "messageMetadata": end}
            case TurnErrored(message):
                yield {"type": "finish-step"}
                yield {"type": "error", "errorText": message}
            case TurnCanceled():
                yield {"type": "abort"}

    def text(self, turn_event: TextStarted | TextAppended | TextFinished | TextWithdrawn) -> Iterator[Document]:
        match turn_event:
            case TextStarted(id):
                yield from self.start_new_step()
                yield {"type": "text-start", "id": id}
            case TextAppended(id, delta):
                yield {"type": "text-delta", "id": id, "delta": delta}
            case TextFinished(id):
                yield {"type": "text-end", "id": id}
            case TextWithdrawn(id):
                yield {"type": "text-end", "id": id, "providerMetadata": WITHDRAWN_METADATA}
                self.is_step_over = True

    def tool(self, turn_event: ToolCallStarted | ToolCallFinished) -> Iterator[Document]:
        match turn_event:
            case ToolCallStarted(id, tool, arguments):
                yield from self.start_new_step()
                yield {"type": "tool-input-start", "toolCallId": id, "toolName": tool, **SERVER_TOOL_FLAGS}
                yield {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": encode_json(arguments)}
                yield {"type": "tool-input-available", "toolCallId": id, "toolName": tool, "input": arguments, **SERVER_TOOL_FLAGS}
            case ToolCallFinished(id, result, is_error):
                if is_error:
                    error = result if isinstance(result, str) else encode_json(result)
                    yield {"type": "tool-output-error", "toolCallId": id, "errorText": error, **SERVER_TOOL_FLAGS}
                else:
                    yield {"type": "tool-output-available", "toolCallId": id, "output": result, **SERVER_TOOL_FLAGS}
                self.is_step_over = True

    def start_new_step(self) -> Iterator[Document]:
        if self.is_step_over:
            self.is_step_over = False
            yield {"type": "finish-step"}
            yield {"type": "start-step"}
