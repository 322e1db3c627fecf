"""How the rest of Headway waits for the database. Transient failures are retried every RETRY_S, for as long as they last. Refusals,
which would recur, are retried up to a limit.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic
from typing import TypeVar

from headway.ledger.errors import StorageError

log = logging.getLogger("headway.storage")

T = TypeVar("T")

RETRY_S = 1.0
LOG_AGAIN_S = 60.0
MAX_REFUSALS = 3  # for the step of a run or goal: it stops rather than continue without a checkpoint


class StorageRetry:
    """The failures of one task: how many were refusals, and when one was last logged."""

    __slots__ = ("delay_s", "log_again_at", "logged", "max_refusals", "refusals", "task")

    def __init__(self, task: str, max_refusals: float = inf, delay_s: float = RETRY_S) -> None:
        self.task = task
        self.delay_s = delay_s
        self.max_refusals = max_refusals
        self.refusals = 0
        self.logged = ""
        self.log_again_at = 0.0

    async def wait(self, error: StorageError) -> None:
        """Wait before the next attempt, or raise the error if the limit of refusals is reached. An outage is logged when it starts
        and then once a minute, not at every attempt."""
        self.refusals += not error.is_transient
        if self.refusals >= self.max_refusals:
            raise error
        if str(error) != self.logged or monotonic() >= self.log_again_at:
            self.logged, self.log_again_at = str(error), monotonic() + LOG_AGAIN_S
            log.warning("%s waits for the database: %s", self.task, error)
        await asyncio.sleep(self.delay_s)


async def retry_storage(attempt: Callable[[], Awaitable[T]], task: str, max_refusals: float = inf, delay_s: float = RETRY_S) -> T:
    """Repeat a read or a write until it succeeds. A write must recognize that an earlier attempt was stored."""
    retry = StorageRetry(task, max_refusals, delay_s)
    while True:
        try:
            return await attempt()
        except StorageError as error:
            await retry.wait(error)


async def repeat_forever(step: Callable[[], Awaitable[None]], task: str, delay_s: float = RETRY_S) -> None:
    """Repeat a step of a background task until the task is canceled. No failure ends the task."""
    retry = StorageRetry(task, delay_s=delay_s)
    while True:
        try:
            await step()
        except StorageError as error:
            await retry.wait(error)
        except Exception:
            log.exception("a step of %s failed", task)
            await asyncio.sleep(delay_s)
