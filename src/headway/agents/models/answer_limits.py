"""Limits on one answer of a model: its size, its duration and its number of tool calls. Also its usage, where it reports none."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from headway.agents.transcripts.tokens import CHARACTERS_PER_TOKEN, estimate_message, estimate_parameters

MAX_CALLS: Final = 64  # tool calls in one answer
MAX_CALLS_READ: Final = 2 * MAX_CALLS  # the rest of an answer with more is not read
MAX_BYTES: Final = 1_000_000  # of text, thinking and arguments
MAX_TIMEOUTS: Final = 5  # a streaming answer may take this many times HEADWAY_MODEL_TIMEOUT_S in total
REPEATED_LENGTH: Final = 3_000  # characters; an answer that ends with as many repetitions of a short piece is stopped
MAX_PERIOD: Final = 300  # characters of that piece
CHECK_INTERVAL: Final = 500  # characters
CALL_MARK: Final = '"arguments":'  # of a tool call written as text
MAX_TEXT_CALLS: Final = 8  # in the last REPEATED_LENGTH characters; a model that writes more often does not stop by itself
DROPPED_CALLS: Final = "dropped_calls"  # the key in a response's metadata
CALL_DETAILS: Final = {"finish_reason": "tool_calls"}


class AnswerTooSlow(TimeoutError):
    """The answer did not end in time"""


class AnswerMeter:
    """Measures an answer while it streams."""

    def __init__(self, timeout_s: float, begins_at: float) -> None:
        self.seconds = MAX_TIMEOUTS * timeout_s
        self.ends_at = begins_at + self.seconds
        self.size = 0
        self.calls = 0
        self.has_begun = False
        self.has_content = False
        self.tail = ""  # the last characters, which are checked for repetition
        self.unchecked = 0

    def must_stop(self, event: object, now: float) -> bool:
        """Count the event, and return whether the answer has reached a limit.

        An answer that is too slow and has sent only thinking is a failure, because there is nothing to continue.
        """
        text, is_content = extract_content(event)
        self.has_begun = True
        self.calls += isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart)
        self.size += len(text.encode("utf-8", "surrogatepass"))
        self.has_content = self.has_content or (is_content and bool(text))
        if now > self.ends_at and not self.has_content:
            raise AnswerTooSlow
        is_text = isinstance(event, PartStartEvent | PartDeltaEvent) and is_content and not is_call(event)
        is_over = self.size > MAX_BYTES or now > self.ends_at or self.has_too_many_calls
        return is_over or (is_text and self.is_repeating(text))

    @property
    def has_too_many_calls(self) -> bool:
        return self.calls > MAX_CALLS_READ

    def is_repeating(self, text: str) -> bool:
        """Return whether the answer repeats itself, or lists call after call. A small model does so until the length limit."""
        self.tail = (self.tail + text)[-REPEATED_LENGTH:]
        self.unchecked += len(text)
        if self.unchecked < CHECK_INTERVAL:
            return False
        self.unchecked = 0
        has_period = len(self.tail) == REPEATED_LENGTH and find_period(self.tail) is not None
        return has_period or self.tail.count(CALL_MARK) >= MAX_TEXT_CALLS

    def cut_off(self, response: ModelResponse) -> ModelResponse:
        """Return the part that was received as an answer that the length limit cut off. One with enough calls is whole."""
        # Some providers report the usage so far at the beginning of the stream.
        usage = replace(response.usage, output_tokens=max(response.usage.output_tokens, self.size // CHARACTERS_PER_TOKEN))
        if self.has_too_many_calls:
            return replace(response, finish_reason="tool_call", state="complete", provider_details=CALL_DETAILS, usage=usage)
        details = {**(response.provider_details or {}), "finish_reason": "length"}
        return replace(response, finish_reason="length", state="complete", provider_details=details, usage=usage)


def find_period(text: str) -> int | None:
    """Return the length of the piece of which the whole text consists, if it is a short one."""
    return next((period for period in range(1, MAX_PERIOD + 1) if text[period:] == text[:-period]), None)


def is_call(event: PartStartEvent | PartDeltaEvent) -> bool:
    """Whether an event belongs to a tool call. Its arguments, such as a file's content, may repeat themselves."""
    return isinstance(event.part if isinstance(event, PartStartEvent) else event.delta, ToolCallPart | ToolCallPartDelta)


def extract_content(event: object) -> tuple[str, bool]:
    """Return the text that an event adds to the answer, and whether it is more than thinking."""
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text, True
        case PartStartEvent(part=ToolCallPart(args=arguments)) | PartDeltaEvent(delta=ToolCallPartDelta(args_delta=arguments)):
            return arguments if isinstance(arguments, str) else json.dumps(arguments or {}), True
        case PartStartEvent(part=ThinkingPart(content=text)) | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)):
            return text or "", False
    return "", False


def limit_calls(response: ModelResponse) -> ModelResponse:
    """Keep the first tool calls of an answer, and record how many were dropped."""
    calls = response.tool_calls
    if len(calls) <= MAX_CALLS:
        return response
    dropped = {id(call) for call in calls[MAX_CALLS:]}
    parts = [part for part in response.parts if id(part) not in dropped]
    return replace(response, parts=parts, metadata={**(response.metadata or {}), DROPPED_CALLS: len(dropped)})


def build_unread_answer(size: int) -> ModelResponse:
    """Build an answer of so many bytes, which the model wrote although nothing of it was parsed."""
    return ModelResponse([], usage=RequestUsage(output_tokens=size // CHARACTERS_PER_TOKEN))


def fill_in_usage(response: ModelResponse, messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> RequestUsage:
    """Return the usage that the provider reported, with an estimate of what it left out. Most report at the end of the stream, so
    an answer that was cut off has no number of input tokens."""
    usage = response.usage
    input_tokens = usage.input_tokens or estimate_parameters(parameters) + sum(map(estimate_message, messages))
    return replace(usage, input_tokens=input_tokens, output_tokens=usage.output_tokens or estimate_message(response))
