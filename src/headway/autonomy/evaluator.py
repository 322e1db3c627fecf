"""Judging outcomes: first by what can be measured, then by the cheap tier. An evaluator that fails is not a pass."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, StrictBool

from headway.agents.prompts import SUBMIT_EVALUATION, SUBMIT_VERDICT
from headway.agents.structured import Filled, Form, Question
from headway.autonomy import goal_prompts as prompts
from headway.ledger.goal import Divergence, Goal, SubGoal
from headway.ledger.run import dollars


class Judged(NamedTuple):
    divergence: Divergence
    reason: str
    by: str


class EvaluationForm(Form):
    divergence: Divergence
    reason: Annotated[str, Field(description="One sentence")] = ""


class VerdictForm(Form):
    met: StrictBool
    reason: Annotated[str, Field(description="What is missing, in one sentence")] = ""


def by_metric(one: SubGoal) -> Judged | None:
    """What needs no model to be seen."""
    if one.status == "failed":
        return Judged("major", f"It failed: {one.reason}", "metric")
    if one.cost_limit and one.cost > one.cost_limit:
        spent = f"${dollars(one.cost):.4f} of ${dollars(one.cost_limit):.4f}"
        return Judged("major", f"It cost more than it was allowed to: {spent}.", "metric")
    if not prompts.summary_of(one).strip():
        return Judged("major", "It ended without an outcome.", "metric")
    return None


def about_outcome(goal: Goal, one: SubGoal) -> Question[EvaluationForm]:
    return Question("cheap", prompts.EVALUATOR, prompts.outcome(goal, one), SUBMIT_EVALUATION, EvaluationForm)


def judged(filled: Filled[EvaluationForm]) -> Judged:
    if filled.form is None:
        return Judged("major", f"Its outcome could not be evaluated: {why_not(filled)}", "evaluator failed")
    return Judged(filled.form.divergence, filled.form.reason, "model")


def why_not(filled: Filled[EvaluationForm] | Filled[VerdictForm]) -> str:
    return str(filled.failure) if filled.failure else filled.complaint


def about_goal(goal: Goal, known: Sequence[SubGoal]) -> Question[VerdictForm]:
    return Question("cheap", prompts.GOAL_EVALUATOR, prompts.whole_outcome(goal, known), SUBMIT_VERDICT, VerdictForm)


def unmet(filled: Filled[VerdictForm]) -> str:
    """What is missing from the goal; nothing if it is reached."""
    if filled.form is None:
        return f"Whether the goal is reached could not be evaluated: {why_not(filled)}"
    return "" if filled.form.met else f"The success criteria are not met: {filled.form.reason}"
