"""A goal followed until it ends or is paused. If nobody else is at work on the database, it is pursued here meanwhile."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

from headway.actions import goal_views, halts
from headway.actions.feed import patience
from headway.assembly import Headway
from headway.ledger.errors import StorageError
from headway.ledger.job import LEASE_MS
from headway.settings import Settings
from headway.storage import halt_store, job_store, run_store
from headway.storage.transaction import Transaction
from headway.surfaces.cli.calling import Call
from headway.surfaces.cli.feed_events import events
from headway.surfaces.cli.goal_drawing import LAST_ENTRIES
from headway.surfaces.cli.goal_view import GoalView, goal_view
from headway.surfaces.log_lines import log_in_words

LOOK_AROUND_S = 1.0
RUNS = 500
LEAVING = (signal.SIGINT, signal.SIGTERM)


def follow(call: Call, tenant_id: int, goal_id: int) -> dict[str, Any]:
    """The goal as it is in the end, or as it was when whoever watched left."""
    return asyncio.run(Following(call.settings(), tenant_id, goal_id).run(quiet=call.as_json))


class Following:
    def __init__(self, settings: Settings, tenant_id: int, goal_id: int) -> None:
        self.settings = settings
        self.tenant_id = tenant_id
        self.goal_id = goal_id
        log_in_words(settings)
        self.headway = Headway(settings)
        self.pursuing = False

    async def run(self, *, quiet: bool) -> dict[str, Any]:
        self.headway.start()
        try:
            with goal_view(quiet=quiet) as view:
                await self.watch(view)
            return await self.headway.database.read(self.look)
        finally:
            try:
                await self.headway.stop_agents()  # what is unfinished is handed back
            finally:
                self.headway.close()

    async def watch(self, view: GoalView) -> None:
        channel, reader = await self.headway.feed.open(self.tenant_id, None, None)
        loop = asyncio.get_running_loop()
        for one in LEAVING:
            loop.add_signal_handler(one, reader.leave)
        goal, entries = await self.headway.database.read(lambda tx: (self.look(tx), self.last_entries(tx)))
        view.begin(goal, entries)
        if goal["status"] == "active":
            known = entries[-1]["n"] if entries else 0
            happening = events(self.headway.feed.follow(channel, reader))
            tasks = {loop.create_task(self.show(view, happening, known)), loop.create_task(self.stand_in(view))}
            ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            for task in ended:
                task.result()  # a model that is not there, say
        for one in LEAVING:
            loop.remove_signal_handler(one)
        self.headway.feed.leave(channel, reader)

    async def show(self, view: GoalView, happening: AsyncIterator[tuple[str, dict[str, Any]]], known: int) -> None:
        """What happens, until it is active no more or whoever watches leaves."""
        async for kind, data in happening:
            if kind == "journal_appended" and data["goal_id"] == self.goal_id and data["entry"]["n"] > known:
                view.entry(data["entry"])
            elif kind == "goal_changed" and data["goal"]["id"] == self.goal_id:
                view.update(await self.headway.database.read(self.look))
                if data["goal"]["status"] != "active":
                    return
            elif kind in ("halted", "unhalted"):
                view.note("Everything is halted." if kind == "halted" else "Everything goes on.")

    async def stand_in(self, view: GoalView) -> None:
        """Pursue it here as soon as nobody else would. Done with that when everything is halted."""
        while True:
            try:
                halted, others = await self.headway.database.read(look_around)
                if self.pursuing and halted and not self.headway.engine.tasks:
                    await self.headway.database.read(halts.check)
                elif not self.pursuing and not halted and not others:
                    await self.pursue()
                    view.note("Nobody else is at work on this database: it is pursued here.")
                elif self.pursuing and await self.headway.database.read(lambda tx: job_store.has_orphans(tx, LEASE_MS)):
                    await self.adopt()  # whoever pursued it before is no more
            except StorageError as error:
                await patience(error)
            await asyncio.sleep(LOOK_AROUND_S)

    async def pursue(self) -> None:
        if self.headway.warming is None:
            self.headway.start_agents(alone=True)
        await self.headway.agents_ready()
        await self.adopt()
        self.pursuing = True

    async def adopt(self) -> None:
        for run_id in await self.headway.database.write(self.take_over):
            self.headway.engine.adopt(run_id)

    def take_over(self, tx: Transaction) -> list[str]:
        """Its runs; what a process that is no more has left behind of them is queued again."""
        found = [run.id for run in run_store.page(tx, self.tenant_id, None, RUNS, self.goal_id) if not run.ended]
        self.headway.engine.recover(tx, found)
        return found

    def look(self, tx: Transaction) -> dict[str, Any]:
        return goal_views.show(tx, self.tenant_id, self.goal_id, self.settings.goals)

    def last_entries(self, tx: Transaction) -> list[dict[str, Any]]:
        return [entry.as_json() for entry in goal_views.entries(tx, self.tenant_id, self.goal_id, LAST_ENTRIES)]


def look_around(tx: Transaction) -> tuple[bool, int]:
    """Whether everything is halted, and how many others are at work."""
    return halt_store.in_force(tx) is not None, job_store.workers_alive(tx, LEASE_MS)
