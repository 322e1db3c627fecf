"""Clocks: the current time, and the clock that measures leases, heartbeats and delays.

Setting a machine's clock changes the time, not how long something has lasted. On SQLite, where all processes share a machine,
durations follow the machine's boot clock; a transaction's `drift` is how far that clock is ahead of its `now`. On Postgres
processes may run on different machines, so all of them use the server's clock: see postgres/server_clock.py.
"""

import sys
import time
from collections.abc import Callable

from headway.storage.transaction import DriftReader, Transaction

Clock = Callable[[], int]

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
MIN_DRIFT_MS = 1_000  # smaller differences are normal between clocks
SERVER_TIME_SQL = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint"


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def read_steady_ms() -> int:
    """Read the boot clock, which all processes of a machine share. On Linux it also counts the time that the machine sleeps."""
    return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic_ns()) // 1_000_000


def no_drift(_tx: Transaction) -> int:
    """Return 0, for clocks that do not jump."""
    return 0


def drop_small_drift(drift: int) -> int:
    return drift if abs(drift) >= MIN_DRIFT_MS else 0


def build_machine_drift() -> DriftReader:
    """Build the drift reader for SQLite. It compares the boot clock with the offset stored since the machine's last boot."""
    offsets: list[int] = []

    def drift(tx: Transaction) -> int:
        if not offsets:
            boot = read_boot_id()
            row = tx.one("SELECT ahead_ms FROM machine_clocks WHERE boot_id = ?", boot)
            if row is None:
                store_boot_offset(tx, boot)
                return 0
            offsets.append(int(row[0]))  # safe to cache before the commit: a later writer would store nearly the same
        return drop_small_drift(offsets[0] + read_steady_ms() - tx.now)

    return drift


def store_boot_offset(tx: Transaction, boot: str) -> None:
    """Store the offset between the boot clock and the time. The first writing transaction after a boot does this."""
    if boot and not tx.read_only:
        tx.run("DELETE FROM machine_clocks")
        tx.run("INSERT INTO machine_clocks (boot_id, ahead_ms) VALUES (?, ?)", boot, tx.now - read_steady_ms())


def read_boot_id() -> str:
    """Identify the machine's current boot, or return an empty string where the system does not say."""
    try:
        with open(BOOT_ID_PATH, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
