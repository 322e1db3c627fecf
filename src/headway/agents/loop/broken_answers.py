"""Answers that did not arrive whole: cut off by the length limit, malformed, refused or filtered."""

import json
import re
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ToolCallPart

from headway.agents.instructions import prompts
from headway.agents.loop import gates, items
from headway.agents.loop.requests import RunChecks, Sleep, Stop, Summarise
from headway.agents.loop.step import Step, list_open_items
from headway.agents.models.connections import REPEATED_LENGTH, find_period
from headway.agents.tools.agents import REPORT_TOOL
from headway.agents.transcripts.transcript import TranscriptEntry, build_runtime_message
from headway.ledger.run import RunEnd
from headway.ledger.text import to_storable

MAX_HINTS: Final = 2  # in a row
# Google's reasons. The provider could not read the call, so it returns none.
MALFORMED_CALL: Final = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
HINT: Final = (
    "Your last function call was malformed, and nothing was called. Call only the functions that you were given, one JSON object "
    "of arguments for each, without code around it. Call it again, or answer in words."
)


def handle_error(step: Step, response: ModelResponse) -> Stop | None:
    """Ask again, with a hint, after a malformed tool call. Any other error, or a third malformed call in a row, fails the run."""
    step.withdraw_last()  # a retried turn asks the model again
    reason = get_reason(response)
    if reason not in MALFORMED_CALL:
        return step.end(RunEnd.fail("The model ended its answer with an error.", "model_error"))
    attempts = count_malformed(step.entries)
    if attempts > MAX_HINTS:
        return step.end(RunEnd.fail(f"The model's tool calls were malformed {attempts} times in a row ({reason}).", "model_error"))
    step.emit("refused", {"remaining": len(list_open_items(step.plan())), "reason": "The tool call was malformed."})
    step.append(build_runtime_message(HINT))
    return None


def get_reason(response: ModelResponse) -> object:
    """Return why the answer ended, in the provider's own word."""
    return (response.provider_details or {}).get("finish_reason")


def count_malformed(entries: list[TranscriptEntry]) -> int:
    """Count the malformed calls since the last answer that was not one. The journal keeps those that are no longer sent."""
    count = 0
    for entry in reversed(entries):
        if isinstance(entry.message, ModelResponse):
            if get_reason(entry.message) not in MALFORMED_CALL:
                break
            count += 1
    return count


def end_filtered(step: Step, response: ModelResponse) -> Stop | None:
    """End the run after a refusal or a content filter. The text of a refusal is the answer.

    If a person has sent a message, the model answers again, with the message.
    """
    run = step.run
    if run.unread:
        step.withdraw_last()
        step.emit("refused", {"remaining": len(list_open_items(step.plan())), "reason": "The answer was filtered."})
        return None
    refusal = (response.provider_details or {}).get("refusal")
    answer = to_storable(refusal).strip() if isinstance(refusal, str) else ""
    origin = f" of turn {run.turn_id}" if run.turn_id else f" of goal #{run.goal_id}"
    cause = "A model's refusal" if answer else "A provider's content filter"
    step.notify("content_filter", f"{cause} ended run {run.id}{origin}.")
    return step.end(RunEnd.finish("filtered", answer, "" if answer else prompts.CONTENT_FILTER_ANSWER))


# Results that the length limit cut off: the model is asked for the rest, and the parts are joined.

MAX_PARTS: Final = 5  # per result
RESTART_PREFIX_LENGTH: Final = 50  # characters; a continuation that repeats this many of the first part's characters is a restart
CODE_FENCE: Final = re.compile(r"\s*```\w*\n(.*?)\n?(?:```\s*)?", re.DOTALL)
CONTINUE_PROMPT: Final = (
    "The length limit cut your answer off. Continue exactly where it stops, from the next character, as plain text. "
    "Do not repeat anything, comment, or start over."
)


def join_parts(part: str, rest: str) -> str:
    """Append the rest to the part. If the model started over instead of continuing, the rest replaces the part."""
    beginning = part.lstrip()[:RESTART_PREFIX_LENGTH]
    started_over = len(beginning) == RESTART_PREFIX_LENGTH and rest.lstrip().startswith(beginning)
    return rest if started_over else part + rest


