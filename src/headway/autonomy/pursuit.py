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
from headway.agents.loop.context import Runtime
from headway.agents.loop.driver import MAX_STORAGE_REFUSALS, STORAGE_RETRY_S, drive
from headway.agents.loop.structured import FormResult, fill_form
from headway.agents.models.client import ModelFailed
from headway.autonomy.next_step import advance
from headway.autonomy.pursuit_step import AskQuestion, NextAction, PursuitStep, WorkInline
from headway.ledger.errors import CommitUncertain, StorageError
from headway.ledger.goal import GoalLimits
from headway.ledger.job import Job
from headway.storage.stores import goals as goal_store
from headway.storage.stores import halts as halt_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.pursuit")


class QuestionAnswer(NamedTuple):
    """What a model had to say to a question of ours."""

    ask: AskQuestion
    filled: FormResult[Any]


async def pursue(means: Runtime, limits: GoalLimits, job: Job) -> None:
    told: QuestionAnswer | None = None
    while True:
        need = await commit_step(means, partial(apply_step, means=means, limits=limits, job=job), told)
        told = None
        means.nudge()  # sub-agents may have been begun
        match need:
            case None:
                return
            case WorkInline(run):
                await drive(means, run, answers=1)  # whatever else has happened to the goal is seen to in between
            case AskQuestion():
                told = QuestionAnswer(need, await fill_form(means.models, need.question))


async def commit_step(means: Runtime, work: Callable[..., NextAction], told: QuestionAnswer | None) -> NextAction:
    """Stored, or not gone on with: a database that is away is waited for, one that refuses is asked again and then believed."""
    refusals = 0
    while True:
        try:
            return await means.database.write(partial(work, told=told))
        except StorageError as error:
            if isinstance(error, CommitUncertain):
                told = None  # perhaps it is stored and paid for: the rows tell, and nothing is planned or paid twice
            refusals += not error.is_transient
            if refusals >= MAX_STORAGE_REFUSALS:
                raise
            log.warning("a goal waits for the database: %s", error)
            await asyncio.sleep(STORAGE_RETRY_S)


def apply_step(tx: Transaction, means: Runtime, limits: GoalLimits, job: Job, told: QuestionAnswer | None) -> NextAction:
    """One step. Only whoever holds the job may take it. Nothing: it rests, or has ended."""
    held = jobs.find_owned(tx, job.tenant_id, job.id, means.owner)
    run = run_store.find(tx, job.tenant_id, job.id)
    goal = goal_store.find_locked(tx, job.tenant_id, run.goal_id) if run and run.goal_id is not None else None
    if run is None or goal is None:
        return None
    if held is None:
        if told and told.filled.call:  # what was asked is of no use any more, and has to be paid for all the same
            spending.settle_late(tx, job.tenant_id, run.id, told.filled.call, means.limits.budget)
        return None
    if goal.ended:
        jobs.close(tx, job.tenant_id, job.id, "completed", "")
        return None
    stage = PursuitStep(tx, means, limits, held, run, goal)
    if told:
        apply_answer(stage, told)
    if halt_store.find_active(tx):
        return None
    while stage.is_running:
        need = advance(stage)
        if need is not None:
            return stage.settle(need)
        stage.reload()
    return None


def apply_answer(stage: PursuitStep, told: QuestionAnswer) -> None:
    """What it cost is booked whatever it says. A failure that may pass is tried again later, but not for ever. What does not fit
    is sent back: that is another question, to be asked only if it may be."""
    if told.filled.call:
        stage.charge(told.filled.call)
    failure = told.filled.failure
    if failure and is_transient(failure) and not stage.is_last_attempt:
        stage.handle_transient_failure(failure)
        return
    stage.release()
    if told.filled.again:
        stage.again = told.ask._replace(question=told.filled.again)
        return
    told.ask.answered(stage, told.filled)
    stage.reload()
    if stage.is_running:
        stage.clear_failures()


def is_transient(failure: Exception) -> bool:
    return isinstance(failure, ModelFailed) and failure.passes


def fail_pursuit(tx: Transaction, job: Job, error: str) -> None:
    """A pursuit that a fault of ours ended, or that keeps bringing processes down."""
    run = run_store.find(tx, job.tenant_id, job.id)
    goal = goal_store.find_locked(tx, job.tenant_id, run.goal_id) if run and run.goal_id is not None else None
    if goal is None or (goal.status != "active" and goal.pause_kind != "budget"):  # what waits for money would go on by itself
        jobs.fail_permanently(tx, job, error)
    else:
        goal_store.end_cycle(tx, goal.tenant_id, goal.id, "interrupted")
        goals.pause_for_fault(tx, goal, job, error)
