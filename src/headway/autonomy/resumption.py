"""Resumption after a crash: a model reviews each interrupted sub-goal before it continues."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from headway.actions.goals import goals
from headway.actions.runs import runs, sub_goals
from headway.agents.instructions.prompts import SUBMIT_RESUMPTION
from headway.agents.loop.structured import Form, FormResult, Question
from headway.autonomy import check_ins, prompts
from headway.autonomy.planner import Key
from headway.ledger.goal import Goal, SubGoal
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

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
