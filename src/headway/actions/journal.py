"""The append-only journal of a goal: plans, outcomes, replans and recoveries. It records outcomes, not conversations."""

from typing import Any

from headway.ledger.check import decode_checks
from headway.ledger.events import Event, encode_json, join_json, list_unchanged_texts, omit_texts
from headway.ledger.goal import Goal, JournalEntry
from headway.ledger.run import to_dollars
from headway.storage.stores import goals as goal_store
from headway.storage.stores.goals import NewJournalEntry
from headway.storage.transaction import Transaction

FIXED_TEXTS = ("success_criteria", "checks", "evidence")


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
        omit_texts(document, "goal", list_unchanged_texts(goal, goal, FIXED_TEXTS))
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
