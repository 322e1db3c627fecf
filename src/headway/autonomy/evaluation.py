"""Judgements of a goal's outcomes: by metric first, then by the cheap model tier. A failed evaluation never counts as a pass."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, StrictBool

from headway.actions.turns.plan import PROVEN
from headway.agents.instructions.prompts import SUBMIT_EVALUATION, SUBMIT_VERDICT
from headway.agents.loop.structured import Form, FormResult, Question
from headway.agents.transcripts.transcript import Facts
from headway.autonomy import prompts
from headway.ledger.goal import Divergence, Goal, SubGoal
from headway.ledger.money import to_dollars


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


def evaluate_by_metric(sub_goal: SubGoal) -> Evaluation | None:
    """Evaluate what needs no model: failure, cost, a missing outcome, and work that its calls prove. Otherwise returns None."""
    if sub_goal.status == "failed":
        return Evaluation("major", f"It failed: {sub_goal.reason}", "metric")
    if sub_goal.cost_limit and sub_goal.cost > sub_goal.cost_limit:
        spent = f"${to_dollars(sub_goal.cost):.4f} of ${to_dollars(sub_goal.cost_limit):.4f}"
        return Evaluation("major", f"It exceeded its cost limit: {spent}.", "metric")
    if not prompts.get_summary(sub_goal).strip():
        return Evaluation("major", "It ended without an outcome.", "metric")
    if prompts.get_data(sub_goal) == PROVEN:
        return Evaluation("none", prompts.get_summary(sub_goal), "effect")
    return None


def build_outcome_question(goal: Goal, sub_goal: SubGoal) -> Question[EvaluationForm]:
    facts: Facts = {"outcome": sub_goal.outcome or ""}
    return Question("cheap", prompts.EVALUATOR, prompts.render_outcome(goal, sub_goal), facts, SUBMIT_EVALUATION, EvaluationForm)


def to_evaluation(result: FormResult[EvaluationForm]) -> Evaluation:
    if result.form is None:
        return Evaluation("major", f"Its outcome could not be evaluated: {describe_failure(result)}", "evaluator failed")
    return Evaluation(result.form.divergence, result.form.reason, "model")


def describe_failure(result: FormResult[EvaluationForm] | FormResult[VerdictForm]) -> str:
    return str(result.failure) if result.failure else result.complaint


def build_goal_question(goal: Goal, sub_goals: Sequence[SubGoal]) -> Question[VerdictForm]:
    text, facts = prompts.render_goal_outcome(goal, sub_goals), prompts.to_facts(sub_goals)
    return Question("cheap", prompts.GOAL_EVALUATOR, text, facts, SUBMIT_VERDICT, VerdictForm)


def describe_unmet(result: FormResult[VerdictForm]) -> str:
    """Describe what is missing from the goal; empty if its success criteria are met."""
    if result.form is None:
        return f"The goal could not be evaluated: {describe_failure(result)}"
    return "" if result.form.met else f"The success criteria are not met: {result.form.reason}"
