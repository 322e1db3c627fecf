"""A turn's events as OpenAI's answers: what both APIs have in common."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol

from headway.actions.access.spending import Usage
from headway.ledger.events import encode_json
from headway.ledger.text import to_one_line
from headway.surfaces.http.person_answers import KINDS
from headway.surfaces.http.problems import build_openai_error
from headway.surfaces.turn_events import (
    ASK_PERSON,
    ItemKey,
    QuestionAsked,
    SideEvent,
    TextAppended,
    TextFinished,
    TextWithdrawn,
    TodosUpdated,
    ToolCallFinished,
    ToolCallStarted,
    TurnCanceled,
    TurnErrored,
    TurnEvent,
    TurnEventTranslator,
    TurnFinished,
    WaitingItem,
)

HELD_CHARACTERS: Final = 240
HOW_TO_DECIDE: Final = 'Reply "approve" or "reject", and nothing else. The agent reads any other message after the decision.'
LINE_LIMIT: Final = 200  # characters of arguments and errors
PLAN_TOOLS: Final = frozenset(("create_todo", "list_todo", "start_todo", "complete_todo", "manage_todos", "write_todos"))
MARKS: Final = {"done": "[x]", "current": "[>]", "pending": "[ ]"}

EndReason = Literal["finished", "unfinished", "filtered", "calls", "waiting", "paused", "canceled", "failed"]


class ProgressText(NamedTuple):
    text: str  # whole lines


class AnswerText(NamedTuple):
    text: str


class ClientCall(NamedTuple):
    """A call of a tool that the client has."""

    question_id: int
    tool: str
    arguments: str  # JSON


class AnswerEnd(NamedTuple):
    reason: EndReason
    text: str = ""  # what the answer ends with, or the error
    code: str = ""
    outcome: str = ""
    calls: tuple[ClientCall, ...] = ()  # the calls that the client is to make


class AnswerTranslator:
    """The state of an answer: what was sent of it, what is held back, and how it ended."""

    def __init__(self) -> None:
        self.translator = TurnEventTranslator()
        self.progress = ""
        self.content = ""
        self.held = ""
        self.is_sending = False  # whether the beginning of the current text was sent
        self.is_settled = False  # whether the text that is held back is complete
        self.has_open_todos = False
        self.shown_todos = ""
        self.called_tools: dict[str, str] = {}  # the tools of calls, by id
        self.pause_reason = ""
        self.end: AnswerEnd | None = None
        self.unanswered: set[ItemKey] = set()  # what the request has answered; what came before that, the client has

    def translate(self, kind: str, data: dict[str, Any]) -> Iterator[ProgressText | AnswerText]:
        parts = [part for turn_event in self.translator.translate(kind, data) for part in self.translate_event(turn_event)]
        if not self.unanswered:
            yield from parts
            return
        self.progress = self.content = ""
        if kind in ("approval_decided", "question_answered"):
            self.unanswered -= {(KINDS[name], data[name]["id"]) for name in KINDS if name in data}

    def translate_event(self, turn_event: TurnEvent) -> Iterator[ProgressText | AnswerText]:
        match turn_event:
            case TextAppended() | TextFinished() | TextWithdrawn():
                yield from self.translate_text(turn_event)
            case ToolCallStarted(id, tool, arguments):
                self.called_tools[id] = tool
                yield from self.report_call("" if tool in PLAN_TOOLS else tool, arguments)
            case ToolCallFinished(id, result, True):
                yield self.report(f"{self.called_tools.get(id, 'A call')} failed: {shorten(result)}")
            case QuestionAsked(_, arguments, tool):
                yield from self.report_call(tool if tool == ASK_PERSON else "", arguments)
            case TodosUpdated(todos):
                yield from self.report_todos(todos)
            case SideEvent(name, data):
                yield from self.report_side_event(name, data)
            case TurnFinished() | TurnErrored() | TurnCanceled():
                if self.is_settled:
                    yield self.send_held()
                self.end = build_end(turn_event)

    def translate_text(self, turn_event: TextAppended | TextFinished | TextWithdrawn) -> Iterator[ProgressText | AnswerText]:
        match turn_event:
            case TextAppended(_, delta):
                if self.is_settled:
                    yield self.send_held()
                    self.is_sending = False
                self.held += delta
                if self.is_sending or (not self.has_open_todos and len(self.held) > HELD_CHARACTERS):
                    yield self.send_held()
            case TextFinished():
                if self.is_sending:
                    yield self.send_held()
                self.is_settled, self.is_sending = not self.is_sending, False
            case TextWithdrawn():
                if not self.is_sending:
                    yield from self.report_held()
                self.held, self.is_sending = "", False

    def report_call(self, tool: str, arguments: Any) -> Iterator[ProgressText]:
        """Report a call. One without a name is shown in another way: as a change of the todos, or as a call for the client."""
        yield from self.report_held()
        if tool:
            yield self.report(f"{tool} {shorten(arguments)}")

    def report_held(self) -> Iterator[ProgressText]:
        """Report what is held back as progress: the agent continues, so it was not the answer."""
        text, self.held, self.is_settled = self.held.strip(), "", False
        if text:
            yield self.report(text)

    def send_held(self) -> AnswerText:
        separator = "\n\n" if self.content and not self.is_sending else ""
        text, self.held, self.is_sending, self.is_settled = separator + self.held, "", True, False
        self.content += text
        return AnswerText(text)

    def report(self, line: str) -> ProgressText:
        self.progress += f"{line}\n"
        return ProgressText(f"{line}\n")

    def report_todos(self, todos: dict[str, Any]) -> Iterator[ProgressText]:
        self.has_open_todos = todos["remaining"] > 0
        items = [f"{MARKS[item['status']]} {to_one_line(item['description'])}" for item in todos["items"]]
        shown = "\n".join(items)
        if items and shown != self.shown_todos:
            self.shown_todos = shown
            yield self.report(f"Todos: {todos['remaining']} of {todos['total']} left\n{shown}")

    def report_side_event(self, name: str, data: dict[str, Any]) -> Iterator[ProgressText]:
        if name == "refused":
            yield self.report(f"The answer was not accepted: {to_one_line(str(data.get('reason') or 'todos are open'))}")
        elif name == "turn_paused":
            self.pause_reason = str(data["reason"])
        elif name == "turn_resumed":
            self.pause_reason = ""

    def end_waiting(self) -> AnswerEnd:
        """End the answer with what the turn waits for. The client's next message can be the answer to it."""
        return build_waiting_end(self.translator.waiting)

    def end_paused(self) -> AnswerEnd:
        return AnswerEnd("paused", f"The turn is paused: {to_one_line(self.pause_reason)} It continues automatically after that.")

    def close(self, end: AnswerEnd) -> str:
        """Add what an answer ends with, and return it."""
        if end.reason == "failed" or not end.text:
            return ""
        text = f"\n\n{end.text}" if self.content else end.text
        self.content += text
        return text


