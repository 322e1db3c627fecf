"""Receives Postgres notifications about commits of other processes."""

import logging
import threading
from collections.abc import Sequence

import psycopg

from headway.storage.postgres.opening import open_connection
from headway.storage.postgres.transaction import CHANNEL, SOURCE_MARK
from headway.storage.transaction import CommitListener

log = logging.getLogger("headway.announcements")

RECONNECT_S = 1.0
STOP_CHECK_S = 0.5  # how often the thread checks whether to stop


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


class AnnouncementListener:
    """A thread that listens for notifications on a dedicated connection."""

    def __init__(self, url: str, on_commit: CommitListener, source: str = "", subscriber: Subscriber | None = None) -> None:
        self.url = url
        self.own_mark = (
            f"{SOURCE_MARK}{source}" if source else ""
        )  # ends the announcements of this process, which knows about its commits
        self.on_commit = on_commit
        self.subscriber = subscriber or Subscriber()
        self.stop_requested = threading.Event()
        self.thread = threading.Thread(target=self._listen, name="headway-announcements", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.stop_requested.set()
        self.thread.join()

    def _listen(self) -> None:
        while not self.stop_requested.is_set():
            try:
                with open_connection(self.url) as connection:
                    self._receive(connection)
            except psycopg.Error as error:
                log.warning("no announcements until Postgres can be reached again: %s", type(error).__name__)
                self.stop_requested.wait(RECONNECT_S)

    def _receive(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        channels = self.subscriber.subscribe()
        connection.execute("; ".join(f"LISTEN {channel}" for channel in (CHANNEL, *channels)).encode())
        self.subscriber.start_listening(channels)
        try:
            while not self.stop_requested.is_set():
                for notice in connection.notifies(timeout=STOP_CHECK_S):
                    self._dispatch(notice.channel, notice.payload)
        finally:
            self.subscriber.stop_listening()

    def _dispatch(self, channel: str, payload: str) -> None:
        if channel != CHANNEL:
            self.subscriber.hear(channel, payload)
            return
        *tenants, mark = payload.split(",")
        if mark != self.own_mark:
            self.on_commit(frozenset(int(part) for part in (*tenants, mark) if part.isascii() and part.isdigit()))
