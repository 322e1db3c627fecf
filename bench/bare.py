"""References for SQLite: the same statements on the same library with the same settings, and nothing around them."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import apsw

from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.storage.logged_transaction import INSERT_EVENT, TAKE, build_insert
from headway.storage.sqlite_connection import SqliteConnection
from headway.storage.stores.todos import TODOS, build_append_to_list, build_todo
from headway.storage.transaction import Transaction, Work

T = TypeVar("T")
Execute = Callable[..., apsw.Cursor]

SUBJECT = "write the quarterly report"
DRAFT = Draft(SUBJECT)
# As long as the event that announces such a todo.
EVENT_DATA = "x" * 380
NOW = 1_700_000_000_000
IDS = 1_000_000_000
INSERT, INSERT_ON_POSTGRES = build_insert("todos", TODOS, ("blocked_by", "tenant_id"))
POSITION = TODOS.names.index("position")
VALUES = TODOS.dump(build_todo(DRAFT, "", 0, NOW))


def connect(path: str) -> Execute:
    connection = apsw.Connection(path)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cache_size=-32000")
    return connection.cursor().execute


def todo_values(uuid: str, tenant_id: int, position: Any) -> tuple[str | int | None, ...]:
    """Return the values that todo_store.insert stores for a plain pending todo."""
    return (uuid, *VALUES[2:POSITION], position, *VALUES[POSITION + 1 :], 0, tenant_id)


def event_values(tenant_id: int) -> tuple[str | int | None, ...]:
    """Return the values of an event, without its number."""
    return (tenant_id, 0, None, "todo:1", "", "todo_changed", EVENT_DATA, NOW)


def reserve_ids(tx: Transaction, tenant_id: int) -> None:
    """Give the tenant a range of ids that no benchmark uses up."""
    for kind in ("conversations", "todos", "events"):
        sql = """INSERT INTO id_ranges (tenant_id, kind, next, ends) VALUES (?, ?, ?, ?)
            ON CONFLICT (tenant_id, kind) DO UPDATE SET next = excluded.next, ends = excluded.ends"""
        tx.run(sql, tenant_id, kind, tenant_id * IDS + 1, (tenant_id + 1) * IDS)


def create(execute: Execute, tenant_id: int, count: int) -> None:
    """Insert todos with their event and their list's counter, each in a durable commit."""
    for _ in range(count):
        execute("BEGIN IMMEDIATE")
        [(position,)] = execute(build_append_to_list("pending"), (tenant_id, 0, "", None, 1)).fetchall()
        [(todo_id,)] = execute(TAKE, (1, tenant_id, "todos", 1, 1)).fetchall()
        execute(INSERT, (todo_id, *todo_values(os.urandom(18).hex(), tenant_id, position)))
        [(seq,)] = execute(TAKE, (1, tenant_id, "events", 1, 1)).fetchall()
        execute(INSERT_EVENT, (seq, *event_values(tenant_id)))
        execute("COMMIT")


class Statement(NamedTuple):
    sql: str
    parameters: tuple[Any, ...]


def statements_of(database: DirectDatabase, work: Work[T]) -> list[Statement]:
    """Return the statements that a read sends to SQLite."""
    connection = database.connection
    assert isinstance(connection, SqliteConnection)
    seen: list[Statement] = []

    def remember(_cursor: apsw.Cursor, sql: str, parameters: Any) -> bool:
        seen.append(Statement(sql, parameters))
        return True

    connection.raw.exec_trace = remember
    database.read(work)
    connection.raw.exec_trace = None
    return seen


def read(execute: Execute, statements: list[Statement], count: int) -> None:
    for _ in range(count):
        for sql, parameters in statements:
            execute(sql, parameters).fetchall()