def build_end(turn_event: TurnFinished | TurnErrored | TurnCanceled) -> AnswerEnd:
    match turn_event:
        case TurnErrored(message, code):
            return AnswerEnd("failed", message, code)
        case TurnCanceled():
            return AnswerEnd("canceled", "The turn was canceled.")
        case TurnFinished(end):
            return AnswerEnd(to_end_reason(end["outcome"]), outcome=end["outcome"])


def to_end_reason(outcome: str) -> EndReason:
    """Return how an answer ends whose turn finished with this outcome."""
    if outcome in ("drained", "answered"):
        return "finished"
    return "filtered" if outcome == "filtered" else "unfinished"


def build_waiting_end(waiting: Mapping[ItemKey, WaitingItem]) -> AnswerEnd:
    """Return how the answer of a turn ends that waits: with calls for the client to make, and what a person is to say."""
    calls = tuple(
        ClientCall(item_id, call["tool"], encode_json(call["arguments"]))
        for (_, item_id), item in waiting.items()
        if (call := item.document.get("client_call"))
    )
    others = {key: item for key, item in waiting.items() if not item.document.get("client_call")}
    return AnswerEnd("calls" if calls else "waiting", describe_waiting(others), calls=calls)


def describe_waiting(waiting: Mapping[ItemKey, WaitingItem]) -> str:
    """Describe what a turn waits for, and how to answer."""
    texts = []
    for (kind, item_id), item in waiting.items():
        document = item.document
        if kind == "question":
            choices = "".join(f"\n- {choice}" for choice in document["choices"])
            texts.append(f"{document['question']}{choices}")
        else:
            call = f"`{document['tool']}` with {shorten(document['arguments'])}"
            texts.append(f"Approval #{item_id} is needed to call {call}. {HOW_TO_DECIDE}")
    return "\n\n".join(texts)


def shorten(value: Any) -> str:
    line = to_one_line(value if isinstance(value, str) else encode_json(value))
    return line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]}…"


# Shared by the encoders of both APIs: the answer to one request, as a stream and as a document.


Document = dict[str, Any]


class AnswerHead(NamedTuple):
    """A turn that has begun."""

    turn_id: str
    conversation_id: int
    created: int  # in epoch seconds
    model: str
    metadata: dict[str, str]

    @property
    def hex_id(self) -> str:
        return self.turn_id.replace("-", "")


class AnswerEncoder(Protocol):
    answer: AnswerTranslator

    @property
    def translator(self) -> Any: ...

    def encode(self, kind: str, data: Document) -> str:
        """Encode an event of the turn, except its end."""

    def encode_end(self, end: AnswerEnd, usage: Usage) -> str:
        """Encode the end of the stream."""

    def encode_error(self, message: str, code: str) -> str:
        """Encode an error that ends the stream."""

    def build_document(self, end: AnswerEnd, usage: Usage) -> Document:
        """Build the answer of a request that does not stream."""


def build_error(message: str, code: str) -> Document:
    return build_openai_error(500, message, code)


def split_usage(usage: Usage, names: tuple[str, str]) -> Document:
    """Describe the tokens of a turn, of all its model calls together. `names` are the words for input and output."""
    given, made = names
    return {
        f"{given}_tokens": usage.input_tokens,
        f"{made}_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        f"{given}_tokens_details": {"cached_tokens": usage.cached_tokens},
        f"{made}_tokens_details": {"reasoning_tokens": 0},
    }
