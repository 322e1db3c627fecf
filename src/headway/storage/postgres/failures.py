"""What Postgres errors mean: which work can be run again, and which error the caller gets."""

import psycopg
from psycopg import errors

from headway.ledger.errors import DatabaseBusy, DatabaseFull, DatabaseUnreachable, HeadwayError, StorageError

# The connection is intact, and the same work may succeed on retry or find out why it cannot: for example, that another transaction
# has inserted the same unique value.
RETRYABLE_ERRORS = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError, errors.IdleInTransactionSessionTimeout)
FINAL_ERRORS = (errors.DiskFull, errors.QueryCanceled, errors.LockNotAvailable)
BUSY_ERRORS = (errors.DeadlockDetected, errors.SerializationFailure, errors.QueryCanceled, errors.LockNotAvailable)


def to_headway_error(error: psycopg.Error) -> HeadwayError:
    if isinstance(error, errors.DiskFull):
        return DatabaseFull("The database server's disk is full; nothing was changed.")
    # The server's message may contain the host and user of the connection string, but never its password.
    reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
    if isinstance(error, BUSY_ERRORS):
        return DatabaseBusy(f"Postgres gave up waiting for other transactions ({reason}); nothing was changed. Try again shortly.")
    if isinstance(error, CONNECTION_ERRORS):
        return DatabaseUnreachable(f"Postgres cannot be reached: {reason}")
    return StorageError(f"The database refused the statement: {error.diag.message_primary or type(error).__name__}")
