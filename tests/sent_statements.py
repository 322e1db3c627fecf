"""Records what is sent to Postgres."""

from collections.abc import Iterator
from contextlib import contextmanager

from headway.storage.postgres.wire import Wire


@contextmanager
def trace_statements() -> Iterator[list[str]]:
    """Collect the statements that this process sends, with an empty string for each wait for replies."""
    sent: list[str] = []
    Wire.trace = sent.append
    try:
        yield sent
    finally:
        Wire.trace = None
