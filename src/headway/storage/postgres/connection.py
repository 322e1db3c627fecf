"""Postgres through psycopg, with a connection that reconnects and that reports when it cannot know whether a commit succeeded."""

import random
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from headway.ledger.errors import CommitUncertain, HeadwayError
from headway.ledger.events import Event
from headway.storage import id_ranges
from headway.storage.clocks import Clock, ServerClock, no_drift, wall_clock
from headway.storage.postgres.failures import CONNECTION_ERRORS, FINAL_ERRORS, RETRYABLE_ERRORS, to_headway_error
from headway.storage.postgres.opening import SET_IDLE_TIMEOUT, check_url, open_connection
from headway.storage.postgres.pooling import UNPREPARED_ERRORS, may_prepare, stop_preparing
from headway.storage.transaction import (
    EVENT_COLUMNS,
    EVENTS_PER_INSERT,
    POSTGRES,
    CommitListener,
    Dialect,
    LoggedTransaction,
    Row,
    UsageMeter,
    Work,
    WorkOutcome,
    is_read_statement,
    notify_listener,
)

T = TypeVar("T")

CHANNEL = "headway_events"
BEGIN_READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
ATTEMPTS = 6


@cache
def build_insert_events(count: int) -> str:
    """Build one statement that takes `count` sequence numbers of a tenant and inserts as many events. Its first parameters are the
    tenant and the bytes that are stored with them. If the tenant's range of numbers has no room, it inserts nothing."""
    names = EVENT_COLUMNS.removeprefix("seq, ")
    rows = ", ".join(f"({place}, ?, ?, ?, ?, ?, ?, ?, ?)" for place in range(count))
    return f"""WITH taken AS (
            UPDATE id_ranges SET next = next + {count}, bytes = bytes + ?
            WHERE tenant_id = ? AND kind = 'events' AND next + {count} <= ends AND bytes IS NOT NULL
            RETURNING next - {count} AS first, bytes)
        INSERT INTO events ({EVENT_COLUMNS}) SELECT taken.first + news.place, {names}
        FROM taken, (VALUES {rows}) news (place, {names}) RETURNING (SELECT bytes FROM taken)"""


@cache
def translate_sql(sql: str) -> bytes:
    """Translate a statement to psycopg's syntax. There are few statements, so the results are cached."""
    return sql.replace("%", "%%").replace("?", "%s").encode()


class PostgresTransaction(LoggedTransaction):
    """A transaction that begins with its first statement, in one round trip with the setting for row-level security."""

    __slots__ = ("_begin", "_cursor", "begun")

    dialect: Dialect = POSTGRES

    def __init__(self, cursor: psycopg.Cursor[Row], now: int, begin: str) -> None:
        self._cursor = cursor
        self._begin = begin
        self.begun = False
        super().__init__(now, no_drift, read_only=begin is BEGIN_READ_ONLY)

    def one(self, sql: str, *parameters: Any) -> Row | None:
        return self._execute(sql, parameters).fetchone()

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        return self._execute(sql, parameters).fetchall()

    def run(self, sql: str, *parameters: Any) -> None:
        self._execute(sql, parameters)

    def _execute(self, sql: str, parameters: tuple[Any, ...]) -> psycopg.Cursor[Row]:
        if not self.begun:
            self.begun = True
            # `visible` is a number or a constant. SET LOCAL ends with the transaction, so a pooled connection keeps nothing of it.
            begin = f"{self._begin}; SET LOCAL headway.tenant = '{self.visible}'; {SET_IDLE_TIMEOUT}"
            self._cursor.execute(begin.encode(), prepare=False)  # several statements cannot be prepared as one
        if self.unset and not is_read_statement(sql):
            self.set_savepoints()
        return self._cursor.execute(translate_sql(sql), parameters)

    def show(self, visible: str) -> None:
        if self.begun and visible != self.visible:
            self.run("SELECT set_config('headway.tenant', ?, true)", visible)
        super().show(visible)

    def stream(self, sql: str, *parameters: Any) -> Iterator[Row]:
        yield from self._cursor.stream(translate_sql(sql), parameters)

    def append_events(self, tenant_id: int, events: list[Event]) -> None:
        """Number and insert events of one tenant, a few of them in one round trip. The row that has the tenant's next number stays
        locked until commit, so that a reader that has reached a number has missed none before it. This is the transaction's last
        step, which keeps the lock short and free of deadlocks."""
        if len(events) > EVENTS_PER_INSERT:
            super().append_events(tenant_id, events)
            return
        values = tuple(chain.from_iterable(self.build_event_rows(events)))
        new = self.take_bytes(tenant_id, events)
        while (row := self.one(build_insert_events(len(events)), sum(new), tenant_id, *values)) is None:
            id_ranges.open_event_range(self, tenant_id, new)
        self.meter.stored[tenant_id] = int(row[0])

    def run_with_lock_timeout(self, wait_ms: int, work: Work[T], timeout_error: HeadwayError) -> T:
        self.set_savepoints()  # a lock timeout aborts a Postgres transaction; a savepoint lets the caller continue after it
        self.run("SELECT set_config('lock_timeout', ?, true)", str(wait_ms))
        try:
            value = work(self)
        except errors.LockNotAvailable as error:
            raise timeout_error from error
        self.run("SET LOCAL lock_timeout TO DEFAULT")
        return value