def join_json(part: str, rest: str) -> str:
    """Join like `join`, but let a rest that is a complete JSON object replace the part: a true continuation never is one."""
    if not part:
        return rest
    fenced = CODE_FENCE.fullmatch(rest)
    rest = fenced[1] if fenced else rest
    is_whole = rest.lstrip().startswith("{") and is_json(rest)
    return rest if is_whole else join_parts(part, rest)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def request_rest(part: str) -> list[ModelMessage]:
    """Build the messages that ask for the rest of a cut-off answer; none if there is no partial answer."""
    return [ModelResponse([TextPart(part)]), build_runtime_message(CONTINUE_PROMPT)] if part else []


def handle_cut_off(step: Step, entry: TranscriptEntry, response: ModelResponse) -> Summarise | RunChecks | Sleep | Stop | None:
    """Ask for the rest of an answer. A cut-off call, or an answer in too many parts, is summarised instead.

    An answer that ends with repetitions is returned to the model. Where only calls count, the next items are taken up.
    """
    if items.expects_calls(step):
        return items.check_answer(step, entry, "")
    text = response.text or ""
    if len(text) >= REPEATED_LENGTH and find_period(text[-REPEATED_LENGTH:]):
        step.withdraw_last()
        return gates.reject_answer(step, prompts.REPEATED_ANSWER, prompts.REPEATED_ANSWER_NUDGE, prompts.REPEATED_ANSWERS)
    if not is_result(response) or count_parts(response) >= MAX_PARTS:
        return Summarise(render_cut_off(response), step.is_last_attempt)
    step.append(build_runtime_message(CONTINUE_PROMPT))
    return None


def awaits_rest(step: Step) -> bool:
    """Return whether the next answer continues a cut-off one. No message may come between the two."""
    responses = (entry.message for entry in reversed(step.entries) if entry.sent and isinstance(entry.message, ModelResponse))
    last = next(responses, None)
    return last is not None and last.finish_reason == "length"


def is_result(response: ModelResponse) -> bool:
    """Return whether a run could end with this response: plain text, or a single call of the report tool."""
    tool_names = [call.tool_name for call in response.tool_calls]
    return tool_names == [REPORT_TOOL] or (not tool_names and bool(response.text))


def count_parts(response: ModelResponse) -> int:
    return int((response.metadata or {}).get("parts", 1))


def render_cut_off(response: ModelResponse) -> str:
    calls = [f"[cut-off call of {call.tool_name}: {call.args}]" for call in response.tool_calls]
    return "\n".join([response.text or "", *calls])


def join_last(step: Step) -> bool:
    """Join the last response with the cut-off part that it continues, if there is one.

    Both stay in the journal, but only the joined response is sent to the model.
    """
    sent_entries = ((index, step.entries[index]) for index in reversed(range(len(step.entries))) if step.entries[index].sent)
    responses = [*islice(((index, entry.message) for index, entry in sent_entries if isinstance(entry.message, ModelResponse)), 2)]
    if len(responses) < 2 or responses[1][1].finish_reason != "length":
        return False
    (last, rest), (first, part) = responses
    for index in (first, first + 1, last):  # the first part, the request for the rest, and the rest
        step.withdraw(index)
    step.append(join_responses(part, rest))
    return True


def join_responses(part: ModelResponse, rest: ModelResponse) -> ModelResponse:
    """Merge a cut-off response and its continuation.

    A model that calls another tool instead of continuing its report has changed its mind, and only the new calls count.
    """
    report = next((call for call in part.tool_calls if call.tool_name == REPORT_TOOL), None)
    repeated_report = next((call for call in rest.tool_calls if call.tool_name == REPORT_TOOL), None)
    parts: list[ModelResponsePart]
    if report is None:
        parts = [TextPart(join_parts(part.text or "", rest.text or "")), *rest.tool_calls]
    elif rest.tool_calls and repeated_report is None:
        parts = list(rest.parts)
    else:
        parts = [continue_call(report, str(repeated_report.args) if repeated_report else rest.text or "")]
    return replace(rest, parts=parts, metadata={"parts": count_parts(part) + 1})


def continue_call(call: ToolCallPart[Any], rest: str) -> ToolCallPart[Any]:
    return replace(call, args=join_json(str(call.args), rest))
