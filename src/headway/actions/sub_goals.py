"""Sub-goals: starting, ending, judging and skipping them. An outcome and its journal entry are stored in one transaction."""

from typing import Any

from headway.actions import journal
from headway.ledger.events import Event, encode_json, join_json, list_unchanged_texts, to_json
from headway.ledger.goal import Divergence, Goal, SubGoal, SubGoalStatus
from headway.ledger.run import Run, to_dollars
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.goals import NewJournalEntry
from headway.storage.transaction import Transaction

SUMMARY_LIMIT = 20_000  # characters of an outcome; longer results belong in files
DESCRIPTION_LIMIT = 200  # characters in a journal entry
TEXTS = ("description", "expected_outcome", "outcome", "checks")


def change(tx: Transaction, sub_goal: SubGoal, entry: NewJournalEntry | None = None, /, **changes: Any) -> SubGoal:
    """Change a sub-goal and emit the events, that of the journal entry first."""
    after, stored_entry = goal_store.change_sub_goal(tx, sub_goal, entry, **changes)
    if stored_entry:
        journal.emit_entry(tx, sub_goal.tenant_id, sub_goal.goal_id, stored_entry)
    emit_changed(tx, sub_goal, after)
    journal.emit_goal_at_commit(tx, sub_goal.tenant_id, sub_goal.goal_id)
    return after


def emit_changed(tx: Transaction, old: SubGoal, new: SubGoal) -> None:
    """Emit the sub-goal. Long texts that did not change are left out, unless it was created just now."""
    omitted = [] if new.created_at == tx.now else list_unchanged_texts(old, new, TEXTS)
    fields = {name: value for name, value in new.as_json_without_outcome().items() if name not in omitted}
    outcome = {} if "outcome" in omitted else {"outcome": new.outcome or "null"}
    names = {"omitted": to_json(omitted)} if omitted else {}
    data = join_json(goal_id=new.goal_id, sub_goal=encode_json(fields, **outcome), **names)
    tx.emit(Event(new.tenant_id, "sub_goal_changed", data, subject=f"goal:{new.goal_id}"))


def append_to_journal(tx: Transaction, sub_goal: SubGoal, kind: str, **data: Any) -> None:
    """Append an entry to the journal of its goal."""
    journal.append(tx, sub_goal.tenant_id, sub_goal.goal_id, kind, build_entry_data(sub_goal, **data))


def build_entry(sub_goal: SubGoal, kind: str, **data: Any) -> NewJournalEntry:
    return NewJournalEntry(kind, encode_json(build_entry_data(sub_goal, **data)))


def build_entry_data(sub_goal: SubGoal, **data: Any) -> dict[str, Any]:
    description = sub_goal.description[:DESCRIPTION_LIMIT]
    return {"sub_goal_id": sub_goal.id, "title": sub_goal.name, "description": description, **data}


def start(tx: Transaction, sub_goal: SubGoal, run: Run) -> SubGoal:
    return change(
        tx,
        sub_goal,
        build_entry(sub_goal, "sub_goal_started", mode=sub_goal.mode, role=sub_goal.role, run_id=run.id),
        status="in-progress",
        run_id=run.id,
        started_at=tx.now,
        cost=run.cost if run.is_main else 0,
        checked_at=tx.now,
        progress_at=tx.now,
        progress_steps=0,
        progress_effects=0,
    )


def end_with_run(tx: Transaction, run: Run, result: dict[str, Any]) -> None:
    """End the sub-goal in the same transaction as the sub-agent that worked on it."""
    if run.sub_goal_id is None:
        return
    sub_goal = goal_store.find_sub_goal(tx, run.tenant_id, run.sub_goal_id)
    if sub_goal and sub_goal.run_id == run.id and sub_goal.status == "in-progress":
        end(tx, sub_goal, run, result)


def end(tx: Transaction, sub_goal: SubGoal, run: Run, result: dict[str, Any]) -> SubGoal:
    """End a sub-goal with its outcome. Nothing that depends on it starts before this is stored."""
    status: SubGoalStatus = "completed" if result["status"] == "completed" else "failed"
    inline = run.cost - sub_goal.cost if run.is_main else 0
    cost = inline + run_store.sum_sub_goal_cost(tx, sub_goal.tenant_id, sub_goal.id)
    outcome = encode_json({**result, "summary": str(result.get("summary") or "")[:SUMMARY_LIMIT], "cost_usd": to_dollars(cost)})
    about_end = build_entry_data(sub_goal, status=status, duration_s=(tx.now - sub_goal.started_at) // 1000)
    return change(
        tx,
        sub_goal,
        NewJournalEntry("sub_goal_ended", encode_json(about_end, outcome=outcome)),
        status=status,
        outcome=outcome,
        reason="" if status == "completed" else str(result.get("error") or "It failed.")[:DESCRIPTION_LIMIT],
        cost=cost,
        interrupted=0,
        ended_at=tx.now,
    )


def judge(tx: Transaction, goal: Goal, sub_goal: SubGoal, divergence: Divergence, reason: str, by: str) -> SubGoal:
    """Record how far the outcome diverges from the expected one. The judgment counts for the current plan."""
    entry = build_entry(sub_goal, "evaluated", divergence=divergence, reason=reason, by=by)
    return change(tx, sub_goal, entry, divergence=divergence, divergence_reason=reason, judged_under=goal.plan_no)


def skip(tx: Transaction, sub_goal: SubGoal, reason: str, superseded_by: int = 0) -> SubGoal:
    entry = build_entry(sub_goal, "sub_goal_skipped", reason=reason)
    ending: dict[str, Any] = {"cost": 0, "interrupted": 0, "ended_at": tx.now, "superseded_by": superseded_by}
    return change(tx, sub_goal, entry, status="skipped", reason=reason, **ending)


def mark_pending(tx: Transaction, sub_goal: SubGoal, **changes: Any) -> SubGoal:
    """Make a sub-goal pending again after a start that led nowhere."""
    initial_values = {"run_id": None, "cost": 0, "interrupted": 0, "started_at": 0, "check_ins": 0}
    return change(tx, sub_goal, status="pending", **{**changes, **initial_values})
