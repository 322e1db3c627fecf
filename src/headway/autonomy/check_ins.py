"""Check-ins on running sub-agents: at growing intervals, with an intervention when one makes no progress."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from headway.actions import plans, runs, sub_goals
from headway.actions.people import waiting
from headway.agents.instructions.prompts import SUBMIT_INTERVENTION
from headway.agents.loop.structured import Form, FormResult, Question
from headway.autonomy import prompts
from headway.ledger.goal import Goal, GoalLimits, SubGoal
from headway.ledger.run import Run
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

MAX_INTERVAL_MS: Final = 600_000  # between two check-ins
CLOCK_TOLERANCE_MS: Final = 1_000  # the clocks of two connections may differ a little
STUCK_STEPS: Final = 5  # without a successful tool call
MAX_INTERVENTIONS: Final = 3
DEFAULT_MESSAGE: Final = "You seem to make no progress. Say what blocks you, try another approach, or end with what you have."


class InterventionForm(Form):
    action: Literal["message", "rescope", "cancel", "wait"]
    text: Annotated[str, Field(description="The message, or the new description of the sub-goal", max_length=4_000)] = ""


def compute_due_at(sub_goal: SubGoal, limits: GoalLimits, now: int) -> int:
    """Return when the next check-in is due. The interval doubles with every check-in. If the last one seems to be in the
    future, the clock was set back: then one is due now, which stores the right time."""
    if sub_goal.checked_at > now + CLOCK_TOLERANCE_MS:
        return now
    return sub_goal.checked_at + min(limits.check_in_ms << min(sub_goal.check_ins, 20), MAX_INTERVAL_MS)


def check_progress(tx: Transaction, sub_goal: SubGoal, run: Run, limits: GoalLimits) -> tuple[dict[str, int], str]:
    """Return the fields that this check-in updates, and why the sub-agent counts as stuck, if it does.

    A stuck sub-agent's check-in ends only when the model has decided on an intervention.
    """
    effects = run_store.count_succeeded_effects(tx, sub_goal.tenant_id, run.id)
    changes = {"check_ins": sub_goal.check_ins + 1, "checked_at": tx.now}
    if effects > sub_goal.progress_effects or run.status == "queued" or waiting.is_person_needed(tx, run):
        return {**changes, "progress_at": tx.now, "progress_steps": run.iterations, "progress_effects": effects}, ""
    if run.iterations - sub_goal.progress_steps >= STUCK_STEPS:
        return changes, f"{run.iterations - sub_goal.progress_steps} steps without a successful tool call"
    if tx.now - sub_goal.progress_at >= limits.stuck_after_ms:
        return changes, f"{(tx.now - sub_goal.progress_at) // 1000} s without progress"
    return changes, ""


def build_question(goal: Goal, sub_goal: SubGoal, run: Run, why: str) -> Question[InterventionForm]:
    text = prompts.render_stuck(goal, sub_goal, run, why)
    return Question("mid", prompts.OVERSEER, text, {}, SUBMIT_INTERVENTION, InterventionForm)


def intervene(tx: Transaction, sub_goal: SubGoal, run: Run, result: FormResult[InterventionForm] | None, why: str) -> None:
    """Apply the model's decision about a stuck sub-agent.

    Without a decision, the sub-agent first gets a default message, and is canceled the next time.
    """
    form = result.form if result else None
    fallback = (
        InterventionForm(action="message", text=DEFAULT_MESSAGE)
        if result and not sub_goal.interventions
        else InterventionForm(action="cancel")
    )
    form = form or fallback
    sub_goals.append_to_journal(tx, sub_goal, "intervened", action=form.action, text=form.text, why=why)
    changes = {
        "interventions": sub_goal.interventions + 1,
        "progress_at": tx.now,
        "progress_steps": run.iterations,
        "check_ins": 0,
        "checked_at": tx.now,
    }
    match form.action:
        case "message":
            runs.set_hint(tx, run, form.text or DEFAULT_MESSAGE)
            sub_goals.change(tx, sub_goal, **changes)
        case "wait":
            sub_goals.change(tx, sub_goal, **changes)
        case "rescope":
            rescoped = {"description": form.text.strip(), "title": ""} if form.text.strip() else {}
            restart(tx, sub_goal, run, **changes, **rescoped)
        case "cancel":
            sub_goals.change(tx, sub_goal, **changes)
            runs.cancel_tree(tx, run)


def restart(tx: Transaction, sub_goal: SubGoal, run: Run, **changes: Any) -> None:
    """Restart a sub-goal from the beginning. Its partial work is discarded."""
    sub_goals.mark_pending(tx, sub_goal, **changes)
    plans.release_run(tx, run)
