"""Sends Postgres notifications outside of transactions, on a dedicated connection."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue

import psycopg

from headway.storage.postgres.failures import CONNECTION_ERRORS, to_headway_error
from headway.storage.postgres.opening import open_connection
from headway.storage.transaction import Row

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
