"""Pauses for an empty budget pool: the whole turn or goal waits, the operator is notified, and work resumes automatically."""

from headway.actions import goals, notices, runs, turns
from headway.ledger.run import Run
from headway.storage.transaction import Transaction


def pause_run(tx: Transaction, run: Run, reason: str) -> None:
    if run.goal_id is not None:
        goals.pause_for_budget(tx, run.goal_id, run, reason)
        goal = goals.get(tx, run.tenant_id, run.goal_id)
        reason = f"Goal #{goal.id} is paused: {goals.format_description(goal)} {reason}"
    elif run.turn_id is not None:
        turns.pause(tx, run, reason)
    notices.notify_once(tx, run, "budget", reason)


def resume_run(tx: Transaction, run: Run) -> Run:
    """Continue a run whose pause is over, together with its goal or turn."""
    run = run._replace(status="running", updated_at=tx.now)
    if run.goal_id is not None:
        goals.resume_after_budget(tx, run.tenant_id, run.goal_id)
    elif run.turn_id is not None:
        turns.resume(tx, run)
    if run.parent_run_id is not None or run.is_main:
        runs.emit_changed(tx, run)
    return run
