"""The database of a long-lived process: `await write(work)` and `await read(work)`, where work is a function of a transaction. Work
may run more than once, because a transaction can be rolled back and retried; its effects outside the transaction must be safe to
repeat.

The database chooses the thread. On SQLite a single writer thread commits waiting work in groups, and reads run on the caller's
thread. On Postgres a pool of threads is used, each with its own connection. (A short-lived process uses direct.py, which runs the
same work without threads.)
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from headway.ledger.errors import DatabaseClosed, HeadwayError
from headway.ledger.tenancy import Quotas
from headway.storage.clocks import Clock, wall_clock
from headway.storage.direct import connect, ignore_commit, is_sqlite
from headway.storage.fair_queue import FairQueue, current_tenant
from headway.storage.migrate import migrate
from headway.storage.transaction import CommitListener, Connection, ProcessState, Work, WorkOutcome, across_tenants, within_tenant

T = TypeVar("T")

GROUP_LIMIT = 256
READ_BUSY_LIMIT_S = 0.5  # a file locked by another process must not block the event loop
POSTGRES_CONNECTIONS = 8


class Submission(NamedTuple):
    work: Work[Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    tenant_id: int


class ThreadPool:
    """Threads that each own a connection and take submissions from a shared queue. A thread starts when work arrives and all
    others are busy, so that a quiet process holds few connections. No tenant gets the last connection for itself."""

    def __init__(self, name: str, size: int, open_connection: Callable[[], Connection], group: int, *, read_only: bool) -> None:
        self.queue: FairQueue[Submission] = FairQueue(group if size == 1 else size - 1)
        self.open_connection = open_connection
        self.group = group
        self.read_only = read_only
        self.lock = threading.Lock()
        self.closed = False
        self.name = name
        self.size = size
        self.idle = threading.Semaphore(0)  # counts threads that wait for work, or will at once
        self.threads: list[threading.Thread] = []

    async def run(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self.lock:
            if self.closed:
                raise DatabaseClosed
            self.queue.put(Submission(work, future, loop, current_tenant.get()))
            if not self.idle.acquire(blocking=False) and len(self.threads) < self.size:
                self._start_thread()
        try:
            return await future
        finally:
            del future  # its error's traceback has this frame, and both would wait for the garbage collector

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"headway-{self.name}-{len(self.threads)}", daemon=True)
        self.threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Finish the queued work and stop the threads. Later submissions are rejected."""
        with self.lock:
            self.closed = True
        self.queue.close()
        for thread in self.threads:
            thread.join()

    def _serve(self) -> None:
        connection: Connection | None = None
        while taken := self.queue.take(self.group):
            # Skip cancelled work: its caller may submit it again.
            submissions = [submission for submission in taken if not submission.future.cancelled()]
            for submission in taken:
                if submission.future.cancelled():
                    self.queue.finish(submission, 0.0)
            if not submissions:
                self.idle.release()
                continue
            try:
                connection = connection or self.open_connection()
                outcomes = self._run(connection, submissions)
            except Exception as error:  # noqa: BLE001  every caller must get an answer, or it would wait forever
                outcomes = [WorkOutcome(error=error)] * len(submissions)
            for submission, outcome in zip(submissions, outcomes, strict=False):
                self.queue.finish(submission, outcome.seconds)
            self.idle.release()  # before its caller submits more
            if len(outcomes) < len(submissions):  # the group was committed early because it took long
                self.queue.put_back(submissions[len(outcomes) :])
            deliver_outcomes(submissions[: len(outcomes)], outcomes)
        if connection is not None:
            connection.close()

    def _run(self, connection: Connection, submissions: list[Submission]) -> list[WorkOutcome]:
        if len(submissions) > 1:
            return connection.write_group([submission.work for submission in submissions])
        work, started = submissions[0].work, perf_counter()
        try:
            value = connection.read(work) if self.read_only else connection.write(work)
        except Exception as error:  # noqa: BLE001  returned to the caller
            return [WorkOutcome(error=error, seconds=perf_counter() - started)]
        return [WorkOutcome(value, seconds=perf_counter() - started)]


