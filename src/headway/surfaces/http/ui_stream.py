"""A turn as a UI message stream of the Vercel AI SDK, version 1 of its protocol: what `useChat` reads."""

from collections.abc import Iterator
from typing import Any

from headway.ledger.events import encode
from headway.surfaces.http.retelling import (
    Beat,
    Began,
    Called,
    Canceled,
    Failed,
    Finished,
    Listed,
    Noted,
    Retelling,
    Returned,
    TextBegan,
    TextEnded,
    TextGrew,
    TextWithdrawn,
)

HEADERS = {"x-vercel-ai-ui-message-stream": "v1", "cache-control": "no-cache"}
OURS = {"providerExecuted": True, "dynamic": True}  # the client need not know our tools, and must not call them
WITHDRAWN = {"headway": {"withdrawn": True}}
DONE = "data: [DONE]\n\n"
Document = dict[str, Any]


class UiStream:
    """One message for a client. A step is what the model said and called before it heard of results."""

    def __init__(self) -> None:
        self.heard = False  # whether the model goes on with something new
        self.retelling = Retelling()

    def tell(self, kind: str, data: Document) -> str:
        said = ""
        for beat in self.retelling.hear(kind, data):
            said += "".join(f"data: {encode(part)}\n\n" for part in self.parts(beat))
            if isinstance(beat, Finished | Failed | Canceled):
                said += DONE
        return said

    def parts(self, beat: Beat) -> Iterator[Document]:
        match beat:
            case Began(turn):
                yield {"type": "start", "messageId": turn["turn_id"], "messageMetadata": turn}
                yield {"type": "start-step"}
            case TextBegan() | TextGrew() | TextEnded() | TextWithdrawn():
                yield from self.text(beat)
            case Called() | Returned():
                yield from self.tool(beat)
            case Listed(todos):
                yield {"type": "data-todos", "id": "todos", "data": todos}
            case Noted(name, data):
                yield {"type": f"data-{name.replace('_', '-')}", "data": data, "transient": True}
            case Finished(end):
                yield {"type": "finish-step"}
                reason = "content-filter" if end["outcome"] == "filtered" else "stop"
                yield {"type": "finish", "finishReason": reason, "messageMetadata": end}
            case Failed(message):
                yield {"type": "finish-step"}
                yield {"type": "error", "errorText": message}
            case Canceled():
                yield {"type": "abort"}

    def text(self, beat: TextBegan | TextGrew | TextEnded | TextWithdrawn) -> Iterator[Document]:
        match beat:
            case TextBegan(id):
                yield from self.next_step()
                yield {"type": "text-start", "id": id}
            case TextGrew(id, delta):
                yield {"type": "text-delta", "id": id, "delta": delta}
            case TextEnded(id):
                yield {"type": "text-end", "id": id}
            case TextWithdrawn(id):
                yield {"type": "text-end", "id": id, "providerMetadata": WITHDRAWN}
                self.heard = True

    def tool(self, beat: Called | Returned) -> Iterator[Document]:
        match beat:
            case Called(id, tool, arguments):
                yield from self.next_step()
                yield {"type": "tool-input-start", "toolCallId": id, "toolName": tool, **OURS}
                yield {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": encode(arguments)}
                yield {"type": "tool-input-available", "toolCallId": id, "toolName": tool, "input": arguments, **OURS}
            case Returned(id, result, is_error):
                if is_error:
                    error = result if isinstance(result, str) else encode(result)
                    yield {"type": "tool-output-error", "toolCallId": id, "errorText": error, **OURS}
                else:
                    yield {"type": "tool-output-available", "toolCallId": id, "output": result, **OURS}
                self.heard = True

    def next_step(self) -> Iterator[Document]:
        if self.heard:
            self.heard = False
            yield {"type": "finish-step"}
            yield {"type": "start-step"}
