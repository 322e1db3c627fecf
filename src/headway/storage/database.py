"""The database as the floors above see it: `write(work)` and `read(work)`, where work is a function over a transaction.

Two fronts over the same connections: DirectDatabase runs work on the caller's thread (the CLI, scripts);
Database serves an event loop and decides the thread. On SQLite that is one writer which commits together what is waiting,
and a few readers; on Postgres a crew of threads that each own a connection.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from headway.ledger.errors import DatabaseReadOnly, HeadwayError, SettingsError
from headway.storage.migrate import migrate
from headway.storage.transaction import Clock, Connection, Listener, Outcome, Work

T = TypeVar("T")

GROUP_LIMIT = 256
READERS = 2
POSTGRES_CONNECTIONS = 8


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def nobody_listens(_tenants: frozenset[int]) -> None:
    """For processes in which nobody follows the log."""


def connect(url: str, clock: Clock = wall_clock, on_commit: Listener = nobody_listens) -> Connection:
    """A connection to the database of this URL. Drivers are imported here, so that a SQLite user never loads psycopg."""
    if is_sqlite(url):
        from headway.storage.sqlite_connection import SqliteConnection  # noqa: PLC0415

        return SqliteConnection(sqlite_path(url), clock, on_commit)
    if url.startswith(("postgresql://", "postgres://")):
        from headway.storage.postgres_connection import PostgresConnection  # noqa: PLC0415

        return PostgresConnection(url, clock, on_commit)
    raise SettingsError("HEADWAY_DATABASE_URL must start with sqlite:/// or postgresql://.")


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite:///")


def sqlite_path(url: str) -> Path:
    path = Path(url.removeprefix("sqlite:///"))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseReadOnly(f"The folder {path.parent} cannot be created: {error.strerror}.") from error
    return path


class DirectDatabase:
    """Work runs here and now, on the caller's thread."""

    def __init__(self, url: str, clock: Clock = wall_clock, on_commit: Listener = nobody_listens) -> None:
        self.connection = connect(url, clock, on_commit)
        try:
            migrate(self.connection)
        except BaseException:
            self.connection.close()
            raise

    def write(self, work: Work[T]) -> T:
        return self.connection.write(work)

    def read(self, work: Work[T]) -> T:
        return self.connection.read(work)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> "DirectDatabase":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Job(NamedTuple):
    work: Work[Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


class Crew:
    """Threads that each own a connection and take jobs from one queue."""

    def __init__(self, name: str, size: int, open_connection: Callable[[], Connection], group: int, *, reading: bool) -> None:
        self.waiting: SimpleQueue[Job | None] = SimpleQueue()
        self.open_connection = open_connection
        self.group = group
        self.reading = reading
        self.threads = [threading.Thread(target=self._serve, name=f"headway-{name}-{n}", daemon=True) for n in range(size)]
        for thread in self.threads:
            thread.start()

    def submit(self, work: Work[T]) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.waiting.put(Job(work, future, loop))
        return future

    def close(self) -> None:
        for _ in self.threads:
            self.waiting.put(None)
        for thread in self.threads:
            thread.join()

    def _serve(self) -> None:
        connection: Connection | None = None
        while (jobs := self._next_jobs()) is not None:
            try:
                connection = connection or self.open_connection()
                outcomes = self._run(connection, jobs)
            except Exception as error:  # noqa: BLE001  every caller must get an answer, or it would wait for ever
                outcomes = [Outcome(error=error)] * len(jobs)
            settle(jobs, outcomes)
        if connection is not None:
            connection.close()

    def _next_jobs(self) -> list[Job] | None:
        first = self.waiting.get()
        if first is None:
            return None
        jobs = [first]
        while len(jobs) < self.group and not self.waiting.empty():
            job = self.waiting.get()
            if job is None:
                self.waiting.put(None)  # finish what was asked for before closing
                break
            jobs.append(job)
        return jobs

    def _run(self, connection: Connection, jobs: list[Job]) -> list[Outcome]:
        if len(jobs) > 1:
            return connection.write_group([job.work for job in jobs])
        work = jobs[0].work
        try:
            return [Outcome(connection.read(work) if self.reading else connection.write(work))]
        except Exception as error:  # noqa: BLE001  it belongs to its caller, who gets it
            return [Outcome(error=error)]


def settle(jobs: list[Job], outcomes: list[Outcome]) -> None:
    """Tell every caller, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job.future, outcome))
    for loop, answers in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(answer_all, answers)


def answer_all(answers: "list[tuple[asyncio.Future[Any], Outcome]]") -> None:
    for future, outcome in answers:
        if future.cancelled():
            continue
        if outcome.error is None:
            future.set_result(outcome.value)
        else:
            # Callers of one failed group must not share a traceback that grows with each of them.
            error = outcome.error
            future.set_exception(type(error)(str(error)) if isinstance(error, HeadwayError) else error)


class Database:
    """The database of a long-lived process with an event loop."""

    def __init__(self, url: str, clock: Clock = wall_clock, on_commit: Listener = nobody_listens) -> None:
        self.url = url

        def open_connection() -> Connection:
            return connect(url, clock, on_commit)

        first = open_connection()
        try:
            migrate(first)
        finally:
            first.close()
        if is_sqlite(url):
            self.writers = Crew("writer", 1, open_connection, GROUP_LIMIT, reading=False)
            self.readers = Crew("reader", READERS, open_connection, 1, reading=True)
        else:
            self.writers = Crew("postgres", POSTGRES_CONNECTIONS, open_connection, 1, reading=False)
            self.readers = Crew("postgres-reader", POSTGRES_CONNECTIONS // 2, open_connection, 1, reading=True)

    async def write(self, work: Work[T]) -> T:
        return await self.writers.submit(work)

    async def read(self, work: Work[T]) -> T:
        return await self.readers.submit(work)

    def close(self) -> None:
        self.readers.close()
        self.writers.close()
