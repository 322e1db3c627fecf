"""Says what a migration does, if it takes longer than a second."""

import threading
import time
from types import TracebackType
from typing import Final

from headway.storage.transaction import get_logger

FIRST_MESSAGE_S: Final = 1.0
NEXT_MESSAGE_S: Final = 10.0


class MigrationProgress:
    """Logs the current task after a second, then every ten seconds, and at the end how long everything took."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.has_ended = threading.Event()
        self.thread = threading.Thread(target=self._report, name="migration progress", daemon=True)

    def __enter__(self) -> "MigrationProgress":
        self.started_at = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.has_ended.set()
        self.thread.join()
        seconds = time.monotonic() - self.started_at
        if error is None and seconds >= FIRST_MESSAGE_S:
            get_logger().warning("the migration of the database took %.0f seconds", seconds)

    def _report(self) -> None:
        wait_s = FIRST_MESSAGE_S
        while not self.has_ended.wait(wait_s):
            get_logger().warning("migrating the database: %s", self.task)
            wait_s = NEXT_MESSAGE_S
