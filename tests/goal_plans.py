"""Goals with plans, as a pursuit would have written them."""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import sub_goals
from headway.ledger.goal import Divergence, Goal, SubGoal
from headway.ledger.run import Run
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

GOAL = Goal(
    id=1,
    tenant_id=1,
    source="operator-injected",
    description="reach it",
    success_criteria="",
    evidence="",
    status="active",
    priority=50,
    pause_kind="",
    pause_reason="",
    replan_count=0,
    plan_no=1,
    replan_why="",
    run_id=None,
    budget=0,
    deadline_at=0,
    created_at=0,
    updated_at=0,
    ended_at=0,
)


def sub_goal(description: str = "go", **fields: Any) -> SubGoal:
    """A pending sub-goal of the first plan."""
    whole: dict[str, Any] = {
        "id": 0,
        "tenant_id": 1,
        "goal_id": 1,
        "plan_no": 1,
        "description": description,
        "expected_outcome": f"{description}: done",
        "kind": "research",
        "mode": "agent",
        "role": "worker",
        "urgency": 5,
        "expected_value": 0.5,
        "status": "pending",
        "outcome": None,
        "reason": "",
        "divergence": None,
        "divergence_reason": "",
        "run_id": None,
        "checks": "",
        "proof": "none",
        "title": "",
    }
    return SubGoal(**{name: 0 for name in SubGoal._fields if name != "depends_on"} | whole | fields)


def add_plan(tx: Transaction, goal: Goal, steps: Mapping[str, Sequence[str]], **fields: Any) -> dict[str, int]:
    """Add the sub-goals of a first plan, as a map of descriptions to dependencies, and return their ids."""
    ids: dict[str, int] = {}
    goal_store.open_cycle(tx, goal.tenant_id, goal.id)
    for words, after in steps.items():
        ids[words] = goal_store.insert_sub_goal(tx, sub_goal(words, tenant_id=goal.tenant_id, goal_id=goal.id, **fields))
        goal_store.replace_edges(tx, goal.tenant_id, ids[words], [ids[below] for below in after])
    for number in ids.values():
        sub_goals.change_sub_goal(tx, get_sub_goal(tx, goal, number))
    goals.save_goal_and_emit(tx, goals.get_goal(tx, goal.tenant_id, goal.id)._replace(plan_no=1))
    return ids


def get_main_run(tx: Transaction, goal: Goal) -> Run:
    run = run_store.find_run(tx, goal.tenant_id, goal.run_id or "")
    assert run is not None
    return run


def get_sub_goal(tx: Transaction, goal: Goal, sub_goal_id: int) -> SubGoal:
    row = goal_store.find_sub_goal(tx, goal.tenant_id, sub_goal_id)
    assert row is not None
    return row


def start(tx: Transaction, goal: Goal, sub_goal_id: int) -> SubGoal:
    return sub_goals.start_sub_goal(tx, get_sub_goal(tx, goal, sub_goal_id), get_main_run(tx, goal))


def end(tx: Transaction, goal: Goal, sub_goal_id: int, summary: str = "It is done.", error: str | None = None) -> SubGoal:
    """End a sub-goal; start it first if it is pending."""
    current = get_sub_goal(tx, goal, sub_goal_id)
    if current.status == "pending":
        current = start(tx, goal, sub_goal_id)
    result = {"status": "failed" if error else "completed", "summary": summary, "data": None, "error": error}
    return sub_goals.end_sub_goal(tx, current, get_main_run(tx, goal), result)


def evaluate(
    tx: Transaction, goal: Goal, sub_goal_id: int, divergence: Divergence = "none", reason: str = "As expected."
) -> SubGoal:
    held = goals.get_goal(tx, goal.tenant_id, goal.id)
    return sub_goals.judge(tx, held, get_sub_goal(tx, goal, sub_goal_id), divergence, reason, "rules")


def add_begun_goal(tx: Transaction, tenant_id: int, description: str = "reach it", **fields: Any) -> Goal:
    """A goal with a plan of two sub-goals, the first of them started."""
    goal = goals.add_goal(tx, tenant_id, NewGoal(description, **fields))
    ids = add_plan(tx, goal, {"go": [], "arrive": ["go"]})
    start(tx, goal, ids["go"])
    return goals.get_goal(tx, tenant_id, goal.id)
