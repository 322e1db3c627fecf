"""Sub-goals: how each begins, and the one transaction in which it ends, with its outcome in the journal."""

from typing import Any

from headway.actions import journal
from headway.ledger.events import Event, encode
from headway.ledger.goal import Divergence, Goal, SubGoal, SubGoalStatus
from headway.ledger.run import Run, dollars
from headway.storage import goal_store, run_store
from headway.storage.transaction import Transaction

SUMMARY_KEPT = 20_000  # characters of an outcome; what is longer belongs into files
TITLE = 200


def save(tx: Transaction, one: SubGoal) -> SubGoal:
    one = one._replace(updated_at=tx.now)
    goal_store.save_sub_goal(tx, one)
    tx.emit(Event(one.tenant_id, "sub_goal_changed", encode({"goal_id": one.goal_id, "sub_goal": one.as_json()})))
    journal.announce(tx, one.tenant_id, one.goal_id)
    return one


def write(tx: Transaction, one: SubGoal, kind: str, **data: Any) -> None:
    """Into the journal of its goal."""
    about = {"sub_goal_id": one.id, "description": one.description[:TITLE], **data}
    journal.append(tx, one.tenant_id, one.goal_id, kind, about)


def start(tx: Transaction, one: SubGoal, run: Run) -> SubGoal:
    begun = one._replace(
        status="in-progress",
        run_id=run.id,
        started_at=tx.now,
        cost=run.cost if run.is_main else 0,
        checked_at=tx.now,
        progress_at=tx.now,
        progress_steps=0,
        progress_effects=0,
    )
    write(tx, one, "sub_goal_started", mode=one.mode, role=one.role, run_id=run.id)
    return save(tx, begun)


def run_ended(tx: Transaction, run: Run, result: dict[str, Any]) -> None:
    """A sub-agent that worked on a sub-goal is over, and so is the sub-goal: both are stored together."""
    if run.sub_goal_id is None:
        return
    one = goal_store.get_sub_goal(tx, run.tenant_id, run.sub_goal_id)
    if one and one.run_id == run.id and one.status == "in-progress":
        end(tx, one, run, result)


def end(tx: Transaction, one: SubGoal, run: Run, result: dict[str, Any]) -> SubGoal:
    """With what came of it. Nothing else starts before this is stored."""
    status: SubGoalStatus = "completed" if result["status"] == "completed" else "failed"
    inline = run.cost - one.cost if run.is_main else 0
    cost = inline + run_store.cost_of_sub_goal(tx, one.tenant_id, one.id)
    outcome = {**result, "summary": str(result.get("summary") or "")[:SUMMARY_KEPT], "cost_usd": dollars(cost)}
    ended = one._replace(
        status=status,
        outcome=encode(outcome),
        reason="" if status == "completed" else str(result.get("error") or "It failed.")[:TITLE],
        cost=cost,
        interrupted=0,
        ended_at=tx.now,
    )
    write(tx, one, "sub_goal_ended", status=status, outcome=outcome, duration_s=(tx.now - one.started_at) // 1000)
    return save(tx, ended)


def judge(tx: Transaction, goal: Goal, one: SubGoal, divergence: Divergence, reason: str, by: str) -> SubGoal:
    """How far its outcome is from what was expected. An evaluation counts for the plan that is in force."""
    write(tx, one, "evaluated", divergence=divergence, reason=reason, by=by)
    return save(tx, one._replace(divergence=divergence, divergence_reason=reason, judged_under=goal.plan_no))


def skip(tx: Transaction, one: SubGoal, reason: str) -> SubGoal:
    write(tx, one, "sub_goal_skipped", reason=reason)
    return save(tx, one._replace(status="skipped", reason=reason, cost=0, interrupted=0, ended_at=tx.now))


def put_off(tx: Transaction, one: SubGoal) -> SubGoal:
    """Begun in vain: it is to be begun anew."""
    return save(tx, one._replace(status="pending", run_id=None, cost=0, interrupted=0, started_at=0, checks=0))
