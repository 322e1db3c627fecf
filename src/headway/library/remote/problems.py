"""Turns the error responses of a server into the exceptions that the same call raises inside a program."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from headway.ledger import errors
from headway.ledger.errors import (
    CheckFailed,
    Closed,
    CommitUncertain,
    Conflict,
    Forbidden,
    Halted,
    HeadwayError,
    Invalid,
    KeyBusy,
    NotFound,
    QuotaExceeded,
    ServerFailed,
    Unauthorized,
    WrongCell,
)

# For codes that no class has: those of a newer server, and problems of the HTTP exchange itself.
BY_STATUS: Final[dict[int, type[HeadwayError]]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: QuotaExceeded,
}
PASSING: Final = (408, 429, 502, 503, 504)  # statuses of failures that may pass
LONGEST_SENTENCE: Final = 500


@cache
def list_kinds() -> dict[str, type[HeadwayError]]:
    """Return the classes of errors by their codes."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadwayError)]
    return {kind().code: kind for kind in kinds}


def build_error(status: int, body: bytes) -> HeadwayError:
    """Build the error of a response. One that is not from Headway, such as that of a proxy, is a ServerFailed."""
    try:
        document = json.loads(body)
        sentence, code = str(document["detail"]), str(document["code"])
    except (ValueError, KeyError, TypeError):
        text = body[:LONGEST_SENTENCE].decode(errors="replace").strip()
        return BY_STATUS.get(status, ServerFailed)(f"The server answered with status {status}{f': {text}' if text else '.'}")
    return build_known_error(list_kinds().get(code) or BY_STATUS.get(status, ServerFailed), sentence, document)


def build_known_error(kind: type[HeadwayError], sentence: str, document: Mapping[str, Any]) -> HeadwayError:
    if issubclass(kind, CheckFailed):
        return kind(sentence, document.get("failures", ()))
    if issubclass(kind, WrongCell):
        return kind(sentence, document.get("cell") or "", document.get("location") or "")
    return kind(sentence)


def may_pass(status: int, error: HeadwayError) -> bool:
    """Whether the same request may succeed in a moment."""
    if isinstance(error, KeyBusy):
        return True
    return status in PASSING and not isinstance(error, Halted | Closed) and error.code != "quota_exceeded"


def is_certain(error: HeadwayError) -> bool:
    """Whether a request that failed like this has surely changed nothing."""
    return not isinstance(error, CommitUncertain | ServerFailed)
