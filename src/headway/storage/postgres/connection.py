"""A Postgres connection that reconnects, runs work again that was certainly not committed, and says when it cannot know whether a
commit succeeded."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from headway.storage.clocks import Clock, wall_clock
from headway.storage.postgres.failures import Attempts, find_outage, to_headway_error
from headway.storage.postgres.opening import UNPREPARED_ERRORS, check_url, may_prepare, open_in_turn, stop_preparing
from headway.storage.postgres.server_clock import ServerClock, ServerTime
from headway.storage.postgres.transaction import (
    BEGIN,
    BEGIN_READ_ONLY,
    CHANNEL,
    JOB_TABLES,
    JOBS_MARK,
    SOURCE_MARK,
    PostgresTransaction,
)
from headway.storage.postgres.wire import Wire
from headway.storage.transaction import CommitListener, ProcessState, Query, Work, WorkOutcome, notify_listener

T = TypeVar("T")


class PostgresConnection:
    """One connection, opened on first use and reopened after it breaks. `source` names the process in its announcements."""

    def __init__(
        self, url: str, clock: Clock, on_commit: CommitListener, process: ProcessState | None = None, source: str = ""
    ) -> None:
        self.url = check_url(url)
        self.process = process or ProcessState()
        self.clock = clock
        self.outage = find_outage(url)
        self.server_clock = ServerClock()
        self.on_commit = on_commit
        self.source = source
        self.wire: Wire | None = None

    def read(self, work: Work[T]) -> T:
        return self._run_with_retries(partial(self._run, work=work, begin=BEGIN_READ_ONLY))

    def write(self, work: Work[T]) -> T:
        return self._run_with_retries(partial(self._run, work=work, begin=BEGIN))

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
        if self.wire is not None:
            self.wire.close()
            self.wire = None
            self.outage.record_close()

    def _get_wire(self) -> Wire:
        if self.wire is not None and self.wire.closed:
            self.close()
        if self.wire is None:
            self.wire = Wire(open_in_turn(self.url, self.outage), prepares=may_prepare(self.url))
            self.server_clock.ask_again()  # it may be another server
        return self.wire

    def _run(self, wire: Wire, work: Work[T], begin: Query, *, opens_ranges: bool) -> T:
        now = self._now(wire)  # before BEGIN, so that a failed query leaves no transaction open
        transaction = PostgresTransaction(wire, now, begin, self.process, opens_ranges=opens_ranges)
        try:
            value = work(transaction)
            transaction.finish()
            if transaction.begun and transaction.read_only:
                wire.end_reading()
            elif transaction.begun:
                wire.commit(self._announce(transaction))
        except BaseException:
            wire.roll_back()
            raise
        notify_listener(self.on_commit, transaction.events)
        return value

    def _announce(self, transaction: PostgresTransaction) -> Query | None:
        """Build the notification of new events for other processes. It follows the commit, because a NOTIFY inside the transaction
        would serialize all commits on the server behind one lock. If it is lost, readers still find the events by polling."""
        tenants = sorted({event.tenant_id for event in transaction.events})
        marks = [JOBS_MARK] if transaction.count_writes(*JOB_TABLES) else []
        payload = ",".join([*map(str, tenants), *marks, f"{SOURCE_MARK}{self.source}"])
        return Query("SELECT pg_notify(?, ?)", (CHANNEL, payload)) if tenants else None

    def _now(self, wire: Wire) -> ServerTime:
        """Read the server's clock, because the clocks of the machines that share a database may differ or jump."""
        if self.clock is not wall_clock:
            return ServerTime(self.clock(), 0)
        return self.server_clock.now(lambda sql: wire.fetch(Query(sql))[0][0])

    def _run_with_retries(self, step: Callable[..., T]) -> T:
        """Retry work that was certainly not committed, because of a conflict or a lost connection."""
        attempts, opens_ranges = Attempts(self.outage), False
        while True:
            try:
                return step(self._get_wire(), opens_ranges=opens_ranges)
            except UNPREPARED_ERRORS as error:
                if self.wire is None or not self.wire.prepares:
                    raise to_headway_error(error) from error
                stop_preparing(self.url)
                self.close()
            except errors.NotNullViolation as error:
                if error.diag.table_name != "events" or opens_ranges:
                    raise to_headway_error(error) from error
                opens_ranges = True  # a tenant has no number left for its events
            except psycopg.Error as error:
                if attempts.wait(error):
                    self.close()
