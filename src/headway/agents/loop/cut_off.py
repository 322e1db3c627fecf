"""Results that the length limit cut off: the model is asked for the rest, and the parts are joined."""

import json
import re
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ToolCallPart

from headway.agents.loop.requests import Summarise
from headway.agents.loop.step import Step
from headway.agents.tools.agents import REPORT_TOOL
from headway.agents.transcript import build_user_message

MAX_PARTS: Final = 5  # of one result
RESTART_PREFIX_LENGTH: Final = 50  # characters: an answer that begins with the same ones as the part before it has started over
CODE_FENCE: Final = re.compile(r"\s*```\w*\n(.*?)\n?(?:```\s*)?", re.DOTALL)
CONTINUE_PROMPT: Final = (
    "The length limit cut your answer off. Continue it exactly where it stops, from the next character on, as plain text. "
    "Do not repeat anything, do not comment, and do not start over."
)


# Joining


def join(part: str, rest: str) -> str:
    """Append the rest, unless the model started over instead of continuing."""
    beginning = part.lstrip()[:RESTART_PREFIX_LENGTH]
    started_over = len(beginning) == RESTART_PREFIX_LENGTH and rest.lstrip().startswith(beginning)
    return rest if started_over else part + rest


def join_json(part: str, rest: str) -> str:
    """Like `join`. A rest that is an object by itself replaces the part: the rest of an object never is one."""
    if not part:
        return rest
    fenced = CODE_FENCE.fullmatch(rest)
    rest = fenced[1] if fenced else rest
    is_whole = rest.lstrip().startswith("{") and is_json(rest)
    return rest if is_whole else join(part, rest)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def request_rest(part: str) -> list[ModelMessage]:
    """What follows a question whose answer was cut off; nothing if it was not."""
    return [ModelResponse([TextPart(part)]), build_user_message(CONTINUE_PROMPT)] if part else []


# In the loop of a run


def handle(step: Step, response: ModelResponse) -> Summarise | None:
    """Ask for the rest of a sub-agent's result. Other cut-off answers, and results in too many parts, are summarised."""
    if step.turn_id or not is_result(response) or count_parts(response) >= MAX_PARTS:
        return Summarise(render_cut_off(response), step.is_last_attempt)
    step.append(build_user_message(CONTINUE_PROMPT))
    return None


def is_result(response: ModelResponse) -> bool:
    """Whether a run could end with it: a plain answer, or a reported outcome."""
    called = [call.tool_name for call in response.tool_calls]
    return called == [REPORT_TOOL] or (not called and bool(response.text))


def count_parts(response: ModelResponse) -> int:
    return int((response.metadata or {}).get("parts", 1))


def render_cut_off(response: ModelResponse) -> str:
    calls = [f"[cut-off call of {call.tool_name}: {call.args}]" for call in response.tool_calls]
    return "\n".join([response.text or "", *calls])


def join_last(step: Step) -> bool:
    """Join the last message with the part that it continues, if it does. The parts stay in the journal and are not sent again."""
    sent = ((place, step.entries[place]) for place in reversed(range(len(step.entries))) if step.entries[place].sent)
    responses = [*islice(((place, one.message) for place, one in sent if isinstance(one.message, ModelResponse)), 2)]
    if len(responses) < 2 or responses[1][1].finish_reason != "length":
        return False
    (last, rest), (first, part) = responses
    for place in (first, first + 1, last):  # the first part, the request for the rest, and the rest
        step.withdraw(place)
    step.append(join_responses(part, rest))
    return True


def join_responses(part: ModelResponse, rest: ModelResponse) -> ModelResponse:
    """One response of two. A model that calls something else instead of continuing its report has changed its mind."""
    reported = next((call for call in part.tool_calls if call.tool_name == REPORT_TOOL), None)
    again = next((call for call in rest.tool_calls if call.tool_name == REPORT_TOOL), None)
    parts: list[ModelResponsePart]
    if reported is None:
        parts = [TextPart(join(part.text or "", rest.text or "")), *rest.tool_calls]
    elif rest.tool_calls and again is None:
        parts = list(rest.parts)
    else:
        parts = [continue_call(reported, str(again.args) if again else rest.text or "")]
    return replace(rest, parts=parts, metadata={"parts": count_parts(part) + 1})


def continue_call(call: ToolCallPart[Any], rest: str) -> ToolCallPart[Any]:
    return replace(call, args=join_json(str(call.args), rest))
