"""SQLite through APSW, which bundles the same library on every platform, with the fix for the WAL-reset bug of 3.51.2."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from headway.ledger.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnreachable,
    HeadwayError,
    StorageError,
)
from headway.storage.clocks import Clock, build_machine_drift, no_drift, wall_clock
from headway.storage.logged_transaction import TAKE, LoggedTransaction, is_read_statement
from headway.storage.transaction import (
    SQLITE,
    CommitListener,
    Dialect,
    DriftReader,
    ProcessState,
    Row,
    Work,
    WorkOutcome,
    notify_listener,
)

if TYPE_CHECKING:
    from headway.ledger.events import Event

T = TypeVar("T")

MAX_NAP_S = 0.05
NEEDS_LOG = re.compile(r"\b(?:events|id_ranges)\b|^SAVEPOINT")
GROUP_LIMIT_S = 0.1  # a group that has taken this long is committed, so that work that arrived meanwhile can start

ERROR_CLASSES: dict[type[apsw.Error], type[StorageError]] = {
    apsw.BusyError: DatabaseBusy,
    apsw.LockedError: DatabaseBusy,
    apsw.FullError: DatabaseFull,
    apsw.ReadOnlyError: DatabaseReadOnly,
    apsw.PermissionsError: DatabaseReadOnly,
    apsw.CorruptError: DatabaseDamaged,
    apsw.NotADBError: DatabaseDamaged,
    apsw.CantOpenError: DatabaseReadOnly,
}


@cache
def needs_log(sql: str) -> bool:
    """Whether events of earlier units have to be written first. The statement may read or change events, or their numbers and
    bytes. Or it sets a savepoint: what is written after it may be undone."""
    return sql != TAKE and bool(NEEDS_LOG.search(sql))  # TAKE numbers other rows


class SqliteTransaction(LoggedTransaction):
    """`log`: writes the events of all units of a group. None outside of groups."""

    __slots__ = ("_execute", "log")

    dialect: Dialect = SQLITE

    def __init__(
        self,
        execute: Callable[..., apsw.Cursor],
        now: int,
        drift_of: DriftReader,
        process: ProcessState,
        *,
        read_only: bool,
        log: "SqliteTransaction | None" = None,
    ) -> None:
        self._execute = execute
        self.log = log
        super().__init__(now, drift_of, process, read_only=read_only)

    def one(self, sql: str, *parameters: Any) -> Row | None:
        self.prepare(sql)
        rows = self._execute(sql, parameters).fetchall()
        return rows[0] if rows else None

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        self.prepare(sql)
        return self._execute(sql, parameters).fetchall()

    def run(self, sql: str, *parameters: Any) -> None:
        self.prepare(sql)
        self._execute(sql, parameters)

    def stream(self, sql: str, *parameters: Any) -> Iterator[Row]:
        self.prepare(sql)
        return iter(self._execute(sql, parameters))  # no generator: if the caller stopped early, that would close the cursor

    def prepare(self, sql: str) -> None:
        """Do what has to precede a statement."""
        if self.log and needs_log(sql):
            self.log.flush()
        if not is_read_statement(sql):
            self.before_write(sql)

    def hand_over(self, log: "SqliteTransaction") -> None:
        """End a unit of a group. Its events are written together with the following units' events."""
        self.run_closing_work()
        log.events += self.events
        for tenant_id, number in self.stored.items():
            log.count_stored(tenant_id, number)
            if tenant_id in self.process.stored:
                self.process.stored[tenant_id] += number  # the next unit must not exceed the quota

    def flush(self) -> None:
        """Write the events that were handed over so far."""
        self.write_log()
        self.events = []
        self.stored = {}


