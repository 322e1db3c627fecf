"""Applies a migration to a Postgres database that other processes are using.

Its statements run one by one, each in its own transaction, and none blocks other processes for longer than STATEMENT_TIMEOUT_MS.
Indexes are built CONCURRENTLY. Foreign keys are added NOT VALID and validated afterwards. A statement that needs an exclusive lock
waits for it LOCK_TIMEOUT_MS and is tried again later. A migration that was interrupted continues: the catalog shows what was done.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg
from psycopg import errors

from headway.storage.postgres.failures import to_headway_error
from headway.storage.postgres.opening import open_connection
from headway.storage.progress import MigrationProgress

ONLINE_LOCK: Final = 0x4865_6164_7761_7A
LOCK_TIMEOUT_MS: Final = 200  # what else wants the table waits as long
STATEMENT_TIMEOUT_MS: Final = 800
PAUSE_S: Final = 0.5  # between attempts, at most ten times as long
POLL_S: Final = 0.5
ATTEMPTS: Final = 6  # after lost connections

CREATE_INDEX: Final = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON (\w+)")
DROP_INDEX: Final = re.compile(r"DROP INDEX CONCURRENTLY IF EXISTS (\w+)")
VALIDATE: Final = re.compile(r"ALTER TABLE (\w+) VALIDATE CONSTRAINT (\w+)")
ADD_CONSTRAINT: Final = re.compile(r"ALTER TABLE (\w+)\s.*?ADD CONSTRAINT (\w+)", re.DOTALL)
LOCK_ERRORS: Final = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected)

Connection = psycopg.Connection[Any]

FIND_INDEX: Final = """SELECT i.indisvalid, EXISTS (SELECT 1 FROM pg_stat_progress_create_index p WHERE p.relid = i.indrelid)
    FROM pg_index i WHERE i.indexrelid = to_regclass(quote_ident(current_schema()) || '.' || quote_ident(%s))"""
FIND_CONSTRAINT: Final = """SELECT convalidated FROM pg_constraint
    WHERE conrelid = to_regclass(quote_ident(current_schema()) || '.' || quote_ident(%s)) AND conname = %s"""


def simplify(statements: list[str]) -> list[str]:
    """Return the statements for a new database: in one transaction, on empty tables, beside no other process."""
    return [
        statement.replace(" CONCURRENTLY", "").replace(" NOT VALID", "")
        for statement in statements
        if not VALIDATE.match(statement)
    ]


def apply_online(url: str, statements: list[str], is_applied: Callable[[], bool], record: Callable[[], None]) -> None:
    """Apply the statements unless another process has done it. One process works at a time. The others wait until it has finished,
    or has died: then one of them continues."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with MigrationProgress("waiting for the process that migrates it") as progress, hold_lock(url, is_applied):
                if not is_applied():
                    with closing(open_connection(url)) as connection:
                        run_statements(connection, statements, progress)
                    record()
                return
        except psycopg.OperationalError as error:
            if attempt == ATTEMPTS or not is_connection_lost(error):
                raise to_headway_error(error) from error
            time.sleep(PAUSE_S * attempt)
        except psycopg.Error as error:
            raise to_headway_error(error) from error


def is_connection_lost(error: psycopg.OperationalError) -> bool:
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


@contextmanager
def hold_lock(url: str, is_applied: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock of online migrations. It belongs to an open transaction, so it also works through a pooler, and ends with the
    process. Callers that wait ask again and again: a statement that waited for the lock would keep a snapshot, and an index that is
    built CONCURRENTLY waits for all older snapshots."""
    while True:
        with closing(open_connection(url)) as holder:
            holder.execute(
                """BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL tcp_keepalives_idle = 10;
                   SET LOCAL tcp_keepalives_interval = 5; SET LOCAL tcp_keepalives_count = 4"""
            )
            # Without parameters, psycopg uses the simple protocol. An extended query would keep its snapshot until the next one.
            row = holder.execute(f"SELECT pg_try_advisory_xact_lock({ONLINE_LOCK})".encode()).fetchone()
            if row and row[0]:
                yield
                return
        if is_applied():
            yield
            return
        time.sleep(POLL_S)


def run_statements(connection: Connection, statements: list[str], progress: MigrationProgress) -> None:
    for number, statement in enumerate(statements, 1):
        progress.task = f"{' '.join(statement.split())[:100]} (statement {number} of {len(statements)})"
        pause_s = PAUSE_S
        while not is_done(connection, statement):
            try:
                run_statement(connection, statement)
            except LOCK_ERRORS as error:
                if isinstance(error, errors.QueryCanceled) and is_unhurried(statement):
                    raise
                time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311  not security-relevant
                pause_s = min(pause_s * 1.5, PAUSE_S * 10)
            else:
                if not CREATE_INDEX.match(statement):
                    break


def is_unhurried(statement: str) -> bool:
    """Whether the statement may take long, because it blocks no process that reads or writes rows."""
    return bool(CREATE_INDEX.match(statement) or DROP_INDEX.match(statement) or VALIDATE.match(statement))


def is_done(connection: Connection, statement: str) -> bool:
    """Whether the statement was done before. An invalid index is what an interrupted build leaves: it is dropped, unless the server
    is still building it for a process that has died."""
    if match := CREATE_INDEX.match(statement):
        while (index := connection.execute(FIND_INDEX, (match[1],)).fetchone()) is not None and not index[0]:
            if index[1]:
                time.sleep(POLL_S)
            else:
                run_alone(connection, f"DROP INDEX CONCURRENTLY IF EXISTS {match[1]}")
        return index is not None
    if match := VALIDATE.match(statement):
        constraint = connection.execute(FIND_CONSTRAINT, match.groups()).fetchone()
        return constraint is not None and bool(constraint[0])
    if match := ADD_CONSTRAINT.match(statement):
        return connection.execute(FIND_CONSTRAINT, match.groups()).fetchone() is not None
    return False  # DROP INDEX … IF EXISTS


def run_statement(connection: Connection, statement: str) -> None:
    if CREATE_INDEX.match(statement) or DROP_INDEX.match(statement):
        run_alone(connection, statement)
        return
    timeouts = (0, 0) if is_unhurried(statement) else (LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS)
    with connection.transaction():
        # Validation reads the rows of all tenants: row-level security applies to it.
        settings = "SET LOCAL headway.tenant = 'all'; SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}"
        connection.execute(settings.format(*timeouts).encode())
        connection.execute(statement.encode())


def run_alone(connection: Connection, statement: str) -> None:
    """Run a statement that Postgres allows in no transaction, without the timeout that the server may set for all statements. A
    session is needed for that: behind a pooler, this is why the direct URL is used."""
    row = connection.execute("SHOW statement_timeout").fetchone()
    if row and row[0] != "0":
        connection.execute("SET statement_timeout = 0")
    connection.execute(statement.encode())
    if row and row[0] != "0":
        connection.execute("RESET statement_timeout")
