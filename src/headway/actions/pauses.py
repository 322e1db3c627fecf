"""An empty pool: what the run was for waits as a whole, the operator is asked, and it goes on by itself once there is money."""

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
    """The run goes on, after whatever it waited for."""
    run = run._replace(status="running", updated_at=tx.now)
    if run.goal_id is not None:
        goals.resume_after_budget(tx, run.tenant_id, run.goal_id)
    elif run.turn_id is not None:
        turns.resume(tx, run)
    if run.parent_run_id is not None or run.is_main:
        runs.emit_changed(tx, run)
    return run
