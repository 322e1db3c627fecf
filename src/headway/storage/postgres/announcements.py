"""The session of a process on Postgres: the announcements that it hears, its notifications and its locks."""

import asyncio
import logging
import random
import select
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue

import psycopg
from psycopg import pq

from headway.storage.postgres.failures import CONNECTION_ERRORS, to_headway_error
from headway.storage.postgres.opening import DIRECT_URL, check_url, find_session_problem, open_connection
from headway.storage.postgres.transaction import CHANNEL, JOBS_MARK, SOURCE_MARK
from headway.storage.server_session import ServerSession
from headway.storage.transaction import CommitListener, Row

log = logging.getLogger("headway.announcements")

RECONNECT_S = 1.0
STOP_CHECK_S = 0.5  # how often the thread checks whether to stop
RECHECK_S = 60.0  # how often to look whether a pooler that did not keep sessions does now
OWN_PAUSE_S = 0.01  # after announcements of this process alone: otherwise each of its commits would wake the thread
LOCK_BITS = 62


class Subscriber:
    """Receives the notifications of further channels, on the listener's thread. This one has no channels."""

    def subscribe(self) -> Sequence[str]:
        """Return the channels that a new connection listens to."""
        return ()

    def start_listening(self, channels: Sequence[str]) -> None:
        """Called when the connection listens to them."""

    def hear(self, channel: str, payload: str) -> None:
        """Called for each notification."""

    def stop_listening(self) -> None:
        """Called when the connection is lost or closed."""


def ignore_jobs() -> None:
    """Do nothing, for processes that run no jobs."""


class AnnouncementListener:
    """A thread with a dedicated connection, to the direct URL if there is one. While the connection is open, so is `session`.

    `on_jobs` is called after commits of other processes that may have made a job due. Most commits make none: if each of them had
    every process look for jobs, that would soon cost the server more than the work itself.
    """

    def __init__(
        self,
        url: str,
        direct_url: str,
        on_commit: CommitListener,
        session: ServerSession,
        source: str = "",
        subscriber: Subscriber | None = None,
        on_jobs: Callable[[], None] = ignore_jobs,
    ) -> None:
        self.url = url
        self.direct_url = check_url(direct_url, DIRECT_URL) if direct_url else ""
        self.own_mark = (
            f"{SOURCE_MARK}{source}" if source else ""
        )  # ends the announcements of this process, which knows its commits
        self.on_commit = on_commit
        self.on_jobs = on_jobs
        self.session = session
        self.subscriber = subscriber or Subscriber()
        self.lock = 0  # chosen once, and again only if another session holds it
        self.reported = ""
        self.stop_requested = threading.Event()
        self.thread = threading.Thread(target=self._listen, name="headway-announcements", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.stop_requested.set()
        self.thread.join()

    def _listen(self) -> None:
        while not self.stop_requested.is_set():
            try:
                with open_connection(self.direct_url or self.url) as connection:
                    problem = find_session_problem(connection, self.url, self.direct_url)
                    if not problem:
                        self._receive(connection)
            except psycopg.Error as error:
                log.warning("no announcements until Postgres can be reached again: %s", type(error).__name__)
                self.stop_requested.wait(RECONNECT_S)
            else:
                self._report(problem)
                self.stop_requested.wait(RECHECK_S)
            finally:
                self.session.close()

    def _receive(self, connection: "psycopg.Connection[Row]") -> None:
        channels = self.subscriber.subscribe()
        connection.execute("; ".join(f"LISTEN {channel}" for channel in (CHANNEL, *channels)).encode())
        self.session.open(self._take_lock(connection))
        self.subscriber.start_listening(channels)
        try:
            for notice in connection.notifies(timeout=0):  # only notices that have arrived already
                self._dispatch(notice.channel, notice.payload)
            readable = select.poll()
            readable.register(connection.fileno(), select.POLLIN)
            while not self.stop_requested.is_set():
                if readable.poll(STOP_CHECK_S * 1000) and not self._hear_others(connection.pgconn):
                    self.stop_requested.wait(OWN_PAUSE_S)
        finally:
            self.subscriber.stop_listening()

    def _hear_others(self, pgconn: "pq.abc.PGconn") -> bool:
        """Dispatch what has arrived. Returns whether another process has sent some of it."""
        pgconn.consume_input()
        is_from_others = False
        while notice := pgconn.notifies():
            channel, payload = notice.relname.decode(), notice.extra.decode()
            is_from_others = is_from_others or not self._is_own(channel, payload)
            self._dispatch(channel, payload)
        return is_from_others

    def _dispatch(self, channel: str, payload: str) -> None:
        if channel != CHANNEL:
            self.subscriber.hear(channel, payload)
        elif not self._is_own(channel, payload):
            parts = payload.split(",")
            self.on_commit(frozenset(int(part) for part in parts if part.isascii() and part.isdigit()))
            if JOBS_MARK in parts:
                self.on_jobs()

    def _is_own(self, channel: str, payload: str) -> bool:
        return channel == CHANNEL and bool(self.own_mark) and payload.endswith(self.own_mark)

    def _take_lock(self, connection: "psycopg.Connection[Row]") -> int:
        """Take the lock that shows other processes that this one is alive. If the server has not noticed that the last connection
        is lost, that one still holds the last lock: then take another."""
        while not self.lock or connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (self.lock,)).fetchone() != (True,):
            self.lock = random.getrandbits(LOCK_BITS) + 1  # not security-relevant
        return self.lock

    def _report(self, problem: str) -> None:
        if problem not in ("", self.reported):  # not every minute
            self.reported = problem
            log.warning("no announcements, so Headway polls for commits of other processes: %s.", problem)


