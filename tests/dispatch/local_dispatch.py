"""A dispatcher in the test's own process, honest or not, and engines that use the one that the fixture `dispatch` chose."""

import asyncio
import os
import random
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from headway.engine.engine import Engine
from headway.engine.external import Deliver, Dispatcher, DueJob, NotNow
from headway.storage.transaction import Transaction

VARIABLE = "TEST_DISPATCH"  # in the environment, so that it reaches other processes of a test
RETRY_S = 0.05
LATE_S = 0.3
HURRY_S = 0.25  # how often time passes for announcements that were lost
HURRY_MS = 4_000
WRONG_IDS = ("", "no such job", "\0", "é", "x" * 10_000, "'; DROP TABLE jobs; --")


class Faults(NamedTuple):
    """How likely each fault is."""

    refused: float = 0.0  # not accepted
    lost: float = 0.0  # accepted, but never delivered
    doubled: float = 0.0
    late: float = 0.0
    early: float = 0.0
    wrong: float = 0.0  # a job that does not exist, or another one, is delivered as well


HONEST = Faults()
DISHONEST = Faults(refused=0.02, lost=0.2, doubled=0.5, late=0.3, early=0.3, wrong=0.2)


class LocalDispatcher:
    """Delivers to any of the engines that serve it. All its engines run in one event loop."""

    def __init__(self, faults: Faults = HONEST) -> None:
        self.faults = faults
        self.chance = random.Random(7)
        self.receivers: list[Deliver] = []
        self.announced: list[DueJob] = []
        self.pending: set[asyncio.Task[None]] = set()
        self.refusals = 0  # deliveries that were answered with NotNow
        self.is_away = False

    async def announce(self, jobs: Sequence[DueJob]) -> list[str]:
        if self.is_away:
            raise ConnectionRefusedError("The dispatcher is away.")
        refused = [job.job_id for job in jobs if self._happens(self.faults.refused)]
        for job in jobs:
            if job.job_id in refused:
                continue
            self.announced.append(job)
            if self._happens(self.faults.wrong):
                self._deliver_soon(self.chance.choice((*WRONG_IDS, self.chance.choice(self.announced).job_id)), 0)
            if not self._happens(self.faults.lost):
                for _ in range(1 + self._happens(self.faults.doubled)):
                    self._deliver_soon(job.job_id, self._choose_delay(job.delay_ms / 1000))
        return refused

    async def serve(self, deliver: Deliver) -> None:
        self.receivers.append(deliver)
        try:
            await asyncio.Event().wait()
        finally:
            self.receivers.remove(deliver)

    def wipe(self) -> None:
        """Forget every job that was accepted."""
        for task in self.pending:
            task.cancel()

    def _happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    def _choose_delay(self, delay_s: float) -> float:
        early = 0.0 if self._happens(self.faults.early) else delay_s
        return early + (self.chance.random() * LATE_S if self._happens(self.faults.late) else 0.0)

    def _deliver_soon(self, job_id: str, delay_s: float) -> None:
        task = asyncio.create_task(self._deliver(job_id, delay_s))
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)

    async def _deliver(self, job_id: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        while True:
            if self.receivers:
                try:
                    return await self.chance.choice(self.receivers)(job_id)
                except NotNow:
                    self.refusals += 1
            await asyncio.sleep(RETRY_S)


# The dispatcher that the fixture chose: one for all engines of an event loop.
DISPATCHERS: "WeakKeyDictionary[asyncio.AbstractEventLoop, LocalDispatcher]" = WeakKeyDictionary()


def find_dispatcher() -> LocalDispatcher | None:
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return None
    faults = {"honest": HONEST, "dishonest": DISHONEST}[chosen]
    return DISPATCHERS.setdefault(asyncio.get_running_loop(), LocalDispatcher(faults))


class ChosenEngine(Engine):
    """An engine over the dispatcher that the fixture chose."""

    def start(self, dispatcher: Dispatcher | None = None, *, alone: bool = False) -> None:
        chosen = dispatcher or find_dispatcher()
        super().start(chosen, alone=alone)
        if isinstance(chosen, LocalDispatcher) and chosen.faults.lost:
            hurry(self)


def hurry(engine: Engine) -> None:
    """Let time pass faster for the repetition of lost announcements, as long as the engine runs."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(HURRY_S)
            await engine.database.write(age_announcements)

    engine.background.append(asyncio.create_task(repeat()))


def age_announcements(tx: Transaction, ms: int = HURRY_MS) -> None:
    # Without rows that others have locked: engines that do this at the same moment would deadlock.
    tx.run(
        f"""UPDATE jobs SET announce_at = announce_at - ? WHERE id IN (
                SELECT id FROM jobs WHERE state IN ('queued', 'delayed') AND announce_at > 0{tx.dialect.skip_locked})""",
        ms,
    )


def list_announce_times(tx: Transaction) -> dict[str, int]:
    """How long after its due time each waiting job is announced next, in milliseconds. Below 0: it is not announced yet."""
    rows = tx.all("SELECT id, announce_at - due_at FROM jobs WHERE state IN ('queued', 'delayed')")
    return {str(job_id): int(after_ms) for job_id, after_ms in rows}
