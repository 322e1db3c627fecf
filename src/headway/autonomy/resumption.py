"""Resumption after a crash: a model reviews each interrupted sub-goal before it continues."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from headway.actions import goals, journal, runs, sub_goals
from headway.agents.loop.structured import Form, FormResult, Question
from headway.agents.prompts import SUBMIT_RESUMPTION
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


def build_question(goal: Goal, half_done: Sequence[SubGoal]) -> Question[ResumptionForm]:
    return Question("mid", prompts.RESUMER, prompts.render_interrupted(goal, half_done), {}, SUBMIT_RESUMPTION, ResumptionForm)


def apply_decisions(tx: Transaction, goal: Goal, half_done: Sequence[SubGoal], filled: FormResult[ResumptionForm]) -> None:
    """Apply the review's decision for each interrupted sub-goal.

    Without a decision it resumes, which neither loses nor repeats completed work. The downtime does not count toward any timeout.
    """
    answers = {one.id.removeprefix("#"): one for one in filled.form.sub_goals} if filled.form else {}
    decided: dict[str, ResumptionAction] = {}
    for found in half_done:
        answer = answers.get(str(found.id))
        decided[str(found.id)] = answer.action if answer else "resume"
        one = sub_goals.change(tx, found, interrupted=0, checked_at=tx.now, progress_at=tx.now)
        if answer and answer.action == "retry":
            run = run_store.find(tx, one.tenant_id, one.run_id or "")
            if run:
                check_ins.restart(tx, one, run)
        elif answer and answer.action == "replan":  # the new plan decides whether its agents continue
            goals.save(tx, goal._replace(replan_why=f"After an interruption, #{one.id} no longer fits: {answer.reason}"))
        else:
            runs.release_workers(tx, one.tenant_id, one.id)
    journal.append(tx, goal.tenant_id, goal.id, "recovered", {"sub_goals": decided})
