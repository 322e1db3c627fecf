"""What a step of a run needs from outside before the next one can be taken, and what comes back."""

from typing import Any, NamedTuple

from pydantic_ai.messages import ModelResponse

from headway.agents.toolbox import Result, Tool
from headway.ledger.run import Effect
from headway.ledger.todo import Todo
from headway.storage.spending_store import ModelCall


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
    last_attempt: bool


class Assess(NamedTuple):
    item: Todo
    answer: str
    last_attempt: bool


class Sleep(NamedTuple):
    """Time, or somebody who wakes it."""

    until: int


class Stop(NamedTuple):
    """Nothing: the run has ended, or may not go on here."""

    why: str


Need = AskModel | CallTool | Summarise | Assess | Sleep | Stop


class Said(NamedTuple):
    response: ModelResponse
    call: ModelCall
    stored: str  # the response as it is to be stored: made before, so that the one writer need not


class Done(NamedTuple):
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


class Failure(NamedTuple):
    message: str
    code: str


class Setback(NamedTuple):
    """A failure that may pass."""

    message: str
    retry_after_s: float | None


News = Said | Done | Summary | Verdict | Failure | Setback | None
