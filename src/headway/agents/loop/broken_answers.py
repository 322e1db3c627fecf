"""Answers that the provider broke off: malformed tool calls are asked for again, refusals and filtered answers end the run."""

from typing import Final

from pydantic_ai.messages import ModelResponse

from headway.agents.instructions import prompts
from headway.agents.loop.requests import Stop
from headway.agents.loop.step import Step, list_open_items
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
