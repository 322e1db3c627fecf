"""Translates the events of a turn into the simpler sequence that chat front ends understand.

The feed describes the ledger: an answer may be withdrawn, and a message may arrive without live text before it. Here every text
starts, grows and either finishes or is withdrawn, so that any streaming protocol can express it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

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
        "compacted",
        "cost_changed",
        "operator_notice",
    }
)


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
    | TodosUpdated
    | SideEvent
    | TurnFinished
    | TurnErrored
    | TurnCanceled
)


class TurnEventTranslator:
    """Holds the state of a turn: the run that answers it, the text being streamed, and the tool calls without a result."""

    def __init__(self) -> None:
        self.turn_id = ""
        self.run_id = ""
        self.parts = 0  # numbers texts and calls: the ids that models choose may repeat in later turns
        self.text_id = ""  # the id of the text being streamed
        self.content = ""
        self.calls: dict[str, str] = {}

    def translate(self, kind: str, data: dict[str, Any]) -> Iterator[TurnEvent]:
        match kind:
            case "turn_started":
                self.turn_id, self.run_id = data["turn_id"], data["run_id"]
                yield TurnStarted({name: data[name] for name in ("turn_id", "conversation_id", "mode")})
            case "text_delta":
                yield from self.withdraw() if data.get("restart") else self.append_text(data["text"])
            case "message" if data["role"] == "assistant":
                yield from self.settle(data["content"])
            case "tool_call" | "tool_result" if data["run_id"] == self.run_id:  # calls of sub-agents are not shown
                yield from self.withdraw()
                yield from self.translate_tool(kind, data)
            case "todos_updated":
                yield TodosUpdated({name: data[name] for name in TODO_LIST_KEYS})
            case "refused":
                yield from self.withdraw()
                yield SideEvent(kind, data)
            case "turn_finished" | "turn_failed" | "turn_canceled":
                yield from self.withdraw()
                yield build_final_event(kind, data)
            case _ if kind in SIDE_EVENT_KINDS:
                yield SideEvent(kind, data)

    def append_text(self, delta: str) -> Iterator[TurnEvent]:
        if not self.text_id:
            self.text_id = self.next_part_id()
            yield TextStarted(self.text_id)
        self.content += delta
        yield TextAppended(self.text_id, delta)

    def settle(self, content: str) -> Iterator[TurnEvent]:
        """Finish the text with the stored content. Text that was not streamed is appended; text that differs is withdrawn first."""
        if self.content.strip() != content.strip():
            if not content.startswith(self.content):
                yield from self.withdraw()
            yield from self.append_text(content[len(self.content) :])
        yield TextFinished(self.text_id, self.content)
        self.text_id = self.content = ""

    def withdraw(self) -> Iterator[TurnEvent]:
        if self.text_id:
            yield TextWithdrawn(self.text_id)
            self.text_id = self.content = ""

    def translate_tool(self, kind: str, data: dict[str, Any]) -> Iterator[TurnEvent]:
        if kind == "tool_call":
            self.calls[data["call_id"]] = self.next_part_id()
            yield ToolCallStarted(self.calls[data["call_id"]], data["tool"], data["arguments"])
        elif data["call_id"] in self.calls:
            yield ToolCallFinished(self.calls.pop(data["call_id"]), data["result"], data["is_error"])

    def next_part_id(self) -> str:
        self.parts += 1
        return f"{self.turn_id}:{self.parts}"


def build_final_event(kind: str, data: dict[str, Any]) -> TurnEvent:
    if kind == "turn_finished":
        return TurnFinished(data)
    return TurnErrored(data["error"], data["code"]) if kind == "turn_failed" else TurnCanceled()
