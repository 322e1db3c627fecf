"""Measures how late the event loop runs its callbacks. Whatever blocks the loop delays every request and every stream."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

INTERVAL_S = 0.5
MEASUREMENTS = 20  # of the last ten seconds
LATE_S = 0.25
PATIENCE_S = 5.0


class LoopLag:
    """The lag of the event loop. If every measurement of the last five seconds is late, the loop cannot do its work."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.recent: deque[float] = deque([0.0], MEASUREMENTS)
        self.late_since: float | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def worst(self) -> float:
        """The largest lag of the last ten seconds."""
        return max(self.recent)

    @property
    def late_s(self) -> float:
        """For how long the loop has been late, without a measurement in between that was not."""
        return 0.0 if self.late_since is None else self.now() - self.late_since

    @property
    def is_bearable(self) -> bool:
        return self.late_s < PATIENCE_S

    def start(self) -> None:
        due = self.now() + INTERVAL_S
        self.timer = asyncio.get_running_loop().call_later(INTERVAL_S, self.measure, due)

    def stop(self) -> None:
        if self.timer:
            self.timer.cancel()

    def measure(self, due: float) -> None:
        self.record(max(0.0, self.now() - due))
        self.start()

    def record(self, lag: float) -> None:
        self.recent.append(lag)
        if lag < LATE_S:
            self.late_since = None
        elif self.late_since is None:
            self.late_since = self.now() - lag
