"""The plans of a goal: what each consisted of, and what it changed."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from headway.actions import goals
from headway.ledger.cursors import CursorCodec
from headway.ledger.goal import Goal, JournalEntry, SubGoal
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import goals as goal_store
from headway.storage.transaction import Transaction

CURSORS = CursorCodec("plans", (MAX_INTEGER,))  # the number of the journal entry


class PlanPage(NamedTuple):
    plans: list[dict[str, Any]]
    next_cursor: str | None


def list_page(tx: Transaction, tenant_id: int, goal_id: int, limit: int, cursor: str | None = None) -> PlanPage:
    """List the plans of a goal, the one in force first."""
    (before,) = CURSORS.decode(cursor)
    goal = goals.get(tx, tenant_id, goal_id)
    entries = goal_store.list_plan_entries(tx, tenant_id, goal_id, limit + 1, before)
    sub_goals = goal_store.list_sub_goals(tx, tenant_id, goal_id)
    plans = [describe_plan(goal, entry, sub_goals) for entry in entries[:limit]]
    return PlanPage(plans, CURSORS.encode_next(entries, limit, lambda entry: (entry.n,)))


def describe_plan(goal: Goal, entry: JournalEntry, sub_goals: Sequence[SubGoal]) -> dict[str, Any]:
    """Return a plan with its sub-goals. Those that were done before are part of it, because it builds on their outcomes."""
    data: dict[str, Any] = json.loads(entry.data)
    plan_no = int(data["plan_no"])
    members = [sub_goal for sub_goal in sub_goals if is_member(sub_goal, plan_no)]
    changed_ids = set(data.get("changed", ()))
    return {
        "plan": plan_no,
        "in_force": plan_no == goal.plan_no,
        "created_at": entry.at // 1000,
        "reason": data.get("why", ""),
        "sub_goals": [sub_goal.id for sub_goal in members],
        "total": len(members),
        "done": sum(sub_goal.is_done for sub_goal in members),
        "added": [describe_member(sub_goal) for sub_goal in sub_goals if sub_goal.plan_no == plan_no],
        "removed": [describe_member(sub_goal) for sub_goal in sub_goals if sub_goal.superseded_by == plan_no],
        "changed": [describe_member(sub_goal) for sub_goal in sub_goals if sub_goal.id in changed_ids],
    }


def is_member(sub_goal: SubGoal, plan_no: int) -> bool:
    return sub_goal.plan_no <= plan_no and not 0 < sub_goal.superseded_by <= plan_no


def describe_member(sub_goal: SubGoal) -> dict[str, Any]:
    return {"id": sub_goal.id, "title": sub_goal.name, "status": sub_goal.status, "divergence": sub_goal.divergence}
