"""Connections to providers: limits on answers, and the differences between servers of one dialect."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError
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
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from headway.agents.transcripts.transcript import CHARACTERS_PER_TOKEN, estimate_message, estimate_parameters

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


# Where a model is called and why it could not be reached, in words.


TIMEOUT_SETTING: Final = "HEADWAY_MODEL_TIMEOUT_S"


class Endpoint(NamedTuple):
    """The model as error messages name it."""

    name: str
    address: str  # empty if the model has none
    timeout_s: float

    def __str__(self) -> str:
        return f"The model {self.name}{self.location}"

    @property
    def location(self) -> str:
        return f" at {self.address}" if self.address else ""

    def describe_timeout(self) -> str:
        return f"{self} did not answer in time: it sent nothing for {self.timeout_s:g} s ({TIMEOUT_SETTING})."

    def describe_slow_answer(self) -> str:
        limit = f"{MAX_TIMEOUTS * self.timeout_s:g} s, {MAX_TIMEOUTS} times {TIMEOUT_SETTING}"
        return f"{self} did not end its answer in time: the limit is {limit}."


def find_endpoint(model: Model, name: str, timeout_s: float) -> Endpoint:
    return Endpoint(name, format_address(model.base_url or ""), timeout_s)


def format_address(url: str) -> str:
    """Return the URL without user, password, query and fragment, which may hold a key."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}" if host else ""


def find_cause(error: BaseException) -> str:
    """Return the operating system's reason for a failed connection, in its words; empty if it gave none."""
    seen: BaseException | None = error
    reason = ""
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno is not None:
            # The text of a connection error may quote the address instead of the reason.
            reason = os.strerror(seen.errno) if seen.errno > 0 else seen.strerror or ""
        seen = seen.__cause__ or seen.__context__
    return reason


# Recognise two refusals in the words of each provider: the request is too long, and the model cannot call tools.


TEXT_LIMIT: Final = 4_000  # characters
TOO_LONG: Final = re.compile(
    r"""
    context_length_exceeded                                         # OpenAI, Groq, Cerebras, llama-cpp-python
    | (exceeds|exceeded)\ the\ context\ window                      # OpenAI (Responses)
    | request\ too\ large\ for                                      # OpenAI, Groq: larger than the limit per minute
    | (prompt|input)\ (is\ )?too\ long                              # Anthropic, Bedrock, Fireworks, Ollama
    | exceed\ context\ limit                                        # Anthropic: with the room for the answer
    | request_too_large                                             # Anthropic: bytes
    | input\ token\ count.{0,60}exceeds                             # Google
    | exceeds\ the\ maximum\ number\ of\ tokens\ allowed            # Google
    | exceed_context_size_error | available\ context\ size          # llama-server
    | maximum\ context\ length | max(imum)?\ model\ length          # vLLM, OpenRouter, Mistral, DeepSeek
    | too\ long\ to\ fit\ into\ the\ model                          # vLLM
    | input\ length\ exceeds\ the\ (maximum\ )?context\ length      # Ollama
    | exceeded\ max\ context\ length                                # Ollama
    | reduce\ the\ length\ of\ the\ (messages|input|prompt)         # Groq, OpenAI
    | too\ large\ for\ model\ with                                  # Mistral
    | input\ tokens\ exceeded                                       # Bedrock
    | maximum\ prompt\ length                                       # xAI
    | prompt\ exceeds\ max\ length                                  # Z.AI
    | too\ many\ tokens:                                            # Cohere; without the colon it is a rate limit of Bedrock
    | tokens?`?\ \+\ `?max_new_tokens`?\ must\ be                   # Text Generation Inference, Together
    | loaded\ with\ context\ length\ of\ only | reached\ context\ length  # LM Studio
    """,
    re.IGNORECASE | re.VERBOSE,
)
LACKS_TOOLS: Final = re.compile(
    r"""
    (does\ not|doesn't|do\ not)\ support\ (native\ )?(tools?|function[\ -]calling)\b  # Ollama, Bedrock, DeepSeek
    | tools\ param\ requires\ --jinja | unsupported\ param:\ tools                        # llama-server
    | tool\ choice\ requires\ --enable-auto-tool-choice                                   # vLLM
    | no\ endpoints\ found\ that\ support\ tool\ use                                      # OpenRouter
    | (tool|function)\ calling`?\ is\ not\ (supported|enabled)                            # Groq, Google, Mistral
    | '?tools'?\ is\ not\ supported\ (with|in|by)\ this\ model                            # OpenAI
    | tool\ use\ (has\ not\ been\ enabled|is\ not\ (supported|enabled))                   # NVIDIA
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_too_long(error: Exception) -> bool:
    """Return whether the provider rejected the request because it has more tokens or bytes than the model takes."""
    return isinstance(error, ModelContextWindowExceededError) or bool(TOO_LONG.search(get_text(error)))


def lacks_tools(error: Exception) -> bool:
    """Return whether the provider rejected the request because its model or server has no function calling."""
    return bool(LACKS_TOOLS.search(get_text(error)))


def get_text(error: Exception) -> str:
    """Return the beginnings of the error's message and of its body, which may be long."""
    return f"{str(error)[:TEXT_LIMIT]} {str(error.body)[:TEXT_LIMIT]}" if isinstance(error, ModelAPIError) else ""
