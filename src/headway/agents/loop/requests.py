"""What a step of a run needs from outside before the next one can be taken, and what comes back."""

from typing import Any, NamedTuple

from pydantic_ai.messages import ModelResponse

from headway.agents.tools.toolbox import Result, Tool
from headway.ledger.run import Effect
from headway.ledger.todo import Todo
from headway.storage.stores.spending import ModelCall


class AskModel(NamedTuple):
    context: str | None  # the list as it is now; nothing while there is none
    planned: int = 0  # how many items it has
    left: int = 0


class CallTool(NamedTuple):
    effect: Effect
    tool: Tool
    arguments: dict[str, Any]


class Summarise(NamedTuple):
    text: str
    is_last_attempt: bool


class Assess(NamedTuple):
    item: Todo
    answer: str
    is_last_attempt: bool


class Sleep(NamedTuple):
    """Time, or somebody who wakes it."""

    until: int


class Stop(NamedTuple):
    """Nothing: the run has ended, or may not go on here."""

    why: str


Request = AskModel | CallTool | Summarise | Assess | Sleep | Stop


class ModelAnswered(NamedTuple):
    response: ModelResponse
    call: ModelCall
    stored: str  # the response as it is to be stored: made before, so that the one writer need not


class ToolReturned(NamedTuple):
    effect: Effect
    result: Result


class Summary(NamedTuple):
    text: str
    call: ModelCall | None


class Verdict(NamedTuple):
    item: Todo
    ok: bool
    reason: str
    call: ModelCall | None


class PermanentFailure(NamedTuple):
    message: str
    code: str


class RetryableFailure(NamedTuple):
    """A failure that may pass."""

    message: str
    retry_after_s: float | None


Reply = ModelAnswered | ToolReturned | Summary | Verdict | PermanentFailure | RetryableFailure | None
