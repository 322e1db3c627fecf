"""After a crash: what was half done is looked at by the agent before it goes on."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from headway.actions import goals, journal, runs, sub_goals
from headway.agents.prompts import SUBMIT_RESUMPTION
from headway.agents.structured import Filled, Form, Question
from headway.autonomy import check_ins
from headway.autonomy import goal_prompts as prompts
from headway.autonomy.planner import Key
from headway.ledger.goal import Goal, SubGoal
from headway.storage import run_store
from headway.storage.transaction import Transaction

Resumption = Literal["resume", "retry", "replan"]


class HalfDone(Form):
    id: Annotated[Key, Field(description="#12")]
    action: Resumption = "resume"
    reason: str = ""


class ResumptionForm(Form):
    sub_goals: list[HalfDone] = []


def about(goal: Goal, half_done: Sequence[SubGoal]) -> Question[ResumptionForm]:
    return Question("mid", prompts.RESUMER, prompts.half_done(goal, half_done), SUBMIT_RESUMPTION, ResumptionForm)


def apply(tx: Transaction, goal: Goal, half_done: Sequence[SubGoal], filled: Filled[ResumptionForm]) -> None:
    """Who cannot be asked is taken to go on: nothing that has ended is lost or repeated by that. The time in which nobody worked
    counts against nobody."""
    answers = {one.id.removeprefix("#"): one for one in filled.form.sub_goals} if filled.form else {}
    decided: dict[str, Resumption] = {}
    for found in half_done:
        answer = answers.get(str(found.id))
        decided[str(found.id)] = answer.action if answer else "resume"
        one = sub_goals.change(tx, found, interrupted=0, checked_at=tx.now, progress_at=tx.now)
        if answer and answer.action == "retry":
            run = run_store.get(tx, one.tenant_id, one.run_id or "")
            if run:
                check_ins.begin_anew(tx, one, run)
        elif answer and answer.action == "replan":  # the new plan lets its agents go on, or does without them
            goals.save(tx, goal._replace(replan_why=f"After an interruption, #{one.id} no longer fits: {answer.reason}"))
        else:
            runs.let_go(tx, one.tenant_id, one.id)
    journal.append(tx, goal.tenant_id, goal.id, "recovered", {"sub_goals": decided})
