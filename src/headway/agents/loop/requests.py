"""The requests that a step of a run makes to the outside world, and the replies to them."""

from typing import Any, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelResponse

from headway.agents.checks.runner import CheckedSubject, CheckSubject
from headway.agents.tools.toolbox import Result, Tool
from headway.ledger.run import Effect, RunEnd
from headway.ledger.todo import Todo
from headway.storage.stores.spending import ModelCall


class AskModel(NamedTuple):
    messages: list[ModelMessage]
    planned: int = 0  # number of items in the plan
    remaining: int = 0
    is_last: bool = False  # the run ends with the answer, which may not call tools
    tools: frozenset[str] | None = None  # the only ones that are offered; None: all


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
