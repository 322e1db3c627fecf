"""The job that pursues a goal, one step after the other."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from headway.actions.access import spending
from headway.actions.goals import goals
from headway.actions.runs import jobs, notices, runs
from headway.agents.checks.runner import CheckedSubject
from headway.agents.loop.calls import proofs
from headway.agents.loop.context import Runtime, load_context
from headway.agents.loop.driver import drive
from headway.agents.loop.job_handlers import fail_job
from headway.agents.loop.step import paying_for_broken_calls
from headway.agents.loop.structured import FormResult, fill_form
from headway.agents.models.client import ModelFailed
from headway.agents.tools.execution import Execution
from headway.autonomy import check_ins
from headway.autonomy.next_step import advance
from headway.autonomy.pursuit_step import AskQuestion, CommitWork, NextAction, PursuitStep, RunGoalChecks, WorkInline
from headway.engine.runner import JobHandler
from headway.ledger.errors import CommitUncertain, StorageError
from headway.ledger.job import Job
from headway.ledger.limits import GoalLimits
from headway.storage.retry import MAX_REFUSALS, StorageRetry
from headway.storage.stores import goals as goal_store
from headway.storage.stores import installation as halt_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction


class ChecksAnswer(NamedTuple):
    """Checks and what they found, or the failure of the model that was asked for an opinion."""

    request: RunGoalChecks
    checked: CheckedSubject | None
    failure: ModelFailed | None = None


class QuestionAnswer(NamedTuple):
    """A question and the model's answer to it."""

    request: AskQuestion
    result: FormResult[Any]


async def pursue(runtime: Runtime, limits: GoalLimits, job: Job) -> None:
    answer: QuestionAnswer | ChecksAnswer | None = None
    commit_error: str | None = None
    while True:
        work = partial(apply_step, runtime=runtime, limits=limits, job=job, commit_error=commit_error)
        action = await commit_step(runtime, work, answer)
        answer = commit_error = None
        runtime.nudge()  # sub-agents may have been started
        match action:
            case None:
                return
            case WorkInline(run):
                # One answer at a time, so that other changes to the goal are handled in between.
                await drive(runtime, run, answers=1)
            case CommitWork(run):
                from headway.agents.loop.delivery import commit_goal  # noqa: PLC0415  most goals have no repository

                commit_error = await commit_goal(runtime, run)
            case AskQuestion():
                async with paying_for_broken_calls(runtime, job.tenant_id, job.id):
                    answer = QuestionAnswer(action, await fill_form(runtime.models, action.question))
            case RunGoalChecks():
                async with paying_for_broken_calls(runtime, job.tenant_id, job.id):
                    answer = await run_checks(runtime, job, action)


async def run_checks(runtime: Runtime, job: Job, request: RunGoalChecks) -> ChecksAnswer:
    def load_execution(tx: Transaction) -> Execution:
        return load_context(tx, runtime, runs.get_run(tx, job.tenant_id, job.id)).execution

    execution = await runtime.database.read(load_execution)
    try:
        checked = await proofs.run_with_judge(runtime, execution, request.subject, is_last_attempt=request.is_last_attempt)
        return ChecksAnswer(request, checked)
    except ModelFailed as failure:
        return ChecksAnswer(request, None, failure)


async def commit_step(
    runtime: Runtime, work: Callable[..., NextAction], answer: QuestionAnswer | ChecksAnswer | None
) -> NextAction:
    """Commit one step. Waits while the database is unreachable, and raises after MAX_REFUSALS refused writes."""
    retry = StorageRetry("a goal", MAX_REFUSALS)
    while True:
        try:
            return await runtime.database.write(partial(work, answer=answer))
        except StorageError as error:
            if isinstance(error, CommitUncertain):
                answer = None  # it may be committed and charged; the rows show it, so nothing is planned or charged twice
            await retry.wait(error)


