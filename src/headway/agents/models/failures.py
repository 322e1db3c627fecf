"""Explains the failures of providers, without the keys that they quote."""

import re
from itertools import pairwise
from typing import Final

from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from headway.agents.models.capture import MalformedAnswer, ReceivedBody
from headway.agents.models.connections import AnswerTooSlow, Endpoint, find_cause
from headway.agents.transcripts import transcript
from headway.ledger.text import Redactor, to_one_line

# Texts that start like a key, or stand where a key stands.
KEY_SHAPE: Final = re.compile(
    r"\b(?:sk|pk|rk|gsk|csk|fw|ghp|gho|ghu|ghs|ghr|github_pat|glpat|hf|hw|nvapi|pplx|r8|tgp|xai)[-_][\w*.+/=-]{6,}"
    r"|\bAIza[\w*-]{6,}|\bAKIA[A-Z0-9]{8,}|\bya29\.[\w-]+|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
    r"|(?<=Bearer )[^\s\"',;]{6,}|(?<=[?&]key=)[^\s\"'&]{6,}",
)
# A word without dots: names of models, hosts and paths consist of short words, a key has a long one of letters and digits.
WORD: Final = re.compile(r"[\w+/=*-]{20,}", re.ASCII)
SEGMENT: Final = re.compile(r"[A-Za-z0-9]+")
LONG_SEGMENT, MEDIUM_SEGMENT = 16, 12  # characters


def hide_keys(text: str, allowed: str = "") -> str:
    """Replace everything that looks like a key with an ellipsis, except what is part of `allowed`."""

    def hide(match: re.Match[str]) -> str:
        return match[0] if match[0] in allowed else "…"

    return WORD.sub(lambda match: hide(match) if has_random_segment(match[0]) else match[0], KEY_SHAPE.sub(hide, text))


def has_random_segment(word: str) -> bool:
    """Return whether letters and digits alternate in a part of the word, as they do in keys and not in names."""
    return any(is_random(segment) for segment in SEGMENT.findall(word))


def is_random(segment: str) -> bool:
    changes = sum(first.isdigit() != second.isdigit() for first, second in pairwise(segment))
    return changes >= 1 if len(segment) >= LONG_SEGMENT else changes >= 2 and len(segment) >= MEDIUM_SEGMENT


# Failures of model calls: validate answers, decide whether to retry, and describe the failure without exposing keys.


TRANSIENT_ERRORS: Final = (
    ModelRateLimitError,
    ModelUnavailableError,
    ModelServerError,
    ModelConnectionError,
    ModelRequestTimeout,
    OSError,  # includes TimeoutError
)
TRANSIENT_STATUSES: Final = (408, 409, 425, 429)
MESSAGE_LIMIT: Final = 500
READ_LIMIT: Final = 10_000  # characters of a provider's text that are read; more than the two limits around it
QUOTE_LIMIT: Final = 300  # characters quoted from the start of the response, and as many from its end
MAX_TOKENS: Final = 1_000_000_000  # upper bound for one call
ADVICE: Final = "Check the provider's address, the model's name and the provider's status, then try again."
RETRY_DELAY: Final = re.compile(r"'retryDelay': '(\d{1,9}(?:\.\d{1,9})?)s'")


class AnswerInterrupted(Exception):
    """The stream ended before the answer was complete"""


def check_answer(response: ModelResponse, received: ReceivedBody) -> None:
    """Reject a response that the provider's library accepted but that is not a valid answer, before it is stored or charged."""
    usage = response.usage
    if not is_plausible(usage):
        raise MalformedAnswer(f"It reports {usage.input_tokens} input and {usage.output_tokens} output tokens")
    if not received.has_begun:  # a model in this process
        return
    has_reason = response.finish_reason == "content_filter" or "finish_reason" in (response.provider_details or {})
    if not has_reason and not received.is_complete:
        raise AnswerInterrupted
    if not has_reason and not response.parts:
        raise MalformedAnswer
    if response.finish_reason == "tool_call" and not response.tool_calls:
        raise MalformedAnswer("It announces tool calls, but none of them has a name")
    transcript.decode(transcript.encode(response))  # must round-trip, or it could not be loaded from the journal


