"""A turn in the words of AG-UI, the Agent-User Interaction protocol."""

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

Document = dict[str, Any]
NO_TODOS: Document = {"total": 0, "remaining": 0, "current": None, "items": []}


class AgUi:
    """One run for a client: what it has of the conversation and of the shared state is kept, to be told apart from what changes."""

    def __init__(self, thread_id: str, run_id: str, messages: list[Document], state: Any) -> None:
        self.ids = {"threadId": thread_id, "runId": run_id}
        self.messages = list(messages)
        self.state = state if isinstance(state, dict) else {}
        self.todos = NO_TODOS
        self.retelling = Retelling()

    def tell(self, kind: str, data: Document) -> str:
        beats = self.retelling.hear(kind, data)
        return "".join(f"data: {encode(event)}\n\n" for beat in beats for event in self.events(beat))

    def events(self, beat: Beat) -> Iterator[Document]:
        match beat:
            case Began(turn):
                yield {"type": "RUN_STARTED", **self.ids}
                yield custom("turn_started", turn)
                yield {"type": "STATE_SNAPSHOT", "snapshot": {**self.state, "todos": NO_TODOS}}
            case TextBegan() | TextGrew() | TextEnded() | TextWithdrawn():
                yield from self.text(beat)
            case Called() | Returned():
                yield from self.tool(beat)
            case Listed(todos):
                yield from self.listed(todos)
            case Noted(name, data):
                yield custom(name, data)
            case Finished(end):
                yield {"type": "RUN_FINISHED", **self.ids, "result": end}
            case Failed(message, code):
                yield {"type": "RUN_ERROR", "message": message, "code": code}
            case Canceled():
                yield {"type": "RUN_ERROR", "message": "The turn was canceled.", "code": "canceled"}

    def text(self, beat: TextBegan | TextGrew | TextEnded | TextWithdrawn) -> Iterator[Document]:
        match beat:
            case TextBegan(id):
                yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}
            case TextGrew(id, delta):
                yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}
            case TextEnded(id, text):
                self.messages.append({"id": id, "role": "assistant", "content": text})
                yield {"type": "TEXT_MESSAGE_END", "messageId": id}
            case TextWithdrawn(id):
                yield {"type": "TEXT_MESSAGE_END", "messageId": id}
                yield {"type": "MESSAGES_SNAPSHOT", "messages": self.messages}  # the only way to take a message back

    def tool(self, beat: Called | Returned) -> Iterator[Document]:
        match beat:
            case Called(id, tool, arguments):
                written = encode(arguments)
                function = {"name": tool, "arguments": written}
                self.messages.append(
                    {"id": id, "role": "assistant", "toolCalls": [{"id": id, "type": "function", "function": function}]}
                )
                yield {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": tool, "parentMessageId": id}
                yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": written}
                yield {"type": "TOOL_CALL_END", "toolCallId": id}
            case Returned(id, result):
                content = result if isinstance(result, str) else encode(result)
                answer = {"toolCallId": id, "content": content, "role": "tool"}
                self.messages.append({"id": f"{id}:result", **answer})
                yield {"type": "TOOL_CALL_RESULT", "messageId": f"{id}:result", **answer}

    def listed(self, todos: Document) -> Iterator[Document]:
        changed = [
            {"op": "replace", "path": f"/todos/{name}", "value": value}
            for name, value in todos.items()
            if value != self.todos[name]
        ]
        self.todos = todos
        if changed:
            yield {"type": "STATE_DELTA", "delta": changed}


def custom(name: str, value: Document) -> Document:
    return {"type": "CUSTOM", "name": name, "value": value}
