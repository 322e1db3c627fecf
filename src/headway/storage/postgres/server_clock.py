"""The clock of the Postgres server, and the steady clock that all processes derive from it.

A server's clock can be set back, and after a failover another server answers, whose clock may be behind. Then a delay or a lease
would last too long. So delays and leases are stored by a steady clock: the server's clock plus a number of milliseconds, which is
stored in the database and increased when a process notices that the server's clock went back. It is not decreased when the clock
goes forward: a process that was suspended cannot tell that from its own sleep, and a delay that ends early does no harm.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from psycopg import errors

from headway.storage.clocks import MIN_DRIFT_MS, SERVER_TIME_SQL, read_steady_ms
from headway.storage.transaction import Row

TTL_MS = 1_000
MAX_READINGS = 3
STORED_DRIFT = "COALESCE((SELECT ahead_ms FROM machine_clocks WHERE boot_id = 'server'), 0)"
# The newest heartbeat shows that the clock was set back while no process ran.
FIRST_SQL = f"{SERVER_TIME_SQL}, {STORED_DRIFT}, COALESCE((SELECT MAX(beat_at) FROM worker_leases), 0)"
READ_SQL = f"{SERVER_TIME_SQL}, {STORED_DRIFT}, 0"
SET_SQL = """INSERT INTO machine_clocks (boot_id, ahead_ms) VALUES ('server', {})
    ON CONFLICT (boot_id) DO UPDATE SET ahead_ms = GREATEST(machine_clocks.ahead_ms, excluded.ahead_ms)
    RETURNING ahead_ms"""


class ServerTime(NamedTuple):
    now: int  # the server's clock
    drift: int  # how far the steady clock is ahead of it


class ServerClock:
    """The clocks as one connection sees them. They are read once a second; in between, the local steady clock measures the time
    passed."""

    def __init__(self, read_local: Callable[[], int] = read_steady_ms) -> None:
        self.read_local = read_local
        self.asked_at: int | None = None
        self.answer = ServerTime(0, 0)
        self.must_ask = True

    def ask_again(self) -> None:
        """Read the clocks at the next use."""
        self.must_ask = True

    def now(self, ask: Callable[[str], Row]) -> ServerTime:
        """Return the current times. `ask` runs a statement outside any transaction, and returns its first row."""
        start = self.read_local()
        if self.must_ask or self.asked_at is None or start - self.asked_at >= TTL_MS:
            self._read(ask)
        return self._extrapolate()

    def _extrapolate(self) -> ServerTime:
        return self.answer._replace(now=self.answer.now + self.read_local() - (self.asked_at or 0))

    def _read(self, ask: Callable[[str], Row]) -> None:
        for _ in range(MAX_READINGS):
            start = self.read_local()
            try:
                row = ask(FIRST_SQL if self.asked_at is None else READ_SQL)
            except errors.UndefinedTable:  # before the first migrations
                row = (*ask(SERVER_TIME_SQL), 0, 0)
            round_trip = self.read_local() - start
            if round_trip < MIN_DRIFT_MS:  # a slower one does not say when the answer was made
                break
        server_now, drift, last_beat = map(int, row)
        asked_at = start + round_trip // 2  # assume that the answer was made halfway
        expected = last_beat if self.asked_at is None else sum(self.answer) + asked_at - self.asked_at
        if expected - (server_now + drift) >= MIN_DRIFT_MS:
            drift = expected - server_now
            with suppress(errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):  # a later connection stores it
                ask(SET_SQL.format(drift))
        self.answer, self.asked_at, self.must_ask = ServerTime(server_now, drift), asked_at, False