def apply_step(
    tx: Transaction,
    runtime: Runtime,
    limits: GoalLimits,
    job: Job,
    answer: QuestionAnswer | ChecksAnswer | None,
    commit_error: str | None = None,
) -> NextAction:
    """Apply one step. Only the process that owns the job may do this. Returns None if the goal is waiting or has ended."""
    owned_job = jobs.find_owned(tx, job.tenant_id, job.id, runtime.owner)
    run = run_store.find_run(tx, job.tenant_id, job.id)
    goal = goal_store.find_locked_goal(tx, job.tenant_id, run.goal_id) if run and run.goal_id is not None else None
    if run is None or goal is None:
        return None
    if owned_job is None:
        for call in list_calls(answer):  # the answer is no longer needed, but its cost still counts
            spending.settle_late(tx, job.tenant_id, run.id, call, runtime.limits.budget)
        return None
    if goal.ended:
        jobs.close(tx, job.tenant_id, job.id, "completed", "")
        return None
    step = PursuitStep(tx, runtime, limits, owned_job, run, goal)
    step.commit_error = commit_error
    if isinstance(answer, QuestionAnswer):
        apply_answer(step, answer)
    elif answer:
        apply_checks(step, answer)
    if halt_store.find_active(tx):
        return None
    while step.is_running:
        action = advance(step)
        if action is not None:
            return step.settle(action)
        step.reload()
    return None


def list_calls(answer: QuestionAnswer | ChecksAnswer | None) -> Sequence[ModelCall]:
    if isinstance(answer, QuestionAnswer):
        return (answer.result.call,) if answer.result.call else ()
    return answer.checked.calls if answer and answer.checked else ()


def apply_checks(step: PursuitStep, answer: ChecksAnswer) -> None:
    """Charge the opinions of models, and apply what the checks found."""
    for call in list_calls(answer):
        step.charge(call)
    if answer.checked is None:
        assert answer.failure is not None
        step.handle_transient_failure(answer.failure)
        return
    step.release()
    answer.request.apply_receipt(step, answer.checked.receipt)
    step.reload()
    if step.is_running:
        step.clear_failures()


def apply_answer(step: PursuitStep, answer: QuestionAnswer) -> None:
    """Charge the answer's cost and apply the answer.

    Transient failures are retried later, until the attempts are used up. An invalid answer leads to a follow-up question, which is
    asked only if there is budget.
    """
    if answer.result.call:
        step.charge(answer.result.call)
    failure = answer.result.failure
    if failure and is_transient(failure) and not step.is_last_attempt:
        step.handle_transient_failure(failure)
        return
    step.release()
    if answer.result.follow_up:
        step.follow_up = answer.request._replace(question=answer.result.follow_up)
        return
    answer.request.apply_answer(step, answer.result)
    step.reload()
    if step.is_running:
        step.clear_failures()


def is_transient(failure: Exception) -> bool:
    return isinstance(failure, ModelFailed) and failure.is_transient


def fail_pursuit(tx: Transaction, job: Job, error: str) -> None:
    """Pause a goal whose pursuit an internal error ended, or whose pursuit repeatedly crashed its worker."""
    run = run_store.find_run(tx, job.tenant_id, job.id)
    goal = goal_store.find_locked_goal(tx, job.tenant_id, run.goal_id) if run and run.goal_id is not None else None
    if goal is None or (goal.status != "active" and goal.pause_kind != "budget"):  # new budget would resume the goal
        jobs.fail_permanently(tx, job, error)
    else:
        goal_store.end_cycle(tx, goal.tenant_id, goal.id, "interrupted")
        goals.pause_for_fault(tx, goal, job, error)


# Handlers for the engine's jobs that pursue goals and notify the operator.


def build_handlers(runtime: Runtime, limits: GoalLimits, notify: tuple[str, ...], home: str) -> dict[str, JobHandler]:
    return {
        goals.JOB_KIND: JobHandler(lambda job: pursue(runtime.of(job.tenant_id), limits, job), fail_pursuit),
        notices.JOB_KIND: JobHandler(lambda job: check_ins.deliver(runtime.of(job.tenant_id), notify, home, job), fail_job),
    }
