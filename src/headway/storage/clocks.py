"""What time it is, and the clock that leases, signs of life and delays are kept by.

Somebody who sets a machine's clock changes what time it is, not how long something has lasted. On SQLite, where all processes
share a machine, what lasts is kept by what the machine counts since it was started: a transaction's `drift` says how far that is
ahead of its `now`. On Postgres they may be anywhere, and the server's clock is everybody's.
"""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.storage.transaction import Transaction

Clock = Callable[[], int]
DriftReader = Callable[["Transaction"], int]

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
MIN_DRIFT_MS = 1_000  # what clocks that nobody set differ by
SERVER_CLOCK_TTL_MS = 1_000
SERVER_TIME_SQL = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint"


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def read_steady_ms() -> int:
    """What the machine counts, the same in all its processes. Where it can say, also while it sleeps: a lease does not."""
    return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic_ns()) // 1_000_000


def no_drift(_tx: "Transaction") -> int:
    """For clocks that do not jump."""
    return 0


def drop_small_drift(drift: int) -> int:
    return drift if abs(drift) >= MIN_DRIFT_MS else 0


def build_machine_drift() -> DriftReader:
    """For SQLite."""
    known: list[int] = []

    def drift(tx: "Transaction") -> int:
        if not known:
            boot = read_boot_id()
            row = tx.one("SELECT ahead_ms FROM machine_clocks WHERE boot_id = ?", boot)
            if row is None:
                store_boot_offset(tx, boot)
                return 0
            known.append(int(row[0]))  # stored, or about to be: who writes it anew if it is not will say nearly the same
        return drop_small_drift(known[0] + read_steady_ms() - tx.now)

    return drift


def store_boot_offset(tx: "Transaction", boot: str) -> None:
    """The first since the machine was started that may write says what its count is to be added to."""
    if boot and not tx.read_only:
        tx.run("DELETE FROM machine_clocks")
        tx.run("INSERT INTO machine_clocks (boot_id, ahead_ms) VALUES (?, ?)", boot, tx.now - read_steady_ms())


def read_boot_id() -> str:
    """Which start of the machine this is; nothing where it does not say."""
    try:
        with open(BOOT_ID_PATH, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


class ServerClock:
    """Postgres' own. It is asked once a second, and in between this process measures by what does not jump either."""

    def __init__(self) -> None:
        self.asked_at = -SERVER_CLOCK_TTL_MS
        self.answer = 0

    def now(self, ask: Callable[[str], int]) -> int:
        began = read_steady_ms()
        if began - self.asked_at >= SERVER_CLOCK_TTL_MS:
            self.answer = ask(SERVER_TIME_SQL)
            self.asked_at = (began + read_steady_ms()) // 2  # it answered somewhere on the way
        return self.answer + read_steady_ms() - self.asked_at
