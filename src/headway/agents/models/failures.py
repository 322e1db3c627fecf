"""Failures of model calls: validate answers, decide whether to retry, and describe the failure without exposing keys."""

import re
from typing import Final

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import ModelResponse

from headway.agents import transcript
from headway.agents.models.capture import ReceivedBody
from headway.ledger.redaction import Redactor
from headway.ledger.text import to_one_line

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
QUOTE_LIMIT: Final = 300  # characters quoted from the start of the response, and as many from its end
MAX_TOKENS: Final = 1_000_000_000  # upper bound for one call
ADVICE: Final = "Check the provider's address, the model's name and the provider's status, then try again."
RETRY_DELAY: Final = re.compile(r"'retryDelay': '(\d{1,9}(?:\.\d{1,9})?)s'")
# Anything that could be an API key, because providers quote the key they rejected.
SECRET_LIKE: Final = re.compile(r"(?=[A-Za-z_\-+/=.*]*\d)[A-Za-z0-9_\-+/=.*]{20,}")


class AnswerInterrupted(Exception):
    """The stream ended before the answer was complete"""


class MalformedAnswer(Exception):
    """Its response is not an answer in the provider's protocol"""


def check_answer(response: ModelResponse, received: ReceivedBody) -> None:
    """Reject a response that the provider's library accepted but that is not a valid answer, before it is stored or charged."""
    used = response.usage
    if not all(isinstance(count, int) and 0 <= count <= MAX_TOKENS for count in (used.input_tokens, used.output_tokens)):
        raise MalformedAnswer(f"It reports {used.input_tokens} input and {used.output_tokens} output tokens")
    if not received.begun:  # a model in this process
        return
    told_why = response.finish_reason == "content_filter" or "finish_reason" in (response.provider_details or {})
    if not told_why and not received.is_complete:
        raise AnswerInterrupted
    if not told_why and not response.parts:
        raise MalformedAnswer
    if response.finish_reason == "tool_call" and not response.tool_calls:
        raise MalformedAnswer("It announces tool calls, but none of them has a name")
    transcript.decode(transcript.encode(response))  # must round-trip, or it could not be loaded from the journal


def is_transient(error: Exception, received: ReceivedBody) -> bool:
    """Return whether a retry could succeed. A well-formed response that is not an answer would only be repeated."""
    if isinstance(error, ModelQuotaExceededError):
        return False
    if isinstance(error, ModelHTTPError):
        return isinstance(error, TRANSIENT_ERRORS) or error.status_code in TRANSIENT_STATUSES or error.status_code >= 500
    if isinstance(error, ModelAPIError) and error.in_stream:
        return True
    garbled = isinstance(error, ModelAPIError) and isinstance(error.__cause__, ValueError)  # could not be decoded
    intercepted = received.is_from_a_proxy and not isinstance(error, ModelAPIError)
    return garbled or intercepted or isinstance(error, (*TRANSIENT_ERRORS, AnswerInterrupted))


def find_requested_delay(error: Exception) -> float | None:
    """Return the number of seconds the provider asks us to wait: from the Retry-After header or, for Google, from the body."""
    if not isinstance(error, ModelAPIError):
        return None
    in_body = RETRY_DELAY.search(str(error.body))
    return error.retry_after if error.retry_after is not None or not in_body else float(in_body[1])


def describe_failure(name: str, error: Exception, received: ReceivedBody, hush: Redactor) -> str:
    """Describe the failure for users. Anything that looks like a key is redacted, even if it is not a configured secret."""

    def quote(words: str) -> str:
        words = " ".join(to_one_line(hush(words)).split())
        return SECRET_LIKE.sub(lambda found: found[0] if found[0] in name else "…", words)

    if isinstance(error, TimeoutError):
        return f"The model {name} did not answer in time."
    said = quote(get_provider_message(error, received))[:MESSAGE_LIMIT].rstrip(".") or type(error).__name__
    if isinstance(error, ModelHTTPError):
        what = "is rate limited" if isinstance(error, ModelRateLimitError) else "failed"
        return f"The model {name} {what} (HTTP {error.status_code}): {said}."
    if isinstance(error, UserError) or not received.begun:
        return f"The model {name} failed: {said}."
    sent = quote(received.text)
    sent = sent if len(sent) <= 2 * QUOTE_LIMIT else f"{sent[:QUOTE_LIMIT]} … {sent[-QUOTE_LIMIT:]}"
    return f"The model {name} failed: {said}. It sent {sent or 'nothing'}. {ADVICE}"


def get_provider_message(error: Exception, received: ReceivedBody) -> str:
    """Return the provider's own message if there is one, otherwise the library's."""
    if not isinstance(error, ModelAPIError | UnexpectedModelBehavior | UserError | OSError | AnswerInterrupted | MalformedAnswer):
        stumbled = f"Its library failed with {type(error).__name__}; see Headway's log"
        return MalformedAnswer.__doc__ or "" if received.begun else stumbled
    body = error.body if isinstance(error, ModelAPIError) else None
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message") if isinstance(inner, dict) else inner
    return body if isinstance(body, str) and body.strip() else str(error) or error.__doc__ or ""
