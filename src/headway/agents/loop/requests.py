"""The requests that a step of a run makes to the outside world, and the replies to them."""

from typing import Any, NamedTuple

from pydantic_ai.messages import ModelRequest, ModelResponse

from headway.agents.tools.toolbox import Result, Tool
from headway.ledger.run import Effect
from headway.ledger.todo import Todo
from headway.storage.stores.spending import ModelCall


class AskModel(NamedTuple):
    context: ModelRequest | None  # the current plan, if there is one
    planned: int = 0  # number of items in the plan
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
    """Wait until a point in time, or until another event wakes the run."""

    until: int


class Stop(NamedTuple):
    """Make no further request: the run has ended, or this process may not continue it."""

    why: str


Request = AskModel | CallTool | Summarise | Assess | Sleep | Stop


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


class Verdict(NamedTuple):
    item: Todo
    ok: bool
    reason: str
    call: ModelCall | None


class PermanentFailure(NamedTuple):
    message: str
    code: str


class RetryableFailure(NamedTuple):
    """A failure that is worth retrying."""

    message: str
    retry_after_s: float | None


Reply = ModelAnswered | ToolReturned | Summary | Verdict | PermanentFailure | RetryableFailure | None
