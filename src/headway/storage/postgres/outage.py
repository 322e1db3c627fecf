"""What the connections of a process know together about a server that cannot be reached."""

import threading
import time
from functools import cache

from headway.ledger.errors import DatabaseUnreachable

PATIENCE_S = 1.5  # how long work waits for a new connection before its caller gets the error


class Outage:
    """The outage of one server, from the first failed attempt to connect until one succeeds.

    During its first moments each connection tries again by itself. After that, one of them tries at a time, and work that needs
    another one fails at once: an attempt can take seconds, and callers must not queue behind it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open = 0  # connections that were open when they were last used
        self.began_at: float | None = None  # by the monotonic clock
        self.began = 0.0  # by the wall clock, for people
        self.reason = ""
        self.is_probing = False

    @property
    def is_long(self) -> bool:
        began_at = self.began_at
        return began_at is not None and self.is_longer_than_patience(began_at)

    def is_longer_than_patience(self, start: float) -> bool:
        return time.monotonic() - start >= PATIENCE_S

    def describe(self, reason: str) -> str:
        since = "" if self.began_at is None else time.strftime(" since %Y-%m-%d %H:%M:%S UTC", time.gmtime(self.began))
        return f"Postgres cannot be reached{since}: {reason}"

    def before_connecting(self) -> None:
        """Raise DatabaseUnreachable if the server is away and this is not the time to try again."""
        with self.lock:
            if not self.is_long or self.open:
                return
            if self.is_probing:
                raise DatabaseUnreachable(self.describe(self.reason))
            self.is_probing = True

    def record_failure(self, reason: str) -> None:
        """Record that an attempt to connect failed."""
        with self.lock:
            if self.began_at is None:
                self.began_at, self.began = time.monotonic(), time.time()
            self.reason = reason
            self.is_probing = False

    def record_success(self) -> None:
        with self.lock:
            self.open += 1
            self.began_at = None
            self.is_probing = False

    def record_close(self) -> None:
        with self.lock:
            self.open -= 1


@cache
def find_outage(url: str) -> Outage:
    """Return what this process knows about the server of this URL."""
    return Outage()
