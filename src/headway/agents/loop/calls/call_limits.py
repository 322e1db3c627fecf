"""Limits on the tool calls of one answer."""

from typing import Final

from pydantic_ai.messages import ModelResponse, UserPromptPart

from headway.agents.models.answer_limits import DROPPED_CALLS, MAX_CALLS, MAX_CALLS_READ
from headway.ledger.run import Effect

MAX_ANNOUNCED: Final = 8  # calls in one answer that start work or notify people
ANNOUNCING_TOOLS: Final = ("set_goal", "discover_goal")
TOO_MANY_ANNOUNCED: Final = (
    f"One answer may set or propose {MAX_ANNOUNCED} goals. This one was not; call again if it is still needed."
)


def may_announce(earlier: list[Effect]) -> bool:
    """Return whether one more call of an answer may start work or notify people, after these."""
    return sum(effect.tool in ANNOUNCING_TOOLS for effect in earlier) < MAX_ANNOUNCED


def describe_dropped_calls(response: ModelResponse) -> list[UserPromptPart]:
    """Say how many calls of the answer were not made; nothing if all were."""
    count = (response.metadata or {}).get(DROPPED_CALLS, 0)
    if not count:
        return []
    number = f"At least {count}" if count >= MAX_CALLS_READ - MAX_CALLS else str(count)
    calls = "1 call of your answer was" if count == 1 else f"{number} calls of your answer were"
    return [UserPromptPart(f"{calls} not made: one answer may make {MAX_CALLS} calls. Make them again if they are still needed.")]
