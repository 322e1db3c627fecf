"""The append-only record of a goal: plans, outcomes, replans, recoveries. Outcomes are kept, conversations are not."""

from typing import Any

from headway.ledger.events import Event, encode
from headway.ledger.goal import Goal, JournalEntry
from headway.ledger.run import dollars
from headway.storage import goal_store
from headway.storage.goal_store import Entry
from headway.storage.transaction import Transaction


def append(tx: Transaction, tenant_id: int, goal_id: int, kind: str, data: dict[str, Any]) -> None:
    tell(tx, tenant_id, goal_id, goal_store.append_entry(tx, tenant_id, goal_id, Entry(kind, encode(data))))
    announce(tx, tenant_id, goal_id)


def tell(tx: Transaction, tenant_id: int, goal_id: int, entry: JournalEntry) -> None:
    told = encode({"n": entry.n, "kind": entry.kind, "at": entry.at // 1000}, data=entry.data)
    tx.emit(Event(tenant_id, "journal_appended", encode({"goal_id": goal_id}, entry=told)))


def announce(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    """Whatever else this transaction does to the goal, its watchers hear of the result once, at the end."""
    tx.before_commit(("goal", tenant_id, goal_id), lambda tx: tell_watchers(tx, tenant_id, goal_id))


def tell_watchers(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    found = goal_store.with_cost(tx, tenant_id, goal_id)
    assert found is not None
    tx.emit(Event(tenant_id, "goal_changed", encode({"goal": summary(*found)})))


def summary(goal: Goal, cost: int) -> dict[str, Any]:
    """A goal with how far it got, without its sub-goals."""
    return {
        "id": goal.id,
        "source": goal.source,
        "description": goal.description,
        "success_criteria": goal.success_criteria,
        "evidence": goal.evidence,
        "status": goal.status,
        "priority": goal.priority,
        "replan_count": goal.replan_count,
        "plan_no": goal.plan_no,
        "pause_kind": goal.pause_kind or None,
        "pause_reason": goal.pause_reason or None,
        "run_id": goal.run_id,
        "progress": goal.progress,
        "cost_usd": dollars(cost),
        "budget_usd": dollars(goal.budget) if goal.budget else None,
        "deadline": goal.deadline_at // 1000,
        "created_at": goal.created_at // 1000,
        "updated_at": goal.updated_at // 1000,
        "ended_at": goal.ended_at // 1000,
    }
