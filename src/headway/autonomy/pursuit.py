"""The pursuit of a goal: look at its rows, do the one next thing.

None planned → plan. Some ready → start them. One ended → judge it. Diverged → plan anew. All ended → judge the whole. Each step
is one transaction that ends where the world is needed: an answer from a model, or work on a sub-goal. Kill the process between
any two statements, pursue the same goal again, and it goes on.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from headway.actions import goals, jobs, spending
from headway.agents.loop import REFUSALS_BORNE, STORAGE_PATIENCE_S, drive
from headway.agents.models import ModelFailed
from headway.agents.structured import Filled, fill_in
from headway.agents.work import Means
from headway.autonomy.next_step import next_thing
from headway.autonomy.stage import Ask, Need, Stage, WorkInline
from headway.ledger.errors import CommitUncertain, StorageError
from headway.ledger.goal import GoalLimits
from headway.ledger.job import Job
from headway.storage import goal_store, halt_store, run_store
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.pursuit")


class Told(NamedTuple):
    """What a model had to say to a question of ours."""

    ask: Ask
    filled: Filled[Any]


async def pursue(means: Means, limits: GoalLimits, job: Job) -> None:
    told: Told | None = None
    while True:
        need = await step(means, partial(take, means=means, limits=limits, job=job), told)
        told = None
        means.nudge()  # sub-agents may have been begun
        match need:
            case None:
                return
            case WorkInline(run):
                await drive(means, run, answers=1)  # whatever else has happened to the goal is seen to in between
            case Ask():
                told = Told(need, await fill_in(means.models, need.question))


async def step(means: Means, work: Callable[..., Need], told: Told | None) -> Need:
    """Stored, or not gone on with: a database that is away is waited for, one that refuses is asked again and then believed."""
    refusals = 0
    while True:
        try:
            return await means.database.write(partial(work, told=told))
        except StorageError as error:
            if isinstance(error, CommitUncertain):
                told = None  # perhaps it is stored and paid for: the rows tell, and nothing is planned or paid twice
            refusals += not error.may_pass
            if refusals >= REFUSALS_BORNE:
                raise
            log.warning("a goal waits for the database: %s", error)
            await asyncio.sleep(STORAGE_PATIENCE_S)


def take(tx: Transaction, means: Means, limits: GoalLimits, job: Job, told: Told | None) -> Need:
    """One step. Only whoever holds the job may take it. Nothing: it rests, or has ended."""
    held = jobs.held_by(tx, job.tenant_id, job.id, means.owner)
    run = run_store.get(tx, job.tenant_id, job.id)
    goal = goal_store.get_locked(tx, job.tenant_id, run.goal_id) if run and run.goal_id is not None else None
    if run is None or goal is None:
        return None
    if held is None:
        if told and told.filled.call:  # what was asked is of no use any more, and has to be paid for all the same
            spending.settle_late(tx, job.tenant_id, run.id, told.filled.call, means.limits.budget)
        return None
    if goal.ended:
        jobs.close(tx, job.tenant_id, job.id, "completed", "")
        return None
    stage = Stage(tx, means, limits, held, run, goal)
    if told:
        hear(stage, told)
    if halt_store.in_force(tx):
        return None
    while stage.going:
        need = next_thing(stage)
        if need is not None:
            return stage.settle(need)
        stage.look_again()
    return None


def hear(stage: Stage, told: Told) -> None:
    """What it cost is booked whatever it says. A failure that may pass is tried again later, but not for ever. What does not fit
    is sent back: that is another question, to be asked only if it may be."""
    if told.filled.call:
        stage.charge(told.filled.call)
    failure = told.filled.failure
    if failure and passes(failure) and not stage.last_attempt:
        stage.set_back(failure)
        return
    stage.release()
    if told.filled.again:
        stage.again = told.ask._replace(question=told.filled.again)
        return
    told.ask.answered(stage, told.filled)
    stage.look_again()
    if stage.going:
        stage.progressed()


def passes(failure: Exception) -> bool:
    return isinstance(failure, ModelFailed) and failure.passes


def bury(tx: Transaction, job: Job, error: str) -> None:
    """A pursuit that a fault of ours ended, or that keeps bringing processes down."""
    run = run_store.get(tx, job.tenant_id, job.id)
    goal = goal_store.get_locked(tx, job.tenant_id, run.goal_id) if run and run.goal_id is not None else None
    if goal is None or (goal.status != "active" and goal.pause_kind != "budget"):  # what waits for money would go on by itself
        jobs.die(tx, job, error)
    else:
        goal_store.end_cycle(tx, goal.tenant_id, goal.id, "interrupted")
        goals.fault(tx, goal, job, error)
