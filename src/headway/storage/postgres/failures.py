"""What Postgres errors mean: which work can be run again, how long it waits, and which error the caller gets."""

import random
import time

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
from headway.storage.postgres.outage import Outage

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