# Sends Postgres notifications outside of transactions, on a dedicated connection.


NOTIFY = "SELECT count(pg_notify(channel, payload)) FROM unnest(%s::text[], %s::text[]) AS sent (channel, payload)"
IDLE_S = 30.0  # the connection is closed when nothing was sent for this long
CLOSE_S = 2.0  # a server that does not answer must not delay the end of the process


class NotificationSender:
    """A thread with a connection that is opened when there is something to send. One statement sends a whole batch."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.queue: SimpleQueue[tuple[Sequence[tuple[str, str]], Future[None]] | None] = SimpleQueue()
        self.thread: threading.Thread | None = None
        self.connection: psycopg.Connection[Row] | None = None

    async def send(self, batch: Sequence[tuple[str, str]]) -> None:
        """Send pairs of a channel and a payload, or raise StorageError. After a lost connection a batch may be sent twice."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._serve, name="headway-notifications", daemon=True)
            self.thread.start()
        future: Future[None] = Future()
        self.queue.put((batch, future))
        await asyncio.wrap_future(future)

    def close(self) -> None:
        if self.thread:
            self.queue.put(None)
            self.thread.join(CLOSE_S)

    def _serve(self) -> None:
        while True:
            try:
                taken = self.queue.get(timeout=IDLE_S if self.connection else None)
            except Empty:
                self._disconnect()
                continue
            if taken is None:
                break
            batch, future = taken
            if future.set_running_or_notify_cancel():
                try:
                    self._send(batch)
                except psycopg.Error as error:
                    self._disconnect()
                    future.set_exception(to_headway_error(error))
                else:
                    future.set_result(None)
        self._disconnect()

    def _send(self, batch: Sequence[tuple[str, str]]) -> None:
        is_reused = self.connection is not None
        try:
            self._execute(batch)
        except CONNECTION_ERRORS:
            self._disconnect()
            if not is_reused:
                raise
            self._execute(batch)  # the server may have closed the connection while nothing was sent

    def _execute(self, batch: Sequence[tuple[str, str]]) -> None:
        self.connection = self.connection or open_connection(self.url)
        channels, payloads = map(list, zip(*batch, strict=True))
        self.connection.execute(NOTIFY, (channels, payloads), prepare=False)

    def _disconnect(self) -> None:
        if self.connection:
            self.connection.close()
            self.connection = None