def deliver_outcomes(submissions: list[Submission], outcomes: list[WorkOutcome]) -> None:
    """Deliver each outcome to its caller, waking each event loop only once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], WorkOutcome]]] = {}
    for submission, outcome in zip(submissions, outcomes, strict=True):
        by_loop.setdefault(submission.loop, []).append((submission.future, outcome))
    for loop, results in by_loop.items():
        with suppress(RuntimeError):  # the event loop is closed, so no caller is waiting
            loop.call_soon_threadsafe(resolve_futures, results)


def resolve_futures(results: "list[tuple[asyncio.Future[Any], WorkOutcome]]") -> None:
    for future, outcome in results:
        if future.cancelled():
            continue
        if outcome.error is None:
            future.set_result(outcome.value)
        else:
            future.set_exception(copy_error(outcome.error))


def copy_error(error: BaseException) -> BaseException:
    """Copy an error for one caller, because callers in a group must not share a traceback that each of them extends."""
    if isinstance(error, StopIteration):  # a future cannot carry it, and the outcomes after it would be lost
        return RuntimeError("The work raised StopIteration.")
    # Without its traceback: the frames have the outcomes of the group, and all would wait for the garbage collector.
    return copy(error.with_traceback(None)) if isinstance(error, HeadwayError) else error


class InlineReader:
    """Reads on the caller's thread. In WAL mode a read never waits for a writer and takes well under a millisecond; handing it to
    another thread and back would take several times as long."""

    def __init__(self, open_connection: Callable[[], Connection]) -> None:
        self.open_connection = open_connection
        self.local = threading.local()
        self.connections: list[Connection] = []
        self.closed = False

    async def run(self, work: Work[T]) -> T:
        if self.closed:
            raise DatabaseClosed
        connection: Connection | None = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = self.open_connection()
            self.connections.append(connection)
        return connection.read(work)

    def close(self) -> None:
        self.closed = True
        for connection in self.connections:
            connection.close()


class DatabaseAccess(Protocol):
    """A database, or a view of one."""

    async def write(self, work: Work[T]) -> T: ...

    async def read(self, work: Work[T]) -> T: ...

    def of(self, tenant_id: int) -> "DatabaseAccess": ...


class TenantView(NamedTuple):
    """A database whose transactions see and write the rows of one tenant only."""

    database: "Database"
    tenant_id: int

    async def write(self, work: Work[T]) -> T:
        return await self.database.write(within_tenant(self.tenant_id, work))

    async def read(self, work: Work[T]) -> T:
        return await self.database.read(within_tenant(self.tenant_id, work))

    def of(self, tenant_id: int) -> "TenantView":
        return self.database.of(tenant_id)


class UnrestrictedView(NamedTuple):
    """A database whose transactions see and write the rows of every tenant. docs/internals/tenancy.md lists who uses it."""

    database: "Database"

    async def write(self, work: Work[T]) -> T:
        return await self.database.write(across_tenants(work))

    async def read(self, work: Work[T]) -> T:
        return await self.database.read(across_tenants(work))

    def of(self, tenant_id: int) -> TenantView:
        return self.database.of(tenant_id)


class Database:
    """The database of a long-lived process with an event loop.

    On Postgres, work sees no tenant's rows until it enters a tenant: by looking up a token or a tenant's name, or through `of`.
    """

    def __init__(
        self,
        url: str,
        clock: Clock = wall_clock,
        on_commit: CommitListener = ignore_commit,
        quotas: Quotas | None = None,
        direct_url: str = "",
    ) -> None:
        self.url = url
        self.source = uuid4().hex
        process = ProcessState(quotas)

        def open_connection() -> Connection:
            return connect(url, clock, on_commit, process=process, source=self.source)

        first = open_connection()
        try:
            migrate(first, direct_url)
        finally:
            first.close()
        self.readers: ThreadPool | InlineReader
        if is_sqlite(url):
            self.writers = ThreadPool("writer", 1, open_connection, GROUP_LIMIT, read_only=False)
            self.readers = InlineReader(lambda: connect(url, clock, on_commit, READ_BUSY_LIMIT_S, process))
        else:
            self.writers = ThreadPool("postgres", POSTGRES_CONNECTIONS, open_connection, 1, read_only=False)
            self.readers = ThreadPool("postgres-reader", POSTGRES_CONNECTIONS // 2, open_connection, 1, read_only=True)

    async def write(self, work: Work[T]) -> T:
        return await self.writers.run(work)

    async def read(self, work: Work[T]) -> T:
        return await self.readers.run(work)

    def of(self, tenant_id: int) -> TenantView:
        return TenantView(self, tenant_id)

    @property
    def unrestricted(self) -> UnrestrictedView:
        return UnrestrictedView(self)

    def close(self) -> None:
        self.readers.close()
        self.writers.close()
