"""This process's session with the Postgres server, as other parts of the process see it."""

from time import monotonic

# After the server was restarted or could not be reached, live processes get this long to open a session and renew their leases.
SETTLING_S = 3.0


class ServerSession:
    """Whether this process has a connection to the server that lasts. It hears announcements and holds a lock, which the server
    releases when the process dies. The thread of postgres/announcements.py changes it.

    It stays closed on SQLite, and where a pooler shares connections among its clients. Such a process polls for commits, and only
    its lease shows that it is alive.
    """

    def __init__(self) -> None:
        self.lock = 0  # the number of the advisory lock that the session holds; 0: there is no session
        self.opened_at = 0.0

    @property
    def is_open(self) -> bool:
        return self.lock != 0

    @property
    def is_settled(self) -> bool:
        """Whether the session is old enough for a free lock of another process to mean that this process has ended."""
        return self.is_open and monotonic() - self.opened_at >= SETTLING_S

    def open(self, lock: int) -> None:
        self.opened_at = monotonic()
        self.lock = lock

    def close(self) -> None:
        self.lock = 0
