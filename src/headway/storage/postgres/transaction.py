"""A transaction on Postgres. Writes are queued, and travel with the next read or with COMMIT."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from headway.ledger.errors import HeadwayError
from headway.ledger.events import Event
from headway.storage.logged_transaction import EVENT_COLUMNS, EVENTS_PER_INSERT, LoggedTransaction, is_read_statement
from headway.storage.postgres.server_clock import ServerTime
from headway.storage.postgres.wire import Wire
from headway.storage.transaction import POSTGRES, Dialect, ProcessState, Query, Row, Work

T = TypeVar("T")

CHANNEL = "headway_events"
SOURCE_MARK = "@"  # precedes the name of the process that sends an announcement
JOBS_MARK = "jobs"  # stands in announcements of commits after which a job may have become due
JOB_TABLES = ("jobs", "schedules", "halts")
BEGIN = Query("BEGIN")
BEGIN_READ_ONLY = Query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
# A process that freezes during a transaction keeps its locks and blocks the takeover of its work. Transactions take milliseconds,
# so the server ends one that stays idle for this long. Both settings end with the transaction: a pooled connection keeps nothing.
IDLE_IN_TRANSACTION_MS = 5_000
SETTINGS = f"""SELECT set_config('headway.tenant', ?, true),
    set_config('idle_in_transaction_session_timeout', '{IDLE_IN_TRANSACTION_MS}', true)"""


@cache
def build_insert_events(count: int) -> str:
    """Build one statement that takes `count` sequence numbers of a tenant and inserts as many events. Its first parameters are the
    bytes that are stored with them, and the tenant. If the tenant's range of numbers has no room, it fails: there is no number."""
    names = EVENT_COLUMNS.removeprefix("seq, ")
    rows = ", ".join(f"({index}, ?, ?, ?, ?, ?, ?, ?, ?)" for index in range(count))
    return f"""WITH taken AS (
            UPDATE id_ranges SET next = next + {count}, bytes = bytes + ?
            WHERE tenant_id = ? AND kind = 'events' AND next + {count} <= ends AND bytes IS NOT NULL
            RETURNING next - {count} AS first, bytes)
        INSERT INTO events ({EVENT_COLUMNS}) SELECT taken.first + news.number, {names}
        FROM (VALUES {rows}) news (number, {names}) LEFT JOIN taken ON true RETURNING (SELECT bytes FROM taken)"""


@cache
def join_statements(*statements: str) -> str:
    """Write several changes as one statement. The last one is its main part."""
    parts = ", ".join(f"part_{number} AS ({statement})" for number, statement in enumerate(statements[:-1]))
    return f"WITH {parts} {statements[-1]}" if parts else statements[0]


class PostgresTransaction(LoggedTransaction):
    """A transaction that begins with its first statement."""

    __slots__ = ("_begin", "begun", "opens_ranges", "wire")

    dialect: Dialect = POSTGRES

    def __init__(self, wire: Wire, now: ServerTime, begin: Query, process: ProcessState, *, opens_ranges: bool = False) -> None:
        super().__init__(now.now, lambda _tx: now.drift, process, read_only=begin is BEGIN_READ_ONLY)
        self.wire = wire
        self.begun = False
        self.opens_ranges = opens_ranges  # the last attempt found that a tenant has no number left for its events
        self._begin = begin

    def one(self, sql: str, *parameters: Any) -> Row | None:
        rows = self.fetch(Query(sql, parameters))[0]
        return rows[0] if rows else None

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        return self.fetch(Query(sql, parameters))[0]

    def run(self, sql: str, *parameters: Any) -> None:
        self.prepare(sql)
        self.wire.queue(Query(sql, parameters))

    def fetch(self, *queries: Query) -> list[list[Row]]:
        for query in queries:
            self.prepare(query.sql)
        return self.wire.fetch(*queries)

    def run_together(self, *queries: Query) -> None:
        self.run(join_statements(*(query.sql for query in queries)), *chain.from_iterable(query.parameters for query in queries))

    def stream(self, sql: str, *parameters: Any) -> Iterator[Row]:
        self.prepare(sql)
        return self.wire.stream(Query(sql, parameters))

    def copy(self, sql: str) -> AbstractContextManager[psycopg.Copy]:
        """Run COPY … TO STDOUT or COPY … FROM STDIN."""
        self.prepare(sql)
        return self.wire.copy(sql)

    def prepare(self, sql: str) -> None:
        """Queue what has to precede a statement."""
        if not self.begun:
            self.begun = True
            self.wire.queue(self._begin)
            self.wire.queue(Query(SETTINGS, (self.visible,)))
        if not is_read_statement(sql):
            self.before_write(sql)

    def show(self, visible: str) -> None:
        if self.begun and visible != self.visible:
            self.run("SELECT set_config('headway.tenant', ?, true)", visible)
        super().show(visible)

    def append_events(self, tenant_id: int, events: list[Event]) -> None:
        """Number and insert events of one tenant, a few of them in one statement that travels with COMMIT.

        The row that has the tenant's next number stays locked until commit, so that a reader that has reached a number has missed
        none before it. This is the transaction's last step, which keeps the lock short and free of deadlocks.
        """
        if len(events) > EVENTS_PER_INSERT or self.opens_ranges:
            super().append_events(tenant_id, events)
            return
        new = self.take_bytes(tenant_id, events)
        values = tuple(chain.from_iterable(self.build_event_rows(events)))
        query = Query(build_insert_events(len(events)), (sum(new), tenant_id, *values))

        def note_bytes(rows: list[Row]) -> None:
            self.process.stored[tenant_id] = int(rows[0][0])

        self.prepare(query.sql)
        self.wire.queue(query, note_bytes)

    def try_read(self, work: Work[T]) -> T | None:
        def read(tx: Any) -> T:
            value = work(tx)
            self.wire.flush()  # a statement that fails must do so here
            return value

        self.wire.flush()
        return super().try_read(read)

    def run_with_lock_timeout(self, wait_ms: int, work: Work[T], timeout_error: HeadwayError) -> T:
        self.set_savepoints()  # a lock timeout aborts a Postgres transaction; a savepoint lets the caller continue after it
        self.run("SELECT set_config('lock_timeout', ?, true)", str(wait_ms))
        try:
            value = work(self)
            self.wire.flush()
        except errors.LockNotAvailable as error:
            raise timeout_error from error
        self.run("SET LOCAL lock_timeout TO DEFAULT")
        return value
