"""Failures of Postgres: what its errors mean, and one attempt at a time to connect again during an outage."""

import random
import threading
import time
from functools import cache

import psycopg
from psycopg import errors

from headway.ledger.errors import (
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnreachable,
    HeadwayError,
    StorageError,
    TenantMoving,
)

PATIENCE_S = 1.5  # how long work waits for a new connection before its caller gets the error


class Outage:
    """The outage of one server, from the first failed attempt to connect until one succeeds.

    During its first moments each connection tries again by itself. After that, one of them tries at a time, and work that needs
    another one fails at once: an attempt can take seconds, and callers must not queue behind it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open = 0  # connections that were open when they were last used
        self.began_at: float | None = None  # by the monotonic clock
        self.began = 0.0  # by the wall clock, for people
        self.reason = ""
        self.is_probing = False

    @property
    def is_long(self) -> bool:
        began_at = self.began_at
        return began_at is not None and self.is_longer_than_patience(began_at)

    def is_longer_than_patience(self, start: float) -> bool:
        return time.monotonic() - start >= PATIENCE_S

    def describe(self, reason: str) -> str:
        since = "" if self.began_at is None else time.strftime(" since %Y-%m-%d %H:%M:%S UTC", time.gmtime(self.began))
        return f"Postgres cannot be reached{since}: {reason}"

    def before_connecting(self) -> None:
        """Raise DatabaseUnreachable if the server is away and this is not the time to try again."""
        with self.lock:
            if not self.is_long or self.open:
                return
            if self.is_probing:
                raise DatabaseUnreachable(self.describe(self.reason))
            self.is_probing = True

    def record_failure(self, reason: str) -> None:
        """Record that an attempt to connect failed."""
        with self.lock:
            if self.began_at is None:
                self.began_at, self.began = time.monotonic(), time.time()
            self.reason = reason
            self.is_probing = False

    def record_success(self) -> None:
        with self.lock:
            self.open += 1
            self.began_at = None
            self.is_probing = False

    def record_close(self) -> None:
        with self.lock:
            self.open -= 1


@cache
def find_outage(url: str) -> Outage:
    """Return what this process knows about the server of this URL."""
    return Outage()


# What Postgres errors mean: which work can be run again, how long it waits, and which error the caller gets.


# The connection is intact, and the same work may succeed on retry or find out why it cannot: for example, that another transaction
# has inserted the same unique value.
RETRYABLE_ERRORS = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
# The connection is lost or of no use. After ReadOnlySqlTransaction, another host may be the one that accepts writes.
CONNECTION_ERRORS = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.IdleInTransactionSessionTimeout,
    errors.TransactionTimeout,
    errors.ReadOnlySqlTransaction,
)
FINAL_ERRORS = (errors.DiskFull, errors.QueryCanceled, errors.LockNotAvailable)
BUSY_ERRORS = (errors.DeadlockDetected, errors.SerializationFailure, errors.QueryCanceled, errors.LockNotAvailable)

TENANT_MOVING = "HW421"  # the SQLSTATE of the fence (fence.py); psycopg raises an OperationalError for it

MAX_CONFLICTS = 6
REASON_LIMIT = 600
EACH_HOST = "- host: "  # how psycopg begins the line about each of several hosts


class Attempts:
    """The failed attempts of one unit of work, which was certainly not committed."""

    __slots__ = ("conflicts", "count", "failed_at", "outage")

    def __init__(self, outage: Outage) -> None:
        self.outage = outage
        self.count = 0
        self.conflicts = 0
        self.failed_at = 0.0  # when the connection failed first

    def wait(self, error: psycopg.Error) -> bool:
        """Wait before the next attempt, and return whether it needs a new connection. Raise the error if no attempt should follow:
        a caller that has waited for a second can decide better what to do."""
        self.count += 1
        is_conflict = isinstance(error, RETRYABLE_ERRORS)
        is_final = isinstance(error, FINAL_ERRORS) or error.sqlstate == TENANT_MOVING
        if is_final or not isinstance(error, (*RETRYABLE_ERRORS, *CONNECTION_ERRORS)):
            raise to_headway_error(error) from error
        if is_conflict:
            self.conflicts += 1
            is_over = self.conflicts == MAX_CONFLICTS
        else:
            self.failed_at = self.failed_at or time.monotonic()
            is_over = self.outage.is_long or self.outage.is_longer_than_patience(self.failed_at)
        if is_over:
            raise to_headway_error(error, self.outage) from error
        time.sleep(min(1.0, 0.02 * 2**self.count) * random.uniform(0.5, 1.5))  # noqa: S311  not security-relevant
        return not is_conflict


def to_headway_error(error: psycopg.Error, outage: Outage | None = None) -> HeadwayError:
    if isinstance(error, errors.DiskFull):
        return DatabaseFull("The database server's disk is full; nothing was changed.")
    if error.sqlstate == TENANT_MOVING:
        return TenantMoving()
    reason = describe_reason(error)
    if isinstance(error, BUSY_ERRORS):
        return DatabaseBusy(f"Postgres gave up waiting for other transactions ({reason}); nothing was changed. Try again shortly.")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return DatabaseReadOnly(f"Postgres accepts no changes at the moment ({reason}); nothing was changed. Try again shortly.")
    if isinstance(error, CONNECTION_ERRORS):
        return DatabaseUnreachable((outage or Outage()).describe(reason))
    return StorageError(f"The database refused the statement: {error.diag.message_primary or type(error).__name__}")


def describe_reason(error: BaseException) -> str:
    """Return why the connection or the statement failed, in one line; with several hosts, for each of them. The server's message
    may contain the host and user of the connection string, but never its password."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    hosts = [line.partition("hostaddr: ")[2].partition(": ")[2] for line in lines if line.startswith(EACH_HOST)]
    return ("; ".join(hosts) or lines[0])[:REASON_LIMIT]
