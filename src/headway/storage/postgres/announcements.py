"""Receives Postgres notifications about commits of other processes."""

import logging
import threading

import psycopg

from headway.storage.postgres.opening import open_connection
from headway.storage.postgres.transaction import CHANNEL, SOURCE_MARK
from headway.storage.transaction import CommitListener

log = logging.getLogger("headway.announcements")

RECONNECT_S = 1.0
STOP_CHECK_S = 0.5  # how often the thread checks whether to stop


class AnnouncementListener:
    """A thread that listens for notifications on a dedicated connection."""

    def __init__(self, url: str, on_commit: CommitListener, source: str = "") -> None:
        self.url = url
        self.own_mark = (
            f"{SOURCE_MARK}{source}" if source else ""
        )  # ends the announcements of this process, which knows about its commits
        self.on_commit = on_commit
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
                    connection.execute(f"LISTEN {CHANNEL}".encode())
                    self._receive(connection)
            except psycopg.Error as error:
                log.warning("no announcements until Postgres can be reached again: %s", type(error).__name__)
                self.stop_requested.wait(RECONNECT_S)

    def _receive(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        while not self.stop_requested.is_set():
            for notice in connection.notifies(timeout=STOP_CHECK_S):
                *tenants, mark = notice.payload.split(",")
                if mark != self.own_mark:
                    self.on_commit(frozenset(int(part) for part in (*tenants, mark) if part.isascii() and part.isdigit()))