class SqliteConnection:
    """One connection to the file, in WAL mode with synchronous=FULL, so that committed data survives a power cut."""

    def __init__(
        self, path: str, clock: Clock, on_commit: CommitListener, busy_limit_s: float, process: ProcessState | None = None
    ) -> None:
        self.path = path
        self.process = process or ProcessState()
        self.clock = clock
        self.read_drift = build_machine_drift() if clock is wall_clock else no_drift
        self.on_commit = on_commit
        self.busy_limit_s = busy_limit_s
        self.waiting_since = 0.0
        try:
            self.raw = apsw.Connection(path)
        except apsw.Error as error:
            raise self._explain(error) from error
        try:
            self._settle()
        except BaseException as error:
            self.raw.close()  # repeated attempts must not accumulate open files
            if isinstance(error, apsw.Error):
                raise self._explain(error) from error
            raise
        self.execute = self.raw.cursor().execute

    def copy_to(self, path: str) -> bool:
        """Write a consistent copy of the database, unless there is one already. Returns False if the disk has too little room."""
        if os.path.exists(path):
            return True
        disk = os.statvfs(os.path.dirname(path) or ".")
        if disk.f_bavail * disk.f_frsize < 2 * os.path.getsize(self.path):
            return False
        unfinished = f"{path}.{os.getpid()}"
        try:
            self.execute("VACUUM INTO ?", (unfinished,))
            os.chmod(unfinished, os.stat(self.path).st_mode & 0o777)
            with suppress(FileExistsError):  # another process that starts at the same time was faster
                os.link(unfinished, path)
        except apsw.Error as error:
            raise self._explain(error) from error
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
        return True

    def read(self, work: Work[T]) -> T:
        transaction = self._open_transaction(read_only=True)
        try:
            self.execute("BEGIN")
            try:
                return work(transaction)
            finally:
                self.execute("ROLLBACK")  # always: an open read would keep the WAL from being reset
        except apsw.Error as error:
            raise self._explain(error) from error

    def write(self, work: Work[T]) -> T:
        transaction = self._open_transaction()
        try:
            self.execute("BEGIN IMMEDIATE")
            value = work(transaction)
            transaction.finish()
            self.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if isinstance(error, apsw.Error):
                raise self._explain(error) from error
            raise
        notify_listener(self.on_commit, transaction.events)
        return value

    def write_group(self, works: list[Work[Any]]) -> list[WorkOutcome]:
        """Commit several units of work together. Savepoints would make a group an eighth slower, so they are used only after a unit
        has failed: the group is rolled back and run again with savepoints, and only the faulty units fail. A group that takes long
        is committed early: units that were not run have no outcome."""
        try:
            self.execute("BEGIN IMMEDIATE")
            outcomes, events = self._all(works) or self._each(works)
            self.execute("COMMIT")
        except apsw.Error as error:
            self._roll_back()
            return [WorkOutcome(error=self._explain(error))] * len(works)
        notify_listener(self.on_commit, events)
        return outcomes

    def erase_deleted(self) -> None:
        """Rewrite the file without its free space, and empty the write-ahead log. (`secure_delete` would leave fragments of rows
        that were moved within the file before they were deleted.)"""
        try:
            self.execute("VACUUM")
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except apsw.Error as error:
            raise self._explain(error) from error

    def close(self) -> None:
        self.raw.close()

    def _open_transaction(self, *, read_only: bool = False, log: SqliteTransaction | None = None) -> SqliteTransaction:
        now = log.now if log else self.clock()
        return SqliteTransaction(self.execute, now, self.read_drift, self.process, read_only=read_only, log=log)

    def _all(self, works: list[Work[Any]]) -> "tuple[list[WorkOutcome], list[Event]] | None":
        """Run all units without savepoints, and write their events together. If one fails, roll back, begin a new transaction and
        return None."""
        outcomes, events = [], []
        log = self._open_transaction()
        try:
            started = before = perf_counter()
            for work in works:
                transaction = self._open_transaction(log=log)
                value = work(transaction)
                transaction.hand_over(log)
                events += transaction.events
                after = perf_counter()
                outcomes.append(WorkOutcome(value, seconds=after - before))
                before = after
                if after - started > GROUP_LIMIT_S:
                    break
            log.flush()
        except Exception:  # noqa: BLE001  `_each` runs the group again and returns each error to its caller
            self._roll_back()
            self.execute("BEGIN IMMEDIATE")
            return None
        return outcomes, events

    def _each(self, works: list[Work[Any]]) -> "tuple[list[WorkOutcome], list[Event]]":
        outcomes: list[WorkOutcome] = []
        events: list[Event] = []
        started = before = perf_counter()
        for work in works:
            outcome = self._in_savepoint(work, events)
            after = perf_counter()
            outcomes.append(outcome._replace(seconds=after - before))
            before = after
            if after - started > GROUP_LIMIT_S:
                break
        return outcomes, events

    def _in_savepoint(self, work: Work[Any], events: "list[Event]") -> WorkOutcome:
        transaction = self._open_transaction()
        self.execute("SAVEPOINT one")
        try:
            value = work(transaction)
            transaction.finish()
        except Exception as error:
            if not self.raw.in_transaction:  # SQLite itself rolled back the whole group (disk full, I/O error)
                raise
            self.execute("ROLLBACK TO one")
            self.execute("RELEASE one")
            return WorkOutcome(error=self._explain(error) if isinstance(error, apsw.Error) else error)
        self.execute("RELEASE one")
        events += transaction.events
        return WorkOutcome(value)

    def _roll_back(self) -> None:
        if self.raw.in_transaction:
            self.execute("ROLLBACK")

    def _settle(self) -> None:
        self.raw.set_busy_handler(self._wait)
        # Query plans must not depend on bound values; otherwise SQLite prepares list queries again at every call.
        self.raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._set_wal()
        self.raw.execute("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cache_size=-32000")

    def _set_wal(self) -> None:
        # Switching to WAL does not always call the busy handler when several processes create the file at once.
        attempt = 0
        while True:
            try:
                mode = self.raw.execute("PRAGMA journal_mode=WAL").get
            except apsw.BusyError:
                if not self._wait(attempt):
                    raise
                attempt += 1
            else:
                if mode != "wal":
                    raise DatabaseReadOnly(f"{self.path} cannot be used with write-ahead logging; is it on a network drive?")
                return

    def _wait(self, attempt: int) -> bool:
        """Wait for a lock, as SQLite's busy handler. The jitter keeps waiting processes from retrying in step."""
        from random import uniform  # noqa: PLC0415  loaded only when a lock is met, to keep cold starts fast

        if attempt == 0:
            self.waiting_since = time.monotonic()
        elif time.monotonic() - self.waiting_since > self.busy_limit_s:
            return False
        time.sleep(min(MAX_NAP_S, 0.0005 * 2 ** min(attempt, 10)) * uniform(0.5, 1.5))  # noqa: S311  not security-relevant
        return True

    def _explain(self, error: apsw.Error) -> HeadwayError:
        kind = ERROR_CLASSES.get(type(error))
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE:  # no space for the WAL index
            kind = DatabaseFull
        if kind is DatabaseBusy:
            return DatabaseBusy(
                f"{self.path} has been locked by another process for {self.busy_limit_s:g} s; nothing was changed. "
                "Try again, or stop the other process."
            )
        if kind is DatabaseFull:
            return DatabaseFull(f"The disk that holds {self.path} is full; nothing was changed. Free some space and try again.")
        if kind is DatabaseDamaged:
            return DatabaseDamaged(
                f"{self.path} is damaged or not a database ({error}). It was left untouched: restore a backup, or move it away."
            )
        if kind is DatabaseReadOnly:
            return DatabaseReadOnly(f"{self.path} cannot be opened for writing; check that its folder exists and is writable.")
        if isinstance(error, apsw.IOError):
            return DatabaseUnreachable(f"The disk refused to read or write {self.path} ({error}); nothing was changed.")
        return StorageError(f"The database refused the statement: {error}")


def is_used_by_others(path: str) -> bool:
    """Whether another process has the file open. It may be damaged, or of another version."""
    if not os.path.exists(path):
        return False
    with closing(apsw.Connection(path)) as connection:
        try:
            # Without shared memory: this needs a lock that excludes every other connection.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE").fetchall()
        except apsw.BusyError:
            return True
        except apsw.Error:
            return False
        return False
