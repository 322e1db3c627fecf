"""Evaluate outcomes: first by metrics, then with the cheap model tier. A failed evaluation never counts as a pass."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, StrictBool

from headway.agents.facts import Facts
from headway.agents.loop.structured import Form, FormResult, Question
from headway.agents.prompts import SUBMIT_EVALUATION, SUBMIT_VERDICT
from headway.autonomy import prompts
from headway.ledger.goal import Divergence, Goal, SubGoal
from headway.ledger.run import to_dollars


class Evaluation(NamedTuple):
    divergence: Divergence
    reason: str
    by: str


class EvaluationForm(Form):
    divergence: Divergence
    reason: Annotated[str, Field(description="One sentence")] = ""


class VerdictForm(Form):
    met: StrictBool
    reason: Annotated[str, Field(description="What is missing, in one sentence")] = ""


def evaluate_by_metric(one: SubGoal) -> Evaluation | None:
    """Evaluate what needs no model: failure, cost and a missing outcome. Returns None if the metrics find no fault."""
    if one.status == "failed":
        return Evaluation("major", f"It failed: {one.reason}", "metric")
    if one.cost_limit and one.cost > one.cost_limit:
        spent = f"${to_dollars(one.cost):.4f} of ${to_dollars(one.cost_limit):.4f}"
        return Evaluation("major", f"It exceeded its cost limit: {spent}.", "metric")
    if not prompts.get_summary(one).strip():
        return Evaluation("major", "It ended without an outcome.", "metric")
    return None


def build_outcome_question(goal: Goal, one: SubGoal) -> Question[EvaluationForm]:
    facts: Facts = {"outcome": one.outcome or ""}
    return Question("cheap", prompts.EVALUATOR, prompts.render_outcome(goal, one), facts, SUBMIT_EVALUATION, EvaluationForm)


def to_evaluation(filled: FormResult[EvaluationForm]) -> Evaluation:
    if filled.form is None:
        return Evaluation("major", f"Its outcome could not be evaluated: {describe_failure(filled)}", "evaluator failed")
    return Evaluation(filled.form.divergence, filled.form.reason, "model")


def describe_failure(filled: FormResult[EvaluationForm] | FormResult[VerdictForm]) -> str:
    return str(filled.failure) if filled.failure else filled.complaint


def build_goal_question(goal: Goal, known: Sequence[SubGoal]) -> Question[VerdictForm]:
    text, facts = prompts.render_goal_outcome(goal, known), prompts.to_facts(known)
    return Question("cheap", prompts.GOAL_EVALUATOR, text, facts, SUBMIT_VERDICT, VerdictForm)


def describe_unmet(filled: FormResult[VerdictForm]) -> str:
    """Describe what is missing from the goal; empty if its success criteria are met."""
    if filled.form is None:
        return f"The goal could not be evaluated: {describe_failure(filled)}"
    return "" if filled.form.met else f"The success criteria are not met: {filled.form.reason}"
