"""How the rest of Headway waits for the database. Transient failures are retried for as long as they last, first after about
RETRY_S and then less often. Refusals, which would recur, are retried up to a limit.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic
from typing import NamedTuple, TypeVar

from headway.ledger.errors import DatabaseReadOnly, DatabaseUnreachable, StorageError
from headway.storage.database import DatabaseAccess
from headway.storage.transaction import Work

log = logging.getLogger("headway.storage")

T = TypeVar("T")

RETRY_S = 1.0
GROWTH, MAX_GROWTH = 1.5, 5.0  # of the delay, with each failure in a row
LOG_AGAIN_S = 60.0
LONGEST_OUTAGE_S = 300.0  # how long a job waits for a database that is away, before it is queued again
MAX_REFUSALS = 3  # for the step of a run or goal: it stops rather than continue without a checkpoint


class StorageRetry:
    """The failures of one task: how many were refusals, and when one was last logged."""

    __slots__ = ("delay_s", "failed_at", "failures", "log_again_at", "logged", "max_refusals", "refusals", "task")

    def __init__(self, task: str, max_refusals: float = inf, delay_s: float = RETRY_S) -> None:
        self.task = task
        self.delay_s = delay_s
        self.max_refusals = max_refusals
        self.refusals = 0
        self.failures = 0  # in a row
        self.failed_at = 0.0
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
        if monotonic() >= self.failed_at + 2 * MAX_GROWTH * self.delay_s:  # it has worked for a while
            self.failures = 0
        delay_s = self.delay_s * min(GROWTH**self.failures, MAX_GROWTH) * random.uniform(0.5, 1.5)  # noqa: S311  spreads the load
        self.failures = min(self.failures + 1, 100)
        self.failed_at = monotonic() + delay_s
        await asyncio.sleep(delay_s)


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


class PatientView(NamedTuple):
    """A view of a database for work that has no caller who could try again. It waits while the database is away, for up to
    LONGEST_OUTAGE_S. Work that was perhaps committed is not repeated."""

    view: DatabaseAccess
    delay_s: float = RETRY_S

    async def write(self, work: Work[T]) -> T:
        return await wait_for_database(lambda: self.view.write(work), self.delay_s)

    async def read(self, work: Work[T]) -> T:
        return await wait_for_database(lambda: self.view.read(work), self.delay_s)

    def of(self, tenant_id: int) -> "PatientView":
        return self._replace(view=self.view.of(tenant_id))


async def wait_for_database(attempt: Callable[[], Awaitable[T]], delay_s: float) -> T:
    """Repeat a read or a write while the database is away. Nothing was changed by the attempts that failed."""
    retry = StorageRetry("a job", delay_s=delay_s)
    give_up_at = inf
    while True:
        try:
            return await attempt()
        except (DatabaseUnreachable, DatabaseReadOnly) as error:
            give_up_at = min(give_up_at, monotonic() + LONGEST_OUTAGE_S)
            if monotonic() >= give_up_at:
                raise
            await retry.wait(error)
