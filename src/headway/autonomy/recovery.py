"""Recovery of goals after a crash: mark interrupted sub-goals once, notify the operator, and restart the goals one by one.

Before an interrupted sub-goal continues, a model reviews it.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Annotated, Literal

from pydantic import Field

from headway.actions.goals import goals
from headway.actions.runs import jobs, notices, runs, sub_goals
from headway.actions.runs.notices import NoticeSubject
from headway.agents.instructions.prompts import SUBMIT_RESUMPTION
from headway.agents.loop.structured import Form, FormResult, Question
from headway.autonomy import check_ins, prompts
from headway.autonomy.planner import Key
from headway.ledger.events import Event, encode_json
from headway.ledger.goal import Goal, SubGoal
from headway.ledger.job import Job
from headway.ledger.run import Run
from headway.ledger.text import to_one_line
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

GOALS_LIMIT = 10


def recover_goals(tx: Transaction, recovered_jobs: Sequence[Job], stagger_ms: int) -> None:
    """Recover the goals among jobs that the engine took over from a dead process. Restarts are staggered across all tenants."""
    start_times = count(tx.now, stagger_ms)
    for tenant_id in dict.fromkeys(job.tenant_id for job in recovered_jobs):
        notify_tenant(tx, tenant_id, [job for job in recovered_jobs if job.tenant_id == tenant_id], start_times)


def notify_tenant(tx: Transaction, tenant_id: int, recovered_jobs: Sequence[Job], start_times: Iterator[int]) -> None:
    """Emit one event for the tenant's jobs, and send one notice if goals were among them."""
    runs = [run for job in recovered_jobs if (run := run_store.find_run(tx, tenant_id, job.id))]
    goal_ids = {run.goal_id for run in runs if run.goal_id is not None}
    candidates = [goal_store.find_goal(tx, tenant_id, goal_id) for goal_id in goal_ids]
    open_goals = sorted((goal for goal in candidates if goal and not goal.ended), key=lambda goal: (goal.priority, goal.id))
    for goal in open_goals:
        goal_runs = [run for run in runs if run.goal_id == goal.id]
        interrupted_ids = mark_interrupted(tx, goal, goal_runs)
        if goal.status == "active":
            requeue_goal(tx, goal, [run for run in goal_runs if run.sub_goal_id in interrupted_ids], next(start_times))
    for job in recovered_jobs:
        emit_recovered_job(tx, job, next((run for run in runs if run.id == job.id), None))
    data = {"runs": len(recovered_jobs), "goals": len(open_goals), "at": tx.now // 1000}
    tx.emit(Event(tenant_id, "recovered", encode_json(data)))
    if open_goals:
        names = "; ".join(
            f"#{goal.id} “{to_one_line(goal.description)[:80]}” ({format_agents(runs, goal)})" for goal in open_goals[:GOALS_LIMIT]
        )
        more = f" and {len(open_goals) - GOALS_LIMIT} more" if len(open_goals) > GOALS_LIMIT else ""
        subject = NoticeSubject(goal_id=open_goals[0].id if len(open_goals) == 1 else None)
        notices.notify(tx, tenant_id, "recovered", f"Interrupted, resuming from the last checkpoint: {names}{more}.", subject)


def emit_recovered_job(tx: Transaction, job: Job, run: Run | None) -> None:
    """Emit that a job was taken over, as an event of its turn."""
    turn_id, conversation_id = (run.turn_id, run.conversation_id) if run else (None, 0)
    data = {"job_id": job.id, "kind": job.kind, "turn_id": turn_id, "goal_id": run.goal_id if run else None}
    tx.emit(Event(job.tenant_id, "job_recovered", encode_json(data), conversation_id, turn_id, f"job:{job.id}"))


def mark_interrupted(tx: Transaction, goal: Goal, runs: Sequence[Run]) -> set[int]:
    """Record that the goal's cycle was interrupted, and mark its running sub-goals for review. Returns their ids."""
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "interrupted")
    sub_goal_ids = {run.sub_goal_id for run in runs}
    interrupted = [
        sub_goal
        for sub_goal in goal_store.list_sub_goals(tx, goal.tenant_id, goal.id)
        if sub_goal.status == "in-progress" and sub_goal.id in sub_goal_ids
    ]
    for sub_goal in interrupted:
        sub_goals.change_sub_goal(tx, sub_goal, interrupted=1)
    data = {"agents": [run.role for run in runs], "sub_goals": [sub_goal.id for sub_goal in interrupted]}
    sub_goals.append(tx, goal.tenant_id, goal.id, "interrupted", data)
    return {sub_goal.id for sub_goal in interrupted}


def requeue_goal(tx: Transaction, goal: Goal, runs: Sequence[Run], due_at: int) -> None:
    """Queue the goal's pursuit at its place in the staggered restart, even if it was only waiting for sub-agents.

    Sub-agents on interrupted sub-goals wait for the review. Agents that a sub-agent started without waiting continue.
    """
    for run in runs:
        if not run.is_main:
            jobs.delay(tx, jobs.get_locked_job(tx, run.tenant_id, run.id))
    pursuit = job_store.find_locked_job(tx, goal.tenant_id, goal.run_id or "")
    if pursuit and (pursuit.state == "queued" or (pursuit.state == "delayed" and not pursuit.attempts)):
        jobs.move(tx, pursuit, "queued", due_at)


def format_agents(runs: Sequence[Run], goal: Goal) -> str:
    """List which of the goal's agents were running."""
    return ", ".join("main agent" if run.is_main else run.role for run in runs if run.goal_id == goal.id)


# The review of what was interrupted: a model decides about each sub-goal before it continues.

ResumptionAction = Literal["resume", "retry", "replan"]


class InterruptedSubGoal(Form):
    id: Annotated[Key, Field(description="#12")]
    action: ResumptionAction = "resume"
    reason: str = ""


class ResumptionForm(Form):
    sub_goals: list[InterruptedSubGoal] = []


def build_question(goal: Goal, interrupted: Sequence[SubGoal]) -> Question[ResumptionForm]:
    return Question("mid", prompts.RESUMER, prompts.render_interrupted(goal, interrupted), {}, SUBMIT_RESUMPTION, ResumptionForm)


def apply_decisions(tx: Transaction, goal: Goal, interrupted: Sequence[SubGoal], result: FormResult[ResumptionForm]) -> None:
    """Apply the review's decision for each interrupted sub-goal.

    Without a decision it resumes, which neither loses nor repeats completed work. The downtime does not count toward any timeout.
    """
    answers = {sub_goal.id.removeprefix("#"): sub_goal for sub_goal in result.form.sub_goals} if result.form else {}
    decisions: dict[str, ResumptionAction] = {}
    for sub_goal in interrupted:
        answer = answers.get(str(sub_goal.id))
        decisions[str(sub_goal.id)] = answer.action if answer else "resume"
        resumed = sub_goals.change_sub_goal(tx, sub_goal, interrupted=0, checked_at=tx.now, progress_at=tx.now)
        if answer and answer.action == "retry":
            run = run_store.find_run(tx, resumed.tenant_id, resumed.run_id or "")
            if run:
                check_ins.restart(tx, resumed, run)
        elif answer and answer.action == "replan":  # the new plan decides whether its agents continue
            goals.save_goal_and_emit(
                tx, goal._replace(replan_why=f"After an interruption, #{resumed.id} no longer fits: {answer.reason}")
            )
        else:
            runs.release_workers(tx, resumed.tenant_id, resumed.id)
    sub_goals.append(tx, goal.tenant_id, goal.id, "recovered", {"sub_goals": decisions})
