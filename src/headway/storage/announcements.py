"""Hearing, on Postgres, what other processes committed."""

import logging
import threading

import psycopg

from headway.storage.postgres_connection import CHANNEL, opened
from headway.storage.transaction import Listener

log = logging.getLogger("headway.announcements")

RECONNECT_S = 1.0
LOOK_UP_S = 0.5  # how often the thread looks whether it should end


class Announcements:
    """A thread that listens on a connection of its own."""

    def __init__(self, url: str, heard: Listener) -> None:
        self.url = url
        self.heard = heard
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._listen, name="headway-announcements", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.ending.set()
        self.thread.join()

    def _listen(self) -> None:
        while not self.ending.is_set():
            try:
                with opened(self.url) as connection:
                    connection.execute(f"LISTEN {CHANNEL}".encode())
                    self._hear(connection)
            except psycopg.Error as error:
                log.warning("announcements are off until Postgres is back: %s", type(error).__name__)
                self.ending.wait(RECONNECT_S)

    def _hear(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        while not self.ending.is_set():
            for notice in connection.notifies(timeout=LOOK_UP_S):
                tenants = (part for part in notice.payload.split(",") if part.isascii() and part.isdigit())
                self.heard(frozenset(map(int, tenants)))
