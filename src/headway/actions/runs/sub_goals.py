"""Sub-goals and the journal of their goal: an outcome and its entry are stored in one transaction, which emits both."""

from typing import Any

from headway.ledger.check import decode_checks
from headway.ledger.events import (
    GOAL_TEXTS,
    SUB_GOAL_TEXTS,
    Event,
    encode_json,
    join_json,
    list_unchanged_texts,
    omit_texts,
    to_json,
)
from headway.ledger.goal import Divergence, Goal, JournalEntry, SubGoal, SubGoalStatus
from headway.ledger.money import to_dollars
from headway.ledger.run import Run
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.goals import NewJournalEntry
from headway.storage.transaction import Transaction


def append(tx: Transaction, tenant_id: int, goal_id: int, kind: str, data: dict[str, Any]) -> None:
    emit_entry(tx, tenant_id, goal_id, goal_store.append_entry(tx, tenant_id, goal_id, NewJournalEntry(kind, encode_json(data))))
    emit_goal_at_commit(tx, tenant_id, goal_id)


def emit_entry(tx: Transaction, tenant_id: int, goal_id: int, entry: JournalEntry) -> None:
    document = join_json(n=entry.n, kind=f'"{entry.kind}"', data=entry.data, at=entry.at // 1000)
    tx.emit(Event(tenant_id, "journal_appended", join_json(goal_id=goal_id, entry=document), subject=f"goal:{goal_id}"))


def emit_goal_at_commit(tx: Transaction, tenant_id: int, goal_id: int, *, complete: bool = False) -> None:
    """Emit the goal's new state once, at the end of the transaction, however many changes it makes."""
    tx.before_commit(("goal", tenant_id, goal_id), lambda tx: emit_goal(tx, tenant_id, goal_id, complete=complete))


def emit_goal(tx: Transaction, tenant_id: int, goal_id: int, *, complete: bool) -> None:
    """Emit the goal. Of the texts that hardly ever change, the long ones are left out, unless `complete` is set or the goal was
    created just now."""
    goal_and_cost = goal_store.find_with_cost(tx, tenant_id, goal_id)
    assert goal_and_cost is not None
    goal, cost = goal_and_cost
    document: dict[str, Any] = {"goal": build_summary(goal, cost)}
    if goal.created_at != tx.now and not complete:
        omit_texts(document, "goal", list_unchanged_texts(goal, goal, GOAL_TEXTS))
    tx.emit(Event(tenant_id, "goal_changed", encode_json(document)))


def build_summary(goal: Goal, cost: int) -> dict[str, Any]:
    """Return a goal with its progress, without its sub-goals."""
    return {
        "id": goal.id,
        "source": goal.source,
        "description": goal.description,
        "success_criteria": goal.success_criteria,
        "checks": decode_checks(goal.checks),
        "proof": goal.proof,
        "evidence": goal.evidence,
        "status": goal.status,
        "priority": goal.priority,
        "replan_count": goal.replan_count,
        "plan_no": goal.plan_no,
        "pause_kind": goal.pause_kind or None,
        "pause_reason": goal.pause_reason or None,
        "needs_decision": goal.needs_decision,
        "run_id": goal.run_id,
        "forked_from": {"goal_id": goal.forked_from, "at": goal.fork_at} if goal.forked_from else None,
        "repeat_of": goal.repeat_of or None,
        "progress": goal.progress,
        "cost_usd": to_dollars(cost),
        "budget_usd": to_dollars(goal.budget) if goal.budget else None,
        "repository": goal.repository or None,
        "deadline": goal.deadline_at // 1000,
        "created_at": goal.created_at // 1000,
        "updated_at": goal.updated_at // 1000,
        "ended_at": goal.ended_at // 1000,
    }


# Sub-goals: starting, ending, judging and skipping them. An outcome and its journal entry are stored in one transaction.


SUMMARY_LIMIT = 20_000  # characters of an outcome; longer results belong in files
DESCRIPTION_LIMIT = 200  # characters in a journal entry


def change_sub_goal(tx: Transaction, sub_goal: SubGoal, entry: NewJournalEntry | None = None, /, **changes: Any) -> SubGoal:
    """Change a sub-goal and emit the events, that of the journal entry first."""
    after, stored_entry = goal_store.change_sub_goal(tx, sub_goal, entry, **changes)
    if stored_entry:
        emit_entry(tx, sub_goal.tenant_id, sub_goal.goal_id, stored_entry)
    emit_sub_goal_changed(tx, sub_goal, after)
    emit_goal_at_commit(tx, sub_goal.tenant_id, sub_goal.goal_id)
    return after


def emit_sub_goal_changed(tx: Transaction, old: SubGoal, new: SubGoal) -> None:
    """Emit the sub-goal. Long texts that did not change are left out, unless it was created just now."""
    omitted = [] if new.created_at == tx.now else list_unchanged_texts(old, new, SUB_GOAL_TEXTS)
    fields = {name: value for name, value in new.as_json_without_outcome().items() if name not in omitted}
    outcome = {} if "outcome" in omitted else {"outcome": new.outcome or "null"}
    names = {"omitted": to_json(omitted)} if omitted else {}
    data = join_json(goal_id=new.goal_id, sub_goal=encode_json(fields, **outcome), **names)
    tx.emit(Event(new.tenant_id, "sub_goal_changed", data, subject=f"goal:{new.goal_id}"))


def append_to_journal(tx: Transaction, sub_goal: SubGoal, kind: str, **data: Any) -> None:
    """Append an entry to the journal of its goal."""
    append(tx, sub_goal.tenant_id, sub_goal.goal_id, kind, build_entry_data(sub_goal, **data))


def build_entry(sub_goal: SubGoal, kind: str, **data: Any) -> NewJournalEntry:
    return NewJournalEntry(kind, encode_json(build_entry_data(sub_goal, **data)))


def build_entry_data(sub_goal: SubGoal, **data: Any) -> dict[str, Any]:
    description = sub_goal.description[:DESCRIPTION_LIMIT]
    return {"sub_goal_id": sub_goal.id, "title": sub_goal.name, "description": description, **data}


def start_sub_goal(tx: Transaction, sub_goal: SubGoal, run: Run) -> SubGoal:
    return change_sub_goal(
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
        end_sub_goal(tx, sub_goal, run, result)


def end_sub_goal(tx: Transaction, sub_goal: SubGoal, run: Run, result: dict[str, Any]) -> SubGoal:
    """End a sub-goal with its outcome. Nothing that depends on it starts before this is stored."""
    status: SubGoalStatus = "completed" if result["status"] == "completed" else "failed"
    inline = run.cost - sub_goal.cost if run.is_main else 0
    cost = inline + run_store.sum_sub_goal_cost(tx, sub_goal.tenant_id, sub_goal.id)
    outcome = encode_json({**result, "summary": str(result.get("summary") or "")[:SUMMARY_LIMIT], "cost_usd": to_dollars(cost)})
    about_end = build_entry_data(sub_goal, status=status, duration_s=(tx.now - sub_goal.started_at) // 1000)
    return change_sub_goal(
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
    return change_sub_goal(tx, sub_goal, entry, divergence=divergence, divergence_reason=reason, judged_under=goal.plan_no)


def skip(tx: Transaction, sub_goal: SubGoal, reason: str, superseded_by: int = 0) -> SubGoal:
    entry = build_entry(sub_goal, "sub_goal_skipped", reason=reason)
    ending: dict[str, Any] = {"cost": 0, "interrupted": 0, "ended_at": tx.now, "superseded_by": superseded_by}
    return change_sub_goal(tx, sub_goal, entry, status="skipped", reason=reason, **ending)


def mark_pending(tx: Transaction, sub_goal: SubGoal, **changes: Any) -> SubGoal:
    """Make a sub-goal pending again after a start that led nowhere."""
    initial_values = {"run_id": None, "cost": 0, "interrupted": 0, "started_at": 0, "check_ins": 0}
    return change_sub_goal(tx, sub_goal, status="pending", **{**changes, **initial_values})
