"""Looking after sub-agents at work: rarely, the longer they are at it; and stepping in when one gets no further."""

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

MAX_INTERVAL_MS: Final = 600_000  # between two looks
STUCK_STEPS: Final = 5  # with no tool call that went well
MAX_INTERVENTIONS: Final = 3
DEFAULT_MESSAGE: Final = "You do not seem to get any further. Say what keeps you, try another way, or end with what you have."


class InterventionForm(Form):
    action: Literal["message", "rescope", "cancel", "wait"]
    text: Annotated[str, Field(description="The message, or the new description of the sub-goal", max_length=4_000)] = ""


def compute_due_at(one: SubGoal, limits: GoalLimits) -> int:
    """The interval doubles with every look."""
    return one.checked_at + min(limits.check_in_ms << min(one.checks, 20), MAX_INTERVAL_MS)


def check_progress(tx: Transaction, one: SubGoal, run: Run, limits: GoalLimits) -> tuple[dict[str, int], str]:
    """What changes by the look; and why it counts as stuck, if it does. A look that leads to a question is over when that is
    answered."""
    effects = run_store.count_succeeded_effects(tx, one.tenant_id, run.id)
    looked = {"checks": one.checks + 1, "checked_at": tx.now}
    if effects > one.progress_effects or run.status == "queued":
        return {**looked, "progress_at": tx.now, "progress_steps": run.iterations, "progress_effects": effects}, ""
    if run.iterations - one.progress_steps >= STUCK_STEPS:
        return looked, f"{run.iterations - one.progress_steps} steps without a tool call that went well"
    if tx.now - one.progress_at >= limits.stuck_after_ms:
        return looked, f"{(tx.now - one.progress_at) // 1000} s without getting any further"
    return looked, ""


def build_question(goal: Goal, one: SubGoal, run: Run, why: str) -> Question[InterventionForm]:
    return Question("mid", prompts.OVERSEER, prompts.render_stuck(goal, one, run, why), SUBMIT_INTERVENTION, InterventionForm)


def intervene(tx: Transaction, one: SubGoal, run: Run, filled: FormResult[InterventionForm] | None, why: str) -> None:
    """What the overseer decided. One who cannot be asked lets it be told once, and then gives it up."""
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
    """What was half done is thrown away."""
    sub_goals.mark_pending(tx, one, **changed)
    plans.release_run(tx, run)
