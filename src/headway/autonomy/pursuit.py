"""The pursuit of a goal: look at its rows and do the one next thing.

No plan → plan. Sub-goals ready → start them. One ended → judge it. Diverged → replan. All ended → judge the whole. Each step is one
transaction, which ends where a model's answer or work on a sub-goal is needed. If the process is killed between any two statements,
pursuing the same goal again resumes it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from headway.actions import goals, jobs, spending
from headway.agents.loop.context import Runtime
from headway.agents.loop.driver import drive
from headway.agents.loop.structured import FormResult, fill_form
from headway.agents.models.client import ModelFailed
from headway.autonomy.next_step import advance
from headway.autonomy.pursuit_step import AskQuestion, NextAction, PursuitStep, WorkInline
from headway.ledger.errors import CommitUncertain, StorageError
from headway.ledger.goal import GoalLimits
from headway.ledger.job import Job
from headway.storage.retry import MAX_REFUSALS, StorageRetry
from headway.storage.stores import goals as goal_store
from headway.storage.stores import halts as halt_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction


class QuestionAnswer(NamedTuple):
    """A question and the model's answer to it."""

    ask: AskQuestion
    filled: FormResult[Any]


async def pursue(means: Runtime, limits: GoalLimits, job: Job) -> None:
    told: QuestionAnswer | None = None
    while True:
        need = await commit_step(means, partial(apply_step, means=means, limits=limits, job=job), told)
        told = None
        means.nudge()  # sub-agents may have been started
        match need:
            case None:
                return
            case WorkInline(run):
                await drive(means, run, answers=1)  # one answer at a time, so that other changes to the goal are handled in between
            case AskQuestion():
                told = QuestionAnswer(need, await fill_form(means.models, need.question))


async def commit_step(means: Runtime, work: Callable[..., NextAction], told: QuestionAnswer | None) -> NextAction:
    """Commit one step. Waits while the database is unreachable, and raises after MAX_REFUSALS refused writes."""
    retry = StorageRetry("a goal", MAX_REFUSALS)
    while True:
        try:
            return await means.database.write(partial(work, told=told))
        except StorageError as error:
            if isinstance(error, CommitUncertain):
                told = None  # it may be committed and charged; the rows show it, so nothing is planned or charged twice
            await retry.wait(error)


def apply_step(tx: Transaction, means: Runtime, limits: GoalLimits, job: Job, told: QuestionAnswer | None) -> NextAction:
    """Apply one step. Only the process that owns the job may do this. Returns None if the goal is waiting or has ended."""
    held = jobs.find_owned(tx, job.tenant_id, job.id, means.owner)
    run = run_store.find(tx, job.tenant_id, job.id)
    goal = goal_store.find_locked(tx, job.tenant_id, run.goal_id) if run and run.goal_id is not None else None
    if run is None or goal is None:
        return None
    if held is None:
        if told and told.filled.call:  # the answer is no longer needed, but its cost still counts
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
    """Charge the answer's cost and apply the answer.

    Transient failures are retried later, until the attempts are used up. An invalid answer leads to a follow-up question, which is
    asked only if there is budget.
    """
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
    """Pause a goal whose pursuit an internal error ended, or whose pursuit repeatedly crashed its worker."""
    run = run_store.find(tx, job.tenant_id, job.id)
    goal = goal_store.find_locked(tx, job.tenant_id, run.goal_id) if run and run.goal_id is not None else None
    if goal is None or (goal.status != "active" and goal.pause_kind != "budget"):  # new budget would resume the goal
        jobs.fail_permanently(tx, job, error)
    else:
        goal_store.end_cycle(tx, goal.tenant_id, goal.id, "interrupted")
        goals.pause_for_fault(tx, goal, job, error)
