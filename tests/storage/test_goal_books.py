"""Counters and indexes of a goal's sub-goals stay consistent with the rows, and partial queries agree with the full rules."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headway.actions import goals, sub_goals
from headway.actions.goals import NewGoal
from headway.ledger.goal import (
    OPEN_STATUSES,
    STATUSES,
    Divergence,
    Goal,
    SubGoal,
    SubGoalMode,
    find_replan_reason,
    has_replan_reason,
    list_ready,
)
from headway.storage.stores import goals as goal_store
from headway.storage.stores import pursuits as pursuit_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.goal_plans import add_plan, end, evaluate, start, sub_goal

EVERYTHING = 1_000
DIVERGENCES: list[Divergence] = ["none", "none", "none", "none", "none", "none", "none", "none", "minor", "major"]


class Walk:
    """Applies random allowed changes to the sub-goals of a goal. The seed determines all of them."""

    def __init__(self, goal: Goal, seed: int) -> None:
        self.goal = goal
        self.chance = random.Random(seed)

    def step(self, tx: Transaction, tenant_id: int) -> None:
        known = goal_store.list_sub_goals(tx, tenant_id, self.goal.id)
        moves: list[tuple[Callable[[SubGoal], bool], Callable[[Transaction, SubGoal], object]]] = [
            (lambda one: one.status == "pending", lambda tx, one: start(tx, self.goal, one.id)),
            (lambda one: one.status == "in-progress", lambda tx, one: end(tx, self.goal, one.id)),
            (lambda one: one.status == "in-progress", lambda tx, one: end(tx, self.goal, one.id, error="It broke.")),
            (lambda one: one.status == "in-progress", sub_goals.mark_pending),
            (lambda one: one.status in OPEN_STATUSES, lambda tx, one: sub_goals.skip(tx, one, "no need")),
            (self.is_unjudged, lambda tx, one: evaluate(tx, self.goal, one.id, self.chance.choice(DIVERGENCES))),
            (self.is_unjudged, lambda tx, one: evaluate(tx, self.goal, one.id)),
            (lambda one: one.status == "pending", lambda tx, one: self.rewire(tx, one, known)),
            (lambda _: True, lambda tx, _: self.add(tx, known)),
            (lambda _: self.chance.random() < 0.1, lambda tx, one: goal_store.accept_divergences(tx, tenant_id, one.goal_id)),
        ]
        fits, move = self.chance.choice(moves)
        chosen = [one for one in known if fits(one)]
        if chosen:
            move(tx, self.chance.choice(chosen))

    def is_unjudged(self, one: SubGoal) -> bool:
        return one.status in ("completed", "failed") and one.divergence is None

    def rewire(self, tx: Transaction, one: SubGoal, known: list[SubGoal]) -> None:
        before = [other.id for other in known if other.id < one.id]
        goal_store.replace_edges(tx, one.id, self.chance.sample(before, min(len(before), self.chance.randint(0, 3))))

    def add(self, tx: Transaction, known: list[SubGoal]) -> None:
        mode = self.chance.choice(["inline", "agent"])
        priority, value = self.chance.randint(1, 10), self.chance.choice([0.1, 0.3, 0.7, 1.0])
        owner: dict[str, Any] = {"tenant_id": self.goal.tenant_id, "goal_id": self.goal.id}
        new = sub_goal(mode=mode, priority=priority, expected_value=value, **owner)
        number = goal_store.insert_sub_goal(tx, new)
        self.rewire(tx, new._replace(id=number), known)


def contradictions(tx: Transaction, tenant_id: int, goal_id: int) -> list[str]:
    """List every stored counter and every indexed query that disagrees with the rows."""
    goal = goals.get(tx, tenant_id, goal_id)
    known = goal_store.list_sub_goals(tx, tenant_id, goal_id)
    counted = Counter(one.status for one in known)
    found: list[str] = [status for status in STATUSES if goal.progress[status.replace("-", "_")] != counted[status]]
    modes: tuple[SubGoalMode, ...] = ("inline", "agent")
    can_begin = {mode: pursuit_store.list_ready(tx, goal, mode, EVERYTHING) for mode in modes}
    found += [f"ready, {mode}" for mode in modes if can_begin[mode] != [one for one in list_ready(known) if one.mode == mode]]
    at_hand = [
        one for one in known if one.status == "in-progress" or (one.ended and not one.divergence and one.status != "skipped")
    ]
    if pursuit_store.list_active(tx, goal) != at_hand:
        found.append("at hand")
    if has_replan_reason(goal, pursuit_store.list_doubts(tx, goal)) != (find_replan_reason(goal, known) is not None):
        found.append("in doubt")
    if pursuit_store.list_last_completed(tx, goal, 3) != [one for one in known if one.status == "completed"][-3:]:
        found.append("done")
    found += [
        f"below {one.id}"
        for one in known
        if tuple(below.id for below in pursuit_store.list_dependencies(tx, one)) != one.depends_on
    ]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_to_sub_goals_keep_counters_and_rows_consistent(desk: TenantHarness, seed: int) -> None:
    goal = desk.write(goals.add, NewGoal("wander"))
    desk.write(lambda tx, _: add_plan(tx, goal, {"a": [], "b": ["a"], "c": ["a", "b"]}, mode="inline"))
    walk = Walk(desk.read(goals.get, goal.id), seed)

    seen: set[str] = set()
    for number in range(120):
        desk.write(walk.step)
        assert desk.read(contradictions, goal.id) == [], f"after step {number}"
        seen |= {status for status, count in desk.read(goals.get, goal.id).progress.items() if count}

    assert len(seen) == 1 + len(STATUSES), "a walk that never gets anywhere shows nothing"


def test_a_stale_change_to_a_sub_goal_is_refused(desk: TenantHarness) -> None:
    goal = desk.write(goals.add, NewGoal("be quick"))
    ids = desk.write(lambda tx, _: add_plan(tx, goal, {"a": []}))
    stale = desk.read(goal_store.find_sub_goal, ids["a"])
    assert stale is not None
    desk.write(lambda tx, _: start(tx, goal, ids["a"]))

    with pytest.raises(AssertionError, match="lock the goal"):
        desk.write(lambda tx, _: sub_goals.skip(tx, stale, "too late"))

    assert desk.read(contradictions, goal.id) == []
    assert desk.read(goals.get, goal.id).progress["in_progress"] == 1