def is_plausible(usage: RequestUsage) -> bool:
    return all(isinstance(count, int) and 0 <= count <= MAX_TOKENS for count in (usage.input_tokens, usage.output_tokens))


def is_transient(error: Exception, received: ReceivedBody) -> bool:
    """Return whether a retry could succeed. A well-formed response that is not an answer would only be repeated."""
    if isinstance(error, ModelQuotaExceededError):
        return False
    if isinstance(error, ModelHTTPError):
        return isinstance(error, TRANSIENT_ERRORS) or error.status_code in TRANSIENT_STATUSES or error.status_code >= 500
    if isinstance(error, ModelAPIError) and error.in_stream:
        return True
    is_garbled = isinstance(error, ModelAPIError) and isinstance(error.__cause__, ValueError)  # could not be decoded
    is_intercepted = received.is_from_a_proxy and not isinstance(error, ModelAPIError)
    return is_garbled or is_intercepted or isinstance(error, (*TRANSIENT_ERRORS, AnswerInterrupted))


def is_request_at_fault(error: Exception) -> bool:
    """Return whether the provider rejected the request itself, so that another model must not be asked the same.

    A rejected key, an unknown model and an exhausted account are the fault of the configuration: a fallback may answer.
    """
    if isinstance(error, ModelAuthenticationError | ModelNotFoundError):
        return False
    return isinstance(error, ModelRequestRejectedError | ContentFilterError | UserError)


def find_requested_delay(error: Exception) -> float | None:
    """Return the number of seconds the provider asks us to wait: from the Retry-After header or, for Google, from the body."""
    if not isinstance(error, ModelAPIError):
        return None
    in_body = RETRY_DELAY.search(str(error.body))
    return error.retry_after if error.retry_after is not None or not in_body else float(in_body[1])


def describe_failure(endpoint: Endpoint, error: Exception, received: ReceivedBody, redact: Redactor) -> str:
    """Describe the failure for users. Anything that looks like a key is redacted, even if it is not a configured secret."""
    name = endpoint.name

    def quote(text: str) -> str:
        return hide_keys(" ".join(to_one_line(shorten(redact(text))).split()), allowed=name)

    endpoint = endpoint._replace(address=quote(endpoint.address))
    if isinstance(error, AnswerTooSlow):
        return endpoint.describe_slow_answer()
    if isinstance(error, TimeoutError | ModelTimeoutError):
        return endpoint.describe_timeout()
    message = quote(get_provider_message(error, received))[:MESSAGE_LIMIT].rstrip(".") or type(error).__name__
    if isinstance(error, ModelHTTPError):
        problem = "is rate limited" if isinstance(error, ModelRateLimitError) else "failed"
        return f"The model {name} {problem} (HTTP {error.status_code}): {message}."
    if isinstance(error, ModelConnectionError) and not received.has_begun:
        return f"The model {name} cannot be reached{endpoint.location}: {quote(find_cause(error)) or message}."
    if isinstance(error, UserError) or not received.has_begun:
        return f"The model {name} failed: {message}."
    body = quote(received.text)
    body = body if len(body) <= 2 * QUOTE_LIMIT else f"{body[:QUOTE_LIMIT]} … {body[-QUOTE_LIMIT:]}"
    return f"The model {name} failed: {message}. It sent {body or 'nothing'}. {ADVICE}"


def shorten(text: str) -> str:
    """Keep the beginning of a long text, so that looking for keys is quick. A word that is cut may be a key, and is left out."""
    if len(text) <= READ_LIMIT:
        return text
    whole_words, _, cut_word = text[:READ_LIMIT].rpartition(" ")
    return whole_words or cut_word


def get_provider_message(error: Exception, received: ReceivedBody) -> str:
    """Return the provider's own message if there is one, otherwise the library's."""
    if not isinstance(error, ModelAPIError | UnexpectedModelBehavior | UserError | OSError | AnswerInterrupted | MalformedAnswer):
        library_failure = f"Its library failed with {type(error).__name__}; see Headway's log"
        return MalformedAnswer.__doc__ or "" if received.has_begun else library_failure
    body = error.body if isinstance(error, ModelAPIError) else None
    if isinstance(body, dict):
        details = body.get("error", body)
        body = details.get("message") if isinstance(details, dict) else details
    return body if isinstance(body, str) and body.strip() else str(error) or error.__doc__ or ""
