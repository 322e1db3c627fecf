"""Follows a goal until it ends or pauses. If no other process works on the database, the goal is pursued in this process."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import click

from headway.actions.goals import views
from headway.actions.installation import halts
from headway.actions.runs import jobs, runs, waiting
from headway.feed import TENANT_MOVED, FeedEvent
from headway.ledger.errors import StorageError, WrongCell
from headway.ledger.text import to_one_line
from headway.process.assembly import Headway
from headway.settings import Settings
from headway.storage.retry import StorageRetry
from headway.storage.transaction import Transaction
from headway.surfaces.cli.context import Invocation
from headway.surfaces.cli.goal_view import LAST_ENTRIES, GoalView, open_goal_view
from headway.surfaces.log_lines import configure_plain_logging

ENGINE_POLL_S = 1.0
MAX_MISSED_ENTRIES = 500
MAX_RUNS = 500
PEOPLE_EVENTS = {"approval_requested", "approval_decided", "question_asked", "question_answered"}
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def follow_goal(invocation: Invocation, tenant_id: int, goal_id: int) -> dict[str, Any]:
    """Follow a goal and return its final state, or its state when the user stopped watching. If its tenant moves to another cell,
    follow it there."""
    last_shown = -1
    while True:
        follower = GoalFollower(invocation.settings(), tenant_id, goal_id, last_shown)
        try:
            return asyncio.run(follower.run(quiet=invocation.as_json))
        except WrongCell as error:
            click.echo(f"headway: {to_one_line(str(error))} The goal is followed there.", err=True)
            last_shown = follower.last_shown
            with invocation.open_ledger():  # finds the cell, whose settings are used from now on
                pass


class GoalFollower:
    def __init__(self, settings: Settings, tenant_id: int, goal_id: int, last_shown: int = -1) -> None:
        self.settings = settings
        self.tenant_id = tenant_id
        self.goal_id = goal_id
        self.last_shown = last_shown  # the number of the last journal entry that was shown; -1: none was
        configure_plain_logging(settings)
        self.headway = Headway(settings)
        self.database = self.headway.database.of(tenant_id)
        self.is_pursuing = False

    async def run(self, *, quiet: bool) -> dict[str, Any]:
        self.headway.start()
        try:
            with open_goal_view(quiet=quiet) as view:
                await self.watch(view)
            return await self.database.read(self.load_goal)
        finally:
            try:
                await self.headway.stop_agents()  # hands unfinished jobs back to the queue
            finally:
                self.headway.close()

    async def watch(self, view: GoalView) -> None:
        channel, reader = await self.headway.feed.open(self.tenant_id, None, None)
        loop = asyncio.get_running_loop()
        for signal_number in STOP_SIGNALS:
            loop.add_signal_handler(signal_number, reader.leave)
        goal, entries = await self.database.read(lambda tx: (self.load_goal(tx), self.load_last_entries(tx)))
        view.begin(goal, entries)
        self.last_shown = entries[-1]["n"] if entries else max(self.last_shown, 0)
        if goal["status"] == "active":
            batches = self.headway.feed.follow(channel, reader, text=False)
            tasks = {loop.create_task(self.show(view, batches)), loop.create_task(self.pursue_when_alone(view))}
            ended, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            for task in ended:
                task.result()  # raises the task's error, for example that the model is not available
        for signal_number in STOP_SIGNALS:
            loop.remove_signal_handler(signal_number)
        self.headway.feed.leave(channel, reader)

    async def show(self, view: GoalView, batches: AsyncIterator[list[FeedEvent]]) -> None:
        """Show events until the goal is no longer active or the user stops watching. Raise WrongCell if the tenant moves."""
        async for events in batches:
            for kind, data in [(event.kind, event.decode_data()) for event in events]:
                if kind == TENANT_MOVED:
                    raise WrongCell.from_event(data)
                if kind == "journal_appended" and data["goal_id"] == self.goal_id and data["entry"]["n"] > self.last_shown:
                    view.entry(data["entry"])
                    self.last_shown = data["entry"]["n"]
                elif kind == "goal_changed" and data["goal"]["id"] == self.goal_id:
                    view.update(await self.database.read(self.load_goal))
                    if data["goal"]["status"] != "active":
                        return
                elif kind in PEOPLE_EVENTS and data["goal_id"] == self.goal_id:
                    goal = await self.database.read(self.load_goal)
                    view.update(goal)
                    if wait := goal["waiting_for"]:
                        view.note(f"An agent waits for {wait['kind']} #{wait['id']}. {waiting.advise(**wait)}.")
                elif kind in ("halted", "unhalted"):
                    view.note("Everything is halted." if kind == "halted" else "The halt is lifted.")

    async def pursue_when_alone(self, view: GoalView) -> None:
        """Pursue the goal here once no other process works on the database. Raise Halted when a halt has stopped it."""
        retry = StorageRetry("the goal")
        while True:
            try:
                halted, worker_count = await self.database.read(load_engine_state)
                if self.is_pursuing and halted and not self.headway.engine.tasks:
                    await self.database.read(halts.check)
                elif not self.is_pursuing and not halted and not worker_count:
                    await self.pursue()
                    view.note("No other process works on this database, so the goal is pursued here.")
                elif self.is_pursuing and await self.database.read(jobs.has_orphans):
                    await self.adopt()  # the process that pursued it before has died
            except StorageError as error:
                await retry.wait(error)
            await asyncio.sleep(ENGINE_POLL_S)

    async def pursue(self) -> None:
        if self.headway.warming is None:
            self.headway.start_agents(alone=True)
        await self.headway.agents_ready()
        await self.adopt()
        self.is_pursuing = True

    async def adopt(self) -> None:
        for run_id in await self.database.write(self.requeue_runs):
            self.headway.engine.adopt(run_id)

    def requeue_runs(self, tx: Transaction) -> list[str]:
        """Return the ids of the goal's open runs, after requeuing runs whose process has died."""
        run_ids = [run.id for run in runs.list_runs(tx, self.tenant_id, None, MAX_RUNS, self.goal_id) if not run.ended]
        self.headway.engine.takeover.recover(tx, run_ids)
        return run_ids

    def load_goal(self, tx: Transaction) -> dict[str, Any]:
        return views.show_goal(tx, self.tenant_id, self.goal_id, self.settings.goals)

    def load_last_entries(self, tx: Transaction) -> list[dict[str, Any]]:
        """Load the last journal entries, or only the ones that were not shown yet."""
        limit = LAST_ENTRIES if self.last_shown < 0 else MAX_MISSED_ENTRIES
        entries = [entry.as_json() for entry in views.list_entries(tx, self.tenant_id, self.goal_id, limit)]
        return [entry for entry in entries if entry["n"] > self.last_shown]


def load_engine_state(tx: Transaction) -> tuple[bool, int]:
    """Return whether everything is halted, and how many other workers are alive."""
    return halts.find_active(tx) is not None, jobs.count_live_workers(tx)
