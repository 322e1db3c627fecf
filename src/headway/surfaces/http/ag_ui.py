"""Encodes a turn as events of AG-UI, the Agent-User Interaction protocol."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from headway.ledger.errors import Invalid
from headway.ledger.events import encode_json
from headway.operations.front_ends import ResumeEntry
from headway.surfaces.http.person_answers import QUESTION_MARK, PersonAnswer, parse_item_id, parse_number
from headway.surfaces.http.server_sent_events import frame_data
from headway.surfaces.turn_events import (
    NO_ANSWER,
    ItemKey,
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
    WaitingItem,
)

Document = dict[str, Any]
EMPTY_TODOS: Document = {"total": 0, "remaining": 0, "current": None, "items": []}
RESULT_SUFFIX = ":result"
DECISION_SCHEMA: Document = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Arguments to use instead of the proposed ones"},
        "reason": {"type": "string", "description": "Why; the agent reads it if the call is rejected"},
    },
    "required": ["approved"],
}


class AgUiEncoder:
    """Encodes one run for a client. Keeps the messages, to send them as a snapshot, and the todo list, to send its changes."""

    def __init__(self, thread_id: str, run_id: str, messages: list[Document], state: Any, known: KnownParts | None = None) -> None:
        self.ids = {"threadId": thread_id, "runId": run_id}
        self.messages = list(messages)
        self.state = state if isinstance(state, dict) else {}
        self.todos: Document | None = None  # the todos that the client has; None if that is not known
        self.translator = TurnEventTranslator(known)

    def encode(self, kind: str, data: Document) -> str:
        turn_events = self.translator.translate(kind, data)
        return "".join(frame_data(encode_json(event)) for turn_event in turn_events for event in self.events(turn_event))

    def encode_wait(self) -> str:
        """End the run with what it waits for. The run that continues has the answers. Calls of the client's own tools are no
        interrupts: the client has them, and makes them when the run ends."""
        waiting = self.translator.waiting.items()
        interrupts = [build_interrupt(key, item) for key, item in waiting if not item.document.get("client_call")]
        outcome = {"outcome": {"type": "interrupt", "interrupts": interrupts}} if interrupts else {}
        return frame_data(encode_json({"type": "RUN_FINISHED", **self.ids, **outcome}))

    def encode_error(self, message: str, code: str) -> str:
        return frame_data(encode_json({"type": "RUN_ERROR", "message": message, "code": code}))

    def events(self, turn_event: TurnEvent) -> Iterator[Document]:
        match turn_event:
            case TurnStarted(turn):
                yield {"type": "RUN_STARTED", **self.ids}
                yield build_custom_event("turn_started", turn)
                if not self.translator.is_continued:
                    yield from self.update_todos(EMPTY_TODOS)
            case TextStarted() | TextAppended() | TextFinished() | TextWithdrawn():
                yield from self.text(turn_event)
            case ToolCallStarted() | ToolCallFinished() | QuestionAsked() | QuestionAnswered():
                yield from self.call(turn_event)
            case TodosUpdated(todos):
                yield from self.update_todos(todos)
            case SideEvent(name, data):
                yield build_custom_event(name, data)
            case TurnFinished() | TurnErrored() | TurnCanceled():
                yield self.end(turn_event)

    def end(self, turn_event: TurnFinished | TurnErrored | TurnCanceled) -> Document:
        match turn_event:
            case TurnFinished(end):
                return {"type": "RUN_FINISHED", **self.ids, "result": end}
            case TurnErrored(message, code):
                return {"type": "RUN_ERROR", "message": message, "code": code}
            case TurnCanceled():
                return {"type": "RUN_ERROR", "message": "The turn was canceled.", "code": "canceled"}

    def text(self, turn_event: TextStarted | TextAppended | TextFinished | TextWithdrawn) -> Iterator[Document]:
        match turn_event:
            case TextStarted(id):
                yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}
            case TextAppended(id, delta):
                yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}
            case TextFinished(id, text, kind):
                self.messages.append({"id": id, "role": "assistant", "content": text})
                yield {"type": "TEXT_MESSAGE_END", "messageId": id}
                if kind != "text":
                    yield build_custom_event("message_kind", {"messageId": id, "kind": kind})
            case TextWithdrawn(id):
                yield {"type": "TEXT_MESSAGE_END", "messageId": id}
                yield {"type": "MESSAGES_SNAPSHOT", "messages": self.messages}  # AG-UI has no other way to remove a message

    def call(self, turn_event: ToolCallStarted | ToolCallFinished | QuestionAsked | QuestionAnswered) -> Iterator[Document]:
        match turn_event:
            case ToolCallStarted(id, tool, arguments):
                yield from self.start_call(id, tool, arguments)
            case ToolCallFinished(id, result):
                yield from self.finish_call(id, result)
            case QuestionAsked(id, arguments, tool):
                yield from self.start_call(id, tool, arguments)
            case QuestionAnswered(id, answer, is_canceled):
                yield from self.finish_call(id, NO_ANSWER if is_canceled else answer)

    def start_call(self, id: str, tool: str, arguments: Any) -> Iterator[Document]:
        encoded_arguments = encode_json(arguments)
        function = {"name": tool, "arguments": encoded_arguments}
        self.messages.append({"id": id, "role": "assistant", "toolCalls": [{"id": id, "type": "function", "function": function}]})
        yield {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": tool, "parentMessageId": id}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": encoded_arguments}
        yield {"type": "TOOL_CALL_END", "toolCallId": id}

    def finish_call(self, id: str, result: Any) -> Iterator[Document]:
        content = result if isinstance(result, str) else encode_json(result)
        answer = {"toolCallId": id, "content": content, "role": "tool"}
        self.messages.append({"id": f"{id}{RESULT_SUFFIX}", **answer})
        yield {"type": "TOOL_CALL_RESULT", "messageId": f"{id}{RESULT_SUFFIX}", **answer}

    def update_todos(self, todos: Document) -> Iterator[Document]:
        before, self.todos = self.todos, todos
        if before is None:
            yield {"type": "STATE_SNAPSHOT", "snapshot": {**self.state, "todos": todos}}
            return
        changed = [
            {"op": "replace", "path": f"/todos/{name}", "value": value} for name, value in todos.items() if value != before[name]
        ]
        if changed:
            yield {"type": "STATE_DELTA", "delta": changed}


def build_custom_event(name: str, value: Document) -> Document:
    return {"type": "CUSTOM", "name": name, "value": value}


def build_interrupt(key: ItemKey, item: WaitingItem) -> Document:
    """Build an interrupt. Its id has the form that `resume` must name."""
    kind, item_id = key
    document = item.document
    interrupt: Document = {"id": f"{kind}-{item_id}", "toolCallId": item.call_id, "metadata": {kind: document}}
    if kind == "approval":
        expires_at = datetime.fromtimestamp(document["expires_at"], UTC).isoformat()
        message = f"The agent {document['role']} asks to call {document['tool']}."
        return interrupt | {
            "reason": "tool_call",
            "message": message,
            "responseSchema": DECISION_SCHEMA,
            "expiresAt": expires_at,
        }
    answer = {"type": "string", "enum": document["choices"]} if document["choices"] else {"type": "string"}
    schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    return interrupt | {"reason": "input_required", "message": document["question"], "responseSchema": schema}


def find_known_parts(turn_id: str, messages: list[Document]) -> KnownParts:
    """Return what a client's messages contain of the turn. The ids of those messages start with the turn's."""
    own = [message for message in messages if str(message.get("id")).startswith(f"{turn_id}:")]
    return KnownParts(
        calls=[message["id"] for message in own if message.get("toolCalls")],
        results=list(list_results(turn_id, messages)),
        texts=[
            content for message in own if message.get("role") == "assistant" and isinstance(content := message.get("content"), str)
        ],
    )


def list_results(turn_id: str, messages: list[Document]) -> dict[str, Any]:
    """Return the results of the turn's calls that a client has, from the server or from the client, by the id of the call."""
    return {
        call_id: message.get("content")
        for message in messages
        if message.get("role") == "tool" and (call_id := str(message.get("toolCallId"))).startswith(f"{turn_id}:")
    }


