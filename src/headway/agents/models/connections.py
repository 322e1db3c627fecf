"""Where a model is called and why it could not be reached, in words."""

import os
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pydantic_ai.models import Model

from headway.agents.models.answer_limits import MAX_TIMEOUTS

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
