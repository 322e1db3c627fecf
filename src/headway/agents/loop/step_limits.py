"""The limit on a run's model calls: extended while there is work to do, and at its end one last call that sums up."""

from typing import Final, cast

from pydantic_ai.messages import ModelResponse

from headway.agents.instructions import prompts
from headway.agents.loop.requests import Stop
from headway.agents.loop.step import Step, list_open_items
from headway.agents.transcripts.transcript import build_runtime_message
from headway.ledger.limits import ADDED_ITERATIONS
from headway.ledger.run import TurnOutcome
from headway.ledger.todo import Todo

PROGRESS_STEPS: Final = 10  # a sub-agent makes progress if one of its last steps made a call that it had not made before

RECENT_ENTRIES: Final = 10  # few messages can follow the request to sum up


def apply_limit(step: Step, plan: list[Todo]) -> bool:
    """Extend the limit if there is reason to. Returns whether the next call is the last; the model is then asked to sum up."""
    if find_last_call(step):
        return True
    step.run = step.run._replace(limit=extend_limit(step, plan))
    if step.run.iterations < step.run.limit:
        return False
    outcome: TurnOutcome = "incomplete" if list_open_items(plan) else "limit"
    step.append(build_runtime_message(prompts.LAST_CALL, {"last_call": outcome}))
    return True


def extend_limit(step: Step, plan: list[Todo]) -> int:
    run, limits = step.run, step.limits
    if step.context.role.steps:
        return run.limit if run.iterations else step.context.role.steps
    if step.turn_id:
        if not list_open_items(plan):
            return run.limit
        return limits.extend_iterations(run.limit, run.iterations, planned=len(plan), added=step.count_added_items())
    if run.iterations >= run.limit and makes_progress(step):
        return max(run.limit, min(limits.sub_agent_iterations_max, run.limit + PROGRESS_STEPS))
    return run.limit


def makes_progress(step: Step) -> bool:
    """Whether one of the last steps made a tool call that differs from all before it."""
    responses = [entry.message for entry in step.entries if isinstance(entry.message, ModelResponse)]
    calls = [{(call.tool_name, str(call.args)) for call in response.tool_calls} for response in responses]
    before: set[tuple[str, str]] = set().union(*calls[:-PROGRESS_STEPS])
    return any(made - before for made in calls[-PROGRESS_STEPS:])


def find_last_call(step: Step) -> TurnOutcome | None:
    """Return the outcome with which the run ends, if the model was asked to sum up and no message has arrived since."""
    recent = (entry.facts for entry in reversed(step.entries[-RECENT_ENTRIES:]))
    latest = next((facts for facts in recent if "last_call" in facts or "steering" in facts), None)
    return cast("TurnOutcome | None", latest.get("last_call")) if latest else None


def end_with_summary(step: Step, outcome: TurnOutcome, summary: str) -> Stop | None:
    added = step.run.added_items
    excess = added if added * step.limits.iterations_per_item > ADDED_ITERATIONS else 0
    return step.give_up(prompts.describe_step_limit(step.run.iterations, excess), outcome, summary)
