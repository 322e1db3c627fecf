"""Records what is sent to Postgres."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from headway.storage.clocks import SERVER_TIME_SQL
from headway.storage.postgres.wire import Wire


class SentTransaction(NamedTuple):
    statements: list[str]
    round_trips: int

    def has(self, text: str) -> bool:
        return any(text in statement for statement in self.statements)


class SentStatements:
    """What this process has sent, by thread, because each thread has a connection. An empty string is a wait for replies."""

    def __init__(self) -> None:
        self.by_thread: dict[int, list[str]] = defaultdict(list)

    def note(self, statement: str) -> None:
        self.by_thread[threading.get_ident()].append(statement)

    @property
    def round_trips(self) -> int:
        return sum(sent.count("") for sent in self.by_thread.values())

    def list_transactions(self) -> list[SentTransaction]:
        """Return the transactions, each with the announcement that follows it. The clock is read between them, once a second."""
        found: list[list[str]] = []
        for sent in self.by_thread.values():
            for statement in sent:
                if statement.startswith((SERVER_TIME_SQL, "BEGIN")):
                    found.append([])
                if found and (statement or found[-1][-1]):  # a second wait in a row is for the reply to an announcement
                    found[-1].append(statement)
        return [SentTransaction([text for text in sent if text], sent.count("")) for sent in found if sent[0].startswith("BEGIN")]


@contextmanager
def trace_statements() -> Iterator[SentStatements]:
    sent = SentStatements()
    Wire.trace = sent.note
    try:
        yield sent
    finally:
        Wire.trace = None