class PostgresConnection:
    """One connection, opened on first use and reopened after it breaks."""

    def __init__(self, url: str, clock: Clock, on_commit: CommitListener, meter: UsageMeter | None = None) -> None:
        self.url = check_url(url)
        self.meter = meter or UsageMeter()
        self.clock = clock
        self.server_clock = ServerClock() if clock is wall_clock else None
        self.on_commit = on_commit
        self.raw: psycopg.Connection[Row] | None = None

    def read(self, work: Work[T]) -> T:
        return self._run_with_retries(lambda raw: self._run(raw, work, BEGIN_READ_ONLY))

    def write(self, work: Work[T]) -> T:
        return self._run_with_retries(lambda raw: self._run(raw, work, "BEGIN"))

    def write_group(self, works: list[Work[Any]]) -> list[WorkOutcome]:
        outcomes = []
        for work in works:
            try:
                outcomes.append(WorkOutcome(self.write(work)))
            except Exception as error:  # noqa: BLE001  returned to its caller; the rest of the group is not affected
                outcomes.append(WorkOutcome(error=error))
        return outcomes

    def erase_deleted(self) -> None:
        """Do nothing: the server's autovacuum reuses the space of deleted rows."""

    def close(self) -> None:
        if self.raw is not None:
            self.raw.close()
            self.raw = None

    def _get_connection(self) -> psycopg.Connection[Row]:
        if self.raw is None or self.raw.closed:
            self.raw = open_connection(self.url)
        if not may_prepare(self.url):
            self.raw.prepare_threshold = None
        return self.raw

    def _run(self, raw: psycopg.Connection[Row], work: Work[T], begin: str) -> T:
        with raw.cursor() as cursor:
            now = self._now(cursor)  # before BEGIN, so that a failed query leaves no transaction open
            transaction = PostgresTransaction(cursor, now, begin)
            transaction.meter = self.meter
            try:
                value = work(transaction)
                transaction.finish()
            except BaseException:
                if transaction.begun and not raw.closed:
                    cursor.execute("ROLLBACK")
                raise
            try:
                if transaction.begun:
                    cursor.execute("COMMIT")
            except psycopg.OperationalError as error:
                raise CommitUncertain from error
            notify_listener(self.on_commit, transaction.events)
            notify_processes(cursor, transaction.events)
        return value

    def _now(self, cursor: psycopg.Cursor[Row]) -> int:
        """Read the server's clock, because the clocks of the machines that share a database may differ or jump."""
        if self.server_clock is None:
            return self.clock()

        def ask(sql: str) -> int:
            row = cursor.execute(sql.encode()).fetchone()
            assert row is not None
            return int(row[0])

        return self.server_clock.now(ask)

    def _run_with_retries(self, step: Callable[[psycopg.Connection[Row]], T]) -> T:
        """Retry work that was certainly not committed, because of a conflict or a lost connection."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return step(self._get_connection())
            except (*RETRYABLE_ERRORS, *CONNECTION_ERRORS) as error:
                if isinstance(error, FINAL_ERRORS) or attempt == ATTEMPTS:
                    raise to_headway_error(error) from error
                if not isinstance(error, RETRYABLE_ERRORS):
                    self.close()
                time.sleep(min(1.0, 0.02 * 2**attempt) * random.uniform(0.5, 1.5))  # noqa: S311  not security-relevant
            except UNPREPARED_ERRORS as error:
                if attempt == ATTEMPTS:
                    raise to_headway_error(error) from error
                stop_preparing(self.url)  # a pooler gives this client's statements to connections that other clients prepare
                self.close()
            except psycopg.Error as error:
                raise to_headway_error(error) from error
        raise AssertionError("unreachable")


def notify_processes(cursor: psycopg.Cursor[Row], events: list[Event]) -> None:
    """Notify other processes of new events. This runs after the commit, because a NOTIFY inside the transaction would serialize all
    commits on the server behind one lock. If a notification is lost, readers still find the events by polling."""
    tenants = {event.tenant_id for event in events}
    try:
        if tenants:
            cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, ",".join(map(str, tenants))))
    except psycopg.Error:
        return  # the commit succeeded, and the next use reopens the connection
