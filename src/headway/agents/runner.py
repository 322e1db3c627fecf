"""Driving the runs of this process: each is a task; what a process that is no more left behind is taken over."""

import asyncio
import logging
from functools import partial

from headway.actions import spending, turns
from headway.actions.feed import steadily
from headway.agents.job import Means
from headway.agents.loop import drive
from headway.agents.needs import Stop
from headway.ledger.errors import StorageError
from headway.ledger.run import Run
from headway.storage import halt_store, run_store
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.runner")

BEAT_S = 1.0
SWEEP_S = 1.0
LEASE_MS = 5_000  # a process that was not heard of for so long is no more


class Runner:
    def __init__(self, means: Means) -> None:
        self.means = means
        self.tasks: dict[str, tuple[Run, asyncio.Task[Stop]]] = {}
        self.background: list[asyncio.Task[None]] = []

    def start(self, *, sweeping: bool) -> None:
        """Begin to show signs of life; a long-lived process also takes over what others left behind."""
        steps = [self._beat, self._sweep] if sweeping else [self._beat]
        self.background = [asyncio.create_task(steadily(step)) for step in steps]

    def take(self, run: Run) -> "asyncio.Task[Stop]":
        """Drive a run whose owner we are."""
        task = asyncio.create_task(self._drive(run), name=f"run {run.id}")
        self.tasks[run.id] = (run, task)
        task.add_done_callback(lambda _: self.tasks.pop(run.id, None))
        return task

    def interrupt(self, turn_id: str) -> None:
        """Whatever the turn's runs wait for, they wait no longer. What is in the database decides how it goes on."""
        for run, task in self.tasks.values():
            if run.turn_id == turn_id:
                task.cancel()

    async def stop(self) -> None:
        """A clean stop is not a crash: what is unfinished is handed back at once."""
        tasks = [*self.background, *(task for _, task in self.tasks.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.means.database.write(partial(run_store.hand_back, owner=self.means.owner))
        except StorageError as error:
            log.warning("nothing was handed back, it will be taken over when our lease has run out: %s", error)

    async def _drive(self, run: Run) -> Stop:
        try:
            stopped = await drive(self.means, run)
        except Exception:
            # A fault of ours: it would be the same again, so the run is left for a person to look at, not for the next sweep.
            log.exception("run %s stopped by a fault", run.id)
            await self.means.database.write(partial(fail, run=run, owner=self.means.owner))
            return Stop("failed")
        if stopped.why != "ended":
            log.info("run %s stopped here: %s", run.id, stopped.why)
            await self.means.database.write(partial(give_back, run=run, owner=self.means.owner))
        return stopped

    async def _beat(self) -> None:
        await asyncio.sleep(BEAT_S)
        if not self.tasks:
            return
        driven = dict(self.tasks)  # before we look: what begins meanwhile is not missing
        await self.means.database.write(partial(run_store.beat, owner=self.means.owner))
        ours = await self.means.database.read(partial(run_store.owned, owner=self.means.owner))
        for run_id, (_, task) in driven.items():
            if run_id not in ours:  # ended or taken over by somebody else
                task.cancel()

    async def _sweep(self) -> None:
        for run in await self.take_up():
            self.take(run)
        await asyncio.sleep(SWEEP_S)

    async def take_up(self, conversation: tuple[int, int] | None = None) -> list[Run]:
        """Become the owner of what was left behind: everything, or a tenant's conversation. It is yet to be driven."""
        taken = []
        for run in await self.means.database.read(self._left_behind):
            if run.id in self.tasks or conversation not in (None, (run.tenant_id, run.conversation_id)):
                continue
            if await self.means.database.write(partial(take_over, run=run, owner=self.means.owner)):
                log.info("run %s is taken up", run.id)
                taken.append(run._replace(owner=self.means.owner))
        return taken

    def _left_behind(self, tx: Transaction) -> list[Run]:
        if halt_store.in_force(tx):
            return []
        budget = self.means.limits.budget
        found = run_store.unfinished(tx, self.means.owner, tx.now - LEASE_MS)
        return [run for run in found if run.status != "waiting" or spending.has_room(tx, run.tenant_id, budget)]


def take_over(tx: Transaction, run: Run, owner: str) -> bool:
    run_store.beat(tx, owner)  # before anybody can see that it is ours
    return run_store.take_over(tx, run, owner)


def give_back(tx: Transaction, run: Run, owner: str) -> None:
    run_store.take_over(tx, run._replace(owner=owner), "")


def fail(tx: Transaction, run: Run, owner: str) -> None:
    found = run_store.get_locked(tx, run.tenant_id, run.id)
    if found and not found.ended and found.owner == owner:
        turns.fail(tx, found, "Something broke inside Headway; its log tells what.", "internal")
