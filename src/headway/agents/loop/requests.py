"""Requests to the model, and its answer while it is written."""

from typing import Any, Final, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelResponse

from headway.agents.checks.runner import CheckedSubject, CheckSubject
from headway.agents.loop.context import RunContext
from headway.agents.tools.toolbox import Result, Tool
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.ledger.parsing.writ_parser import WritParser
from headway.ledger.run import Effect, RunEnd
from headway.ledger.text import to_storable
from headway.ledger.todo import Todo
from headway.storage.stores.spending import ModelCall


class AskModel(NamedTuple):
    messages: list[ModelMessage]
    planned: int = 0  # number of items in the plan
    remaining: int = 0
    is_last: bool = False  # the run ends with the answer, which may not call tools
    tools: frozenset[str] | None = None  # the only ones that are offered, or None for all


class CallTool(NamedTuple):
    effect: Effect
    tool: Tool
    arguments: dict[str, Any]


class Summarise(NamedTuple):
    text: str
    is_last_attempt: bool


class Compact(NamedTuple):
    """Write a note that replaces the messages before the boundary."""

    boundary: int  # the number of the first message that is kept
    text: str  # the messages to summarise
    is_last_attempt: bool


class Assess(NamedTuple):
    item: Todo
    answer: str
    is_last_attempt: bool


class Deliver(NamedTuple):
    """Commit the run's work in its repository, and merge a sub-agent's into its parent's branch. The run then ends."""

    end: RunEnd


class RunChecks(NamedTuple):
    """Run the checks of a todo that an agent wants to complete."""

    effect: Effect
    subject: CheckSubject
    is_last_attempt: bool

    @property
    def opinions(self) -> int:
        """How many times a model is asked."""
        return sum(check["kind"] == "judge" for check in self.subject.checks)


class Sleep(NamedTuple):
    """Wait until a point in time, or until another event wakes the run."""

    until: int


class Stop(NamedTuple):
    """Make no further request: the run has ended, or this process may not continue it."""

    reason: str


Request = AskModel | CallTool | RunChecks | Summarise | Compact | Assess | Deliver | Sleep | Stop


class ModelAnswered(NamedTuple):
    response: ModelResponse
    call: ModelCall
    stored: str  # the response, already encoded so that the single database writer does not have to


class ToolReturned(NamedTuple):
    effect: Effect
    result: Result


class Summary(NamedTuple):
    text: str
    call: ModelCall | None


class NoteWritten(NamedTuple):
    boundary: int
    text: str
    call: ModelCall | None


class Verdict(NamedTuple):
    item: Todo
    ok: bool
    reason: str
    call: ModelCall | None


class Delivered(NamedTuple):
    end: RunEnd
    changes: dict[str, Any]  # as in `runs.changes`
    diff: str


class ChecksRan(NamedTuple):
    effect: Effect
    checked: CheckedSubject


class PermanentFailure(NamedTuple):
    message: str
    code: str


class ContextRefused(NamedTuple):
    """The provider refused the request as too long."""

    message: str


class RetryableFailure(NamedTuple):
    """A failure that is worth retrying."""

    message: str
    retry_after_s: float | None
    code: str = "model_failed"  # if no attempt is left


Reply = (
    ModelAnswered
    | ToolReturned
    | ChecksRan
    | Summary
    | NoteWritten
    | Verdict
    | Delivered
    | PermanentFailure
    | ContextRefused
    | RetryableFailure
    | None
)


# The live text of a model's answer, for subscribers.


RESTART_DELTA: Final[dict[str, Any]] = {"text": "", "restart": True}  # withdraws the streamed part of an answer
# The answer is stored next, or was given up. No subscriber gets this. Interrupted: the process stops, or the run was canceled.
END_OF_TEXT: Final[dict[str, Any]] = {"text": "", "end": True}
INTERRUPTED_TEXT: Final[dict[str, Any]] = {**END_OF_TEXT, "interrupted": True}
MAX_PIECE = 1_000  # characters, so that a piece fits into a notification of Postgres in any encoding


class AnswerStream:
    """Streams a model's text to subscribers as it arrives, without writs that will run.

    Chunks of an answer are numbered, so that a subscriber who joins late can tell which ones are new.
    """

    def __init__(self, context: RunContext, entries: list[TranscriptEntry]) -> None:
        self.context = context
        self.index = len(entries)  # index of the answer in the transcript
        self.is_quoted = context.quotations.judge(entries)
        self.parser = WritParser(self.is_quoted)
        self.chunk_count = 0

    def on_text(self, text: str) -> None:
        self.emit(self.parser.feed(to_storable(text)).visible)

    def on_end(self) -> None:
        self.emit(self.parser.finish().visible)

    def on_withdrawn(self) -> None:
        self.parser = WritParser(self.is_quoted)
        if self.chunk_count:
            self.chunk_count = 0
            self.context.runtime.stream(self.context.run, RESTART_DELTA)

    def close(self) -> None:
        self.context.runtime.stream(self.context.run, END_OF_TEXT)

    def interrupt(self) -> None:
        self.context.runtime.stream(self.context.run, INTERRUPTED_TEXT)

    def emit(self, text: str) -> None:
        for start in range(0, len(text), MAX_PIECE):
            self.chunk_count += 1
            piece = {"text": text[start : start + MAX_PIECE], "n": self.chunk_count, "step": self.index}
            self.context.runtime.stream(self.context.run, piece)
