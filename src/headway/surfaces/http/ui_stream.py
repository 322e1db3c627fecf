"""The stream of the AI SDK's interface: its messages, and a turn's events as its parts."""

from collections.abc import Iterable, Iterator
from typing import Any

from headway.ledger.events import encode_json
from headway.surfaces.http.person_answers import QUESTION_MARK, PersonAnswer, parse_number
from headway.surfaces.http.server_sent_events import DONE_FRAME, frame_data
from headway.surfaces.turn_events import (
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


# Reads the messages of the AI SDK: what a client has of a turn, and a person's answers in it.


def find_continued(messages: list[Document], message_id: Any) -> Document | None:
    """Return the answer that a request continues: the one it names, or the last message. None if it sends a new message."""
    named = next((message for message in messages if message_id is not None and message.get("id") == message_id), messages[-1])
    continued = named if named.get("role") == "assistant" else messages[-1]
    return continued if continued.get("role") == "assistant" else None


def list_answers(message: Document) -> list[PersonAnswer]:
    """List the answers in a message. It has the earlier ones too, which change nothing."""
    parts = list_parts(message)
    answers: list[PersonAnswer] = []
    for part in parts:
        approval = part.get("approval")
        if part.get("state") == "approval-responded" and isinstance(approval, dict):
            answers.append(PersonAnswer("approval", parse_number(approval.get("id")), approval))
        elif answer := find_question_answer(part):
            answers.append(answer)
    outputs = {part.get("toolCallId"): part.get("output") for part in parts if part.get("state") == "output-available"}
    for approval in list_approvals(parts):
        output = outputs.get(approval["tool_call_id"])
        if isinstance(output, dict) and isinstance(output.get("approved"), bool):
            answers.append(PersonAnswer("approval", parse_number(str(approval.get("id"))), output))
    return answers


def find_question_answer(part: Document) -> PersonAnswer | None:
    """Return the answer to a question in a part, or the result of a tool that the client has."""
    is_error = part.get("state") == "output-error" and part.get("toolName") != ASK_PERSON
    if not is_question(part) or not (is_error or part.get("state") == "output-available"):
        return None
    number = parse_number(part["toolCallId"].rpartition(QUESTION_MARK)[2])
    return PersonAnswer("question", number, {"error": part.get("errorText")} if is_error else part.get("output"))


def list_client_results(messages: list[Document], turn_id: str) -> list[PersonAnswer]:
    """List the results that the client's own tools gave in a turn."""
    own = (message for message in messages if message.get("id") == turn_id)
    return [answer for message in own for part in list_parts(message) if (answer := find_question_answer(part))]


def has_answers(message: Document) -> bool:
    parts = list_parts(message)
    return any(part.get("state") == "approval-responded" or is_question(part) for part in parts)


def find_known_parts(message: Document) -> KnownParts:
    """Return what a message contains of its turn. Outputs that the client itself gave are answers, not results."""
    parts = list_parts(message)
    calls = [part for part in parts if isinstance(part.get("toolCallId"), str)]
    asked = {approval["tool_call_id"] for approval in list_approvals(parts)}
    return KnownParts(
        calls=[part["toolCallId"] for part in calls],
        results=[
            part["toolCallId"]
            for part in calls
            if str(part.get("state")).startswith("output-") and part["toolCallId"] not in asked and not is_question(part)
        ],
        texts=[text for part in parts if isinstance(text := part.get("text"), str) and is_kept_text(part)],
        decisions=[part["toolCallId"] for part in calls if isinstance(part.get("approval"), dict)],
    )


def list_parts(message: Document) -> list[Document]:
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def list_approvals(parts: list[Document]) -> list[Document]:
    """List the approvals that a client of version 5 was asked for."""
    documents = [part.get("data") for part in parts if part.get("type") == APPROVAL_PART]
    return [document for document in documents if isinstance(document, dict) and isinstance(document.get("tool_call_id"), str)]


def is_question(part: Document) -> bool:
    return isinstance(part.get("toolCallId"), str) and QUESTION_MARK in part["toolCallId"]


def is_kept_text(part: Document) -> bool:
    return part.get("type") == "text" and part.get("providerMetadata") != WITHDRAWN_METADATA