def find_continued(messages: list[Document]) -> str | None:
    """Return the id of the turn whose parts are the last of a client's messages. None if the last message is a user's."""
    last = messages[-1]
    id = last.get("toolCallId") if last.get("role") == "tool" else last.get("id")
    return id.partition(":")[0] if last.get("role") != "user" and isinstance(id, str) else None


def list_answers(resume: list[ResumeEntry], messages: list[Document]) -> list[PersonAnswer]:
    """List the answers to interrupts, and the results of the client's own tools. An abandoned interrupt has no answer."""
    if resume and messages[-1].get("role") == "user":
        raise Invalid("A turn continues with the answers alone. Send the new message when it has ended.")
    return [
        *(
            PersonAnswer(*parse_item_id(entry.interruptId), entry.payload if entry.status == "resolved" else None)
            for entry in resume
        ),
        *list_client_results(find_continued(messages) or "", messages),
    ]


def list_client_results(turn_id: str, messages: list[Document]) -> list[PersonAnswer]:
    """List the results that the client's own tools gave in a turn. Their messages have ids of the client."""
    own = [message for message in messages if not str(message.get("id")).startswith(f"{turn_id}:")]
    return [
        PersonAnswer("question", parse_number(call_id.rpartition(QUESTION_MARK)[2]), result)
        for call_id, result in list_results(turn_id, own).items()
        if QUESTION_MARK in call_id
    ]
