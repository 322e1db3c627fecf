"""Encodes a turn as events of AG-UI, the Agent-User Interaction protocol."""

from collections.abc import Iterator
from typing import Any

from headway.ledger.events import encode_json
from headway.surfaces.http.server_sent_events import frame_data
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

Document = dict[str, Any]
EMPTY_TODOS: Document = {"total": 0, "remaining": 0, "current": None, "items": []}


class AgUiEncoder:
    """Encodes one run for a client. Keeps the messages, to send them as a snapshot, and the todo list, to send its changes."""

    def __init__(self, thread_id: str, run_id: str, messages: list[Document], state: Any) -> None:
        self.ids = {"threadId": thread_id, "runId": run_id}
        self.messages = list(messages)
        self.state = state if isinstance(state, dict) else {}
        self.todos = EMPTY_TODOS
        self.translator = TurnEventTranslator()

    def encode(self, kind: str, data: Document) -> str:
        turn_events = self.translator.translate(kind, data)
        return "".join(frame_data(encode_json(event)) for turn_event in turn_events for event in self.events(turn_event))

    def events(self, turn_event: TurnEvent) -> Iterator[Document]:
        match turn_event:
            case TurnStarted(turn):
                yield {"type": "RUN_STARTED", **self.ids}
                yield build_custom_event("turn_started", turn)
                yield {"type": "STATE_SNAPSHOT", "snapshot": {**self.state, "todos": EMPTY_TODOS}}
            case TextStarted() | TextAppended() | TextFinished() | TextWithdrawn():
                yield from self.text(turn_event)
            case ToolCallStarted() | ToolCallFinished():
                yield from self.tool(turn_event)
            case TodosUpdated(todos):
                yield from self.update_todos(todos)
            case SideEvent(name, data):
                yield build_custom_event(name, data)
            case TurnFinished(end):
                yield {"type": "RUN_FINISHED", **self.ids, "result": end}
            case TurnErrored(message, code):
                yield {"type": "RUN_ERROR", "message": message, "code": code}
            case TurnCanceled():
                yield {"type": "RUN_ERROR", "message": "The turn was canceled.", "code": "canceled"}

    def text(self, turn_event: TextStarted | TextAppended | TextFinished | TextWithdrawn) -> Iterator[Document]:
        match turn_event:
            case TextStarted(id):
                yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}
            case TextAppended(id, delta):
                yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}
            case TextFinished(id, text):
                self.messages.append({"id": id, "role": "assistant", "content": text})
                yield {"type": "TEXT_MESSAGE_END", "messageId": id}
            case TextWithdrawn(id):
                yield {"type": "TEXT_MESSAGE_END", "messageId": id}
                yield {"type": "MESSAGES_SNAPSHOT", "messages": self.messages}  # AG-UI has no other way to remove a message

    def tool(self, turn_event: ToolCallStarted | ToolCallFinished) -> Iterator[Document]:
        match turn_event:
            case ToolCallStarted(id, tool, arguments):
                encoded_arguments = encode_json(arguments)
                function = {"name": tool, "arguments": encoded_arguments}
                self.messages.append(
                    {"id": id, "role": "assistant", "toolCalls": [{"id": id, "type": "function", "function": function}]}
                )
                yield {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": tool, "parentMessageId": id}
                yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": encoded_arguments}
                yield {"type": "TOOL_CALL_END", "toolCallId": id}
            case ToolCallFinished(id, result):
                content = result if isinstance(result, str) else encode_json(result)
                answer = {"toolCallId": id, "content": content, "role": "tool"}
                self.messages.append({"id": f"{id}:result", **answer})
                yield {"type": "TOOL_CALL_RESULT", "messageId": f"{id}:result", **answer}

    def update_todos(self, todos: Document) -> Iterator[Document]:
        changed = [
            {"op": "replace", "path": f"/todos/{name}", "value": value}
            for name, value in todos.items()
            if value != self.todos[name]
        ]
        self.todos = todos
        if changed:
            yield {"type": "STATE_DELTA", "delta": changed}


def build_custom_event(name: str, value: Document) -> Document:
    return {"type": "CUSTOM", "name": name, "value": value}
