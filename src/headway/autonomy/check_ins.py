"""Check-ins on running sub-agents: at growing intervals, with an intervention when one makes no progress."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from headway.actions import plans, runs, sub_goals
from headway.agents.loop.structured import Form, FormResult, Question
from headway.agents.prompts import SUBMIT_INTERVENTION
from headway.autonomy import prompts
from headway.ledger.goal import Goal, GoalLimits, SubGoal
from headway.ledger.run import Run
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

MAX_INTERVAL_MS: Final = 600_000  # between two check-ins
STUCK_STEPS: Final = 5  # without a successful tool call
MAX_INTERVENTIONS: Final = 3
DEFAULT_MESSAGE: Final = "You seem to make no progress. Say what blocks you, try another approach, or end with what you have."


class InterventionForm(Form):
    action: Literal["message", "rescope", "cancel", "wait"]
    text: Annotated[str, Field(description="The message, or the new description of the sub-goal", max_length=4_000)] = ""


def compute_due_at(one: SubGoal, limits: GoalLimits) -> int:
    """Return when the next check-in is due. The interval doubles with every check-in."""
    return one.checked_at + min(limits.check_in_ms << min(one.checks, 20), MAX_INTERVAL_MS)


def check_progress(tx: Transaction, one: SubGoal, run: Run, limits: GoalLimits) -> tuple[dict[str, int], str]:
    """Return the fields that this check-in updates, and why the sub-agent counts as stuck, if it does.

    A stuck sub-agent's check-in ends only when the model has decided on an intervention.
    """
    effects = run_store.count_succeeded_effects(tx, one.tenant_id, run.id)
    looked = {"checks": one.checks + 1, "checked_at": tx.now}
    if effects > one.progress_effects or run.status == "queued":
        return {**looked, "progress_at": tx.now, "progress_steps": run.iterations, "progress_effects": effects}, ""
    if run.iterations - one.progress_steps >= STUCK_STEPS:
        return looked, f"{run.iterations - one.progress_steps} steps without a successful tool call"
    if tx.now - one.progress_at >= limits.stuck_after_ms:
        return looked, f"{(tx.now - one.progress_at) // 1000} s without progress"
    return looked, ""


def build_question(goal: Goal, one: SubGoal, run: Run, why: str) -> Question[InterventionForm]:
    text = prompts.render_stuck(goal, one, run, why)
    return Question("mid", prompts.OVERSEER, text, {}, SUBMIT_INTERVENTION, InterventionForm)


def intervene(tx: Transaction, one: SubGoal, run: Run, filled: FormResult[InterventionForm] | None, why: str) -> None:
    """Apply the model's decision about a stuck sub-agent.

    Without a decision, the sub-agent first gets a default message, and is canceled the next time.
    """
    form = filled.form if filled else None
    fallback = (
        InterventionForm(action="message", text=DEFAULT_MESSAGE)
        if filled and not one.interventions
        else InterventionForm(action="cancel")
    )
    form = form or fallback
    sub_goals.append_to_journal(tx, one, "intervened", action=form.action, text=form.text, why=why)
    noted = {
        "interventions": one.interventions + 1,
        "progress_at": tx.now,
        "progress_steps": run.iterations,
        "checks": 0,
        "checked_at": tx.now,
    }
    match form.action:
        case "message":
            runs.set_hint(tx, run, form.text or DEFAULT_MESSAGE)
            sub_goals.change(tx, one, **noted)
        case "wait":
            sub_goals.change(tx, one, **noted)
        case "rescope":
            restart(tx, one, run, **noted, description=form.text.strip() or one.description)
        case "cancel":
            sub_goals.change(tx, one, **noted)
            runs.cancel_tree(tx, run)


def restart(tx: Transaction, one: SubGoal, run: Run, **changed: Any) -> None:
    """Restart a sub-goal from the beginning. Its partial work is discarded."""
    sub_goals.mark_pending(tx, one, **changed)
    plans.release_run(tx, run)
