"""Translates the events of a turn into the simpler sequence that chat front ends understand.

The feed describes the ledger: an answer may be withdrawn, and a message may arrive without live text before it. Here every text
starts, grows and either finishes or is withdrawn, so that any streaming protocol can express it.

A turn that waits for a person ends its stream, and the next stream continues it. That stream translates the turn from its start, so
that calls have the same ids as before, and leaves out what the client has.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from headway.ledger.inbox import RequestKind

TODO_LIST_KEYS = ("total", "remaining", "current", "items")
# Events that a front end may show beside the conversation, or ignore.
SIDE_EVENT_KINDS = frozenset(
    {
        "todos_assessed",
        "todos_resubmitting",
        "todos_limit",
        "turn_delayed",
        "turn_paused",
        "turn_resumed",
        "agent_changed",
        "checks_ran",
        "compacted",
        "cost_changed",
        "operator_notice",
    }
)
PERSON_EVENT_KINDS = frozenset({"approval_requested", "approval_decided", "question_asked", "question_answered"})
ASK_PERSON = "ask_person"
NO_ANSWER = "The turn ended before anyone answered."


class TurnStarted(NamedTuple):
    turn: dict[str, Any]


class TextStarted(NamedTuple):
    id: str


class TextAppended(NamedTuple):
    id: str
    delta: str


class TextFinished(NamedTuple):
    id: str
    text: str
    kind: str = "text"  # closing: the runtime's own words. stopped: the turn was canceled before the text was complete


class TextWithdrawn(NamedTuple):
    """The text ended and is not the answer."""

    id: str


class ToolCallStarted(NamedTuple):
    id: str
    tool: str
    arguments: Any


class ToolCallFinished(NamedTuple):
    id: str
    result: Any
    is_error: bool


class QuestionAsked(NamedTuple):
    """An agent asked a person, or called a tool that the client has. A question looks like a call of ask_person, also if a
    sub-agent asks."""

    id: str
    arguments: dict[str, Any]
    tool: str


class QuestionAnswered(NamedTuple):
    id: str
    answer: str
    is_canceled: bool


class TodosUpdated(NamedTuple):
    todos: dict[str, Any]


class SideEvent(NamedTuple):
    name: str
    data: dict[str, Any]


class TurnFinished(NamedTuple):
    end: dict[str, Any]


class TurnErrored(NamedTuple):
    message: str
    code: str


class TurnCanceled(NamedTuple):
    pass


TurnEvent = (
    TurnStarted
    | TextStarted
    | TextAppended
    | TextFinished
    | TextWithdrawn
    | ToolCallStarted
    | ToolCallFinished
    | QuestionAsked
    | QuestionAnswered
    | TodosUpdated
    | SideEvent
    | TurnFinished
    | TurnErrored
    | TurnCanceled
)


class WaitingItem(NamedTuple):
    """An approval or a question that the turn waits for, and the id of its call in the stream."""

    call_id: str
    document: dict[str, Any]


ItemKey = tuple[RequestKind, int]


class KnownParts(NamedTuple):
    """The parts of a turn that a client has from an earlier stream."""

    calls: Collection[str] = ()
    results: Collection[str] = ()  # the calls whose results it has
    texts: Collection[str] = ()
    decisions: Collection[str] = ()  # the calls that it was asked to approve


class TurnEventTranslator:
    """Holds the state of a turn: the run that answers it, the text being streamed, the calls without a result, and the open
    approvals and questions."""

    def __init__(self, known: KnownParts | None = None) -> None:
        self.is_continued = known is not None
        known = known or KnownParts()
        self.missing_calls = set(known.calls)  # calls that the client has and that are not translated yet
        self.known_results = frozenset(known.results)
        self.known_texts = list(known.texts)
        self.missed_todos: TodosUpdated | None = None
        self.turn_id = ""
        self.run_id = ""
        self.calls_count = 0  # numbers the calls: the ids that models choose may repeat in later turns
        self.texts_count = len(known.texts) + len(known.calls)  # numbers the texts, differently in each stream
        self.text_id = ""  # the id of the text being streamed
        self.content = ""
        self.calls: dict[tuple[str, str], str] = {}  # the ids of calls without a result, by run and the model's id
        self.asking_tools = {ASK_PERSON}  # with the tools of the client
        self.unasked: dict[tuple[str, str], ToolCallStarted] = {}  # calls of these tools that have not stored their question
        self.waiting: dict[ItemKey, WaitingItem] = {}
        self.rejected_calls: set[str] = set()

    def translate(self, kind: str, data: dict[str, Any]) -> Iterator[TurnEvent]:
        """Translate an event, without what the client has."""
        if kind == "message" and data["role"] == "assistant" and not self.text_id and self.has_text(data["content"]):
            return
        for turn_event in self.translate_all(kind, data):
            if not self.is_known(turn_event):
                if self.missed_todos and not isinstance(turn_event, TurnStarted):
                    yield self.missed_todos
                    self.missed_todos = None
                yield turn_event

    def has_text(self, content: str) -> bool:
        if content in self.known_texts:
            self.known_texts.remove(content)  # the agent may say the same again
            return True
        return bool(self.missing_calls)

    def is_known(self, turn_event: TurnEvent) -> bool:
        """Whether the client already received this event. It received everything up to its last known call."""
        is_earlier = bool(self.missing_calls)
        match turn_event:
            case ToolCallStarted(id) | QuestionAsked(id):
                self.missing_calls.discard(id)
                return is_earlier
            case ToolCallFinished(id) | QuestionAnswered(id):
                return is_earlier or id in self.known_results
            case TodosUpdated():
                self.missed_todos = turn_event if is_earlier else None
                return is_earlier
            case SideEvent():
                return is_earlier
        return False

    def translate_all(self, kind: str, data: dict[str, Any]) -> Iterator[TurnEvent]:
        match kind:
            case "turn_started":
                self.turn_id, self.run_id = data["turn_id"], data["run_id"]
                self.asking_tools.update(data.get("client_tools", ()))
                yield TurnStarted({name: data[name] for name in ("turn_id", "conversation_id", "mode")})
            case "text_delta":
                yield from self.withdraw() if data.get("restart") else self.append_text(data["text"])
            case "message" if data["role"] == "assistant":
                yield from self.settle(data["content"], data.get("kind", "text"))
            case "tool_call" | "tool_result":
                yield from self.translate_tool(kind, data)
            case _ if kind in PERSON_EVENT_KINDS:
                yield from self.translate_person(kind, data)
            case "todos_updated":
                yield TodosUpdated({name: data[name] for name in TODO_LIST_KEYS})
            case "refused":
                yield from self.withdraw()
                yield SideEvent(kind, data)
            case "turn_finished" | "turn_failed" | "turn_canceled":
                yield from self.end(kind, data)
            case _ if kind in SIDE_EVENT_KINDS:
                yield SideEvent(kind, data)

    def append_text(self, delta: str) -> Iterator[TurnEvent]:
        if not self.text_id:
            self.texts_count += 1
            self.text_id = f"{self.turn_id}:{self.calls_count}.{self.texts_count}"
            yield TextStarted(self.text_id)
        self.content += delta
        yield TextAppended(self.text_id, delta)

    def settle(self, content: str, kind: str) -> Iterator[TurnEvent]:
        """Finish the text with the stored content. Text that was not streamed is appended; text that differs is withdrawn first."""
        if self.content.strip() != content.strip():
            if not content.startswith(self.content):
                yield from self.withdraw()
            yield from self.append_text(content[len(self.content) :])
        yield TextFinished(self.text_id, self.content, kind)
        self.text_id = self.content = ""

    def end(self, kind: str, data: dict[str, Any]) -> Iterator[TurnEvent]:
        """End the turn. Text that a canceled turn leaves unfinished is kept: the process that runs the agent stores it."""
        if kind == "turn_canceled" and self.text_id:
            yield from self.settle(self.content, "stopped")
        yield from self.withdraw()
        yield build_final_event(kind, data)

    def withdraw(self) -> Iterator[TurnEvent]:
        if self.text_id:
            yield TextWithdrawn(self.text_id)
            self.text_id = self.content = ""

    def translate_tool(self, kind: str, data: dict[str, Any]) -> Iterator[TurnEvent]:
        """Translate a call. Calls of sub-agents are not shown, except the ones that a person must approve."""
        key = (data["run_id"], data["call_id"])
        if data["run_id"] == self.run_id:
            yield from self.withdraw()
            if kind == "tool_call":
                self.calls_count += 1
                started = ToolCallStarted(f"{self.turn_id}:{self.calls_count}", data["tool"], data["arguments"])
                if started.tool in self.asking_tools:
                    self.unasked[key] = started
                else:
                    yield self.start_call(key, started)
        if kind == "tool_result":
            if key in self.unasked:  # no question was stored
                yield self.start_call(key, self.unasked.pop(key))
            if key in self.calls:
                yield ToolCallFinished(self.calls.pop(key), data["result"], data["is_error"])

    def start_call(self, key: tuple[str, str], started: ToolCallStarted) -> ToolCallStarted:
        self.calls[key] = started.id
        return started

    def translate_person(self, kind: str, data: dict[str, Any]) -> Iterator[TurnEvent]:
        if "approval" in data:
            yield from self.translate_approval(kind, data["approval"])
        else:
            yield from self.translate_question(kind, data["question"])
        yield SideEvent(kind, data)

    def translate_approval(self, kind: str, approval: dict[str, Any]) -> Iterator[TurnEvent]:
        if kind == "approval_requested":
            key = (approval["run_id"], approval["call_id"])
            if key not in self.calls:
                shown = ToolCallStarted(f"{self.turn_id}:approval-{approval['id']}", approval["tool"], approval["arguments"])
                yield self.start_call(key, self.unasked.pop(key, shown))
            self.waiting["approval", approval["id"]] = WaitingItem(self.calls[key], approval)
        elif (item := self.waiting.pop(("approval", approval["id"]), None)) and approval["state"] == "rejected":
            self.rejected_calls.add(item.call_id)

    def translate_question(self, kind: str, question: dict[str, Any]) -> Iterator[TurnEvent]:
        id = f"{self.turn_id}:question-{question['id']}"
        if kind == "question_asked":
            called = question.get("client_call") or {"tool": ASK_PERSON, "arguments": get_question(question)}
            keys = (key for key, call in self.unasked.items() if (key[0], call.tool) == (question["run_id"], called["tool"]))
            self.unasked.pop(next(keys, ("", "")), None)
            self.waiting["question", question["id"]] = WaitingItem(id, question)
            yield QuestionAsked(id, called["arguments"], called["tool"])
        elif self.waiting.pop(("question", question["id"]), None):
            yield QuestionAnswered(id, question["answer"], question["state"] != "answered")


def get_question(question: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a question that is an argument of ask_person."""
    return {name: question[name] for name in ("question", "choices")}


def build_final_event(kind: str, data: dict[str, Any]) -> TurnEvent:
    if kind == "turn_finished":
        return TurnFinished(data)
    return TurnErrored(data["error"], data["code"]) if kind == "turn_failed" else TurnCanceled()
