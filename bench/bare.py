"""References for SQLite: the same statements, on the same library with the same settings, and nothing around them."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import apsw

from headway.ledger.events import Event
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.storage.todo_store import APPEND, INSERT
from headway.storage.transaction import INSERT_EVENT, Dialect, Row, Transaction, Work

T = TypeVar("T")
Execute = Callable[..., apsw.Cursor]

SUBJECT = "write the quarterly report"
DRAFT = Draft(SUBJECT)
# As long as the event that tells of such a todo.
EVENT_DATA = "x" * 380
NOW = 1_700_000_000_000


def connect(path: str) -> Execute:
    connection = apsw.Connection(path)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cache_size=-32000")
    return connection.cursor().execute


def todo_values(uuid: str, tenant_id: int, position: Any) -> tuple[str | int | None, ...]:
    """What todo_store.INSERT stores of a plain pending todo."""
    return (uuid, tenant_id, 0, None, "index", SUBJECT, "", "", None, "pending", position, None, NOW, NOW, 0, 0, 0)


def create(execute: Execute, tenant_id: int, count: int) -> None:
    """A todo, its event and its list's counter, each committed durably."""
    for _ in range(count):
        execute("BEGIN IMMEDIATE")
        [(position,)] = execute(APPEND["pending"], (tenant_id, 0, "", 2)).fetchall()
        execute(INSERT, todo_values(os.urandom(16).hex(), tenant_id, position)).fetchall()
        execute(INSERT_EVENT, (tenant_id, 0, None, "todo_changed", EVENT_DATA, NOW))
        execute("COMMIT")


class Statement(NamedTuple):
    sql: str
    parameters: tuple[Any, ...]


class Recorder:
    """A transaction that remembers what was asked of it."""

    def __init__(self, inner: Transaction) -> None:
        self.inner = inner
        self.statements: list[Statement] = []

    @property
    def dialect(self) -> Dialect:
        return self.inner.dialect

    @property
    def now(self) -> int:
        return self.inner.now

    def one(self, sql: str, *parameters: Any) -> Row | None:
        self.statements.append(Statement(sql, parameters))
        return self.inner.one(sql, *parameters)

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        self.statements.append(Statement(sql, parameters))
        return self.inner.all(sql, *parameters)

    def run(self, sql: str, *parameters: Any) -> None:
        self.statements.append(Statement(sql, parameters))
        self.inner.run(sql, *parameters)

    def emit(self, event: Event) -> None:
        self.inner.emit(event)


def statements_of(database: DirectDatabase, work: Work[T]) -> list[Statement]:
    """The statements a read makes."""

    def recorded(tx: Transaction) -> list[Statement]:
        recorder = Recorder(tx)
        work(recorder)
        return recorder.statements

    return database.read(recorded)


def read(execute: Execute, statements: list[Statement], count: int) -> None:
    for _ in range(count):
        execute("BEGIN")
        for sql, parameters in statements:
            execute(sql, parameters).fetchall()
        execute("COMMIT")
