"""Model calls that broke off after their answer had begun. Providers bill for these, so their runs pay for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headway.storage.stores.spending import ModelCall

BROKEN_CALLS: ContextVar[list[ModelCall] | None] = ContextVar("the broken calls of the current work", default=None)


@contextmanager
def collect_broken_calls() -> Iterator[list[ModelCall]]:
    """Yield a list that gets the broken calls of the work in the context."""
    calls: list[ModelCall] = []
    token = BROKEN_CALLS.set(calls)
    try:
        yield calls
    finally:
        BROKEN_CALLS.reset(token)


def report_broken_call(call: ModelCall) -> None:
    calls = BROKEN_CALLS.get()
    if calls is not None and call.cost:
        calls.append(call)
