"""A turn as a chat front end sees it: one text after the other, tool calls with their results, the list, and one end.

What the feed tells is about the ledger: an answer may be withdrawn, a message may come without the words before it. Here this
becomes a sequence that every streaming protocol can say: each text begins, grows and ends, or is withdrawn.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

LIST = ("total", "remaining", "current", "items")
# What a front end may show beside the conversation, or ignore.
NOTES = frozenset(
    {
        "todos_assessed",
        "todos_resubmitting",
        "todos_limit",
        "turn_delayed",
        "turn_paused",
        "turn_resumed",
        "agent_changed",
        "cost_changed",
        "operator_notice",
    }
)


class Began(NamedTuple):
    turn: dict[str, Any]


class TextBegan(NamedTuple):
    id: str


class TextGrew(NamedTuple):
    id: str
    delta: str


class TextEnded(NamedTuple):
    id: str
    text: str


class TextWithdrawn(NamedTuple):
    """It ends, and it is not the answer."""

    id: str


class Called(NamedTuple):
    id: str
    tool: str
    arguments: Any


class Returned(NamedTuple):
    id: str
    result: Any
    is_error: bool


class Listed(NamedTuple):
    todos: dict[str, Any]


class Noted(NamedTuple):
    name: str
    data: dict[str, Any]


class Finished(NamedTuple):
    end: dict[str, Any]


class Failed(NamedTuple):
    message: str
    code: str


class Canceled(NamedTuple):
    pass


Beat = Began | TextBegan | TextGrew | TextEnded | TextWithdrawn | Called | Returned | Listed | Noted | Finished | Failed | Canceled


class Retelling:
    """Where in a turn we are: which run is the turn's own, what is being said, and which calls wait for their result."""

    def __init__(self) -> None:
        self.turn_id = ""
        self.run_id = ""
        self.parts = 0  # texts and calls so far: what a model calls its calls may come again in the next turn
        self.text = ""  # the id of the open one
        self.said = ""
        self.calls: dict[str, str] = {}

    def hear(self, kind: str, data: dict[str, Any]) -> Iterator[Beat]:
        match kind:
            case "turn_started":
                self.turn_id, self.run_id = data["turn_id"], data["run_id"]
                yield Began({name: data[name] for name in ("turn_id", "conversation_id", "mode")})
            case "text_delta":
                yield from self.withdraw() if data.get("restart") else self.speak(data["text"])
            case "message" if data["role"] == "assistant":
                yield from self.settle(data["content"])
            case "tool_call" | "tool_result" if data["run_id"] == self.run_id:  # those of sub-agents are their own business
                yield from self.withdraw()
                yield from self.use_tool(kind, data)
            case "todos_updated":
                yield Listed({name: data[name] for name in LIST})
            case "refused":
                yield from self.withdraw()
                yield Noted(kind, data)
            case "turn_finished" | "turn_failed" | "turn_canceled":
                yield from self.withdraw()
                yield ending(kind, data)
            case _ if kind in NOTES:
                yield Noted(kind, data)

    def speak(self, words: str) -> Iterator[Beat]:
        if not self.text:
            self.text = self.part_id()
            yield TextBegan(self.text)
        self.said += words
        yield TextGrew(self.text, words)

    def settle(self, content: str) -> Iterator[Beat]:
        """What stays. Who heard it word by word has it; who did not, or heard something else, gets the whole."""
        if self.said.strip() != content.strip():
            if not content.startswith(self.said):
                yield from self.withdraw()
            yield from self.speak(content[len(self.said) :])
        yield TextEnded(self.text, self.said)
        self.text = self.said = ""

    def withdraw(self) -> Iterator[Beat]:
        if self.text:
            yield TextWithdrawn(self.text)
            self.text = self.said = ""

    def use_tool(self, kind: str, data: dict[str, Any]) -> Iterator[Beat]:
        if kind == "tool_call":
            self.calls[data["call_id"]] = self.part_id()
            yield Called(self.calls[data["call_id"]], data["tool"], data["arguments"])
        elif data["call_id"] in self.calls:
            yield Returned(self.calls.pop(data["call_id"]), data["result"], data["is_error"])

    def part_id(self) -> str:
        self.parts += 1
        return f"{self.turn_id}:{self.parts}"


def ending(kind: str, data: dict[str, Any]) -> Beat:
    if kind == "turn_finished":
        return Finished(data)
    return Failed(data["error"], data["code"]) if kind == "turn_failed" else Canceled()
