"""Counters and indexes of a goal's sub-goals stay consistent with the rows, and partial queries agree with the full rules."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import sub_goals
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
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.goal_plans import add_plan, end, evaluate, start, sub_goal
from tests.proofs import Proof

EVERYTHING = 1_000
DIVERGENCES: list[Divergence] = ["none", "none", "none", "none", "none", "none", "none", "none", "minor", "major"]


class Walk:
    """Applies random allowed changes to the sub-goals of a goal. The seed determines all of them."""

    def __init__(self, goal: Goal, seed: int) -> None:
        self.goal = goal
        self.chance = random.Random(seed)

    def step(self, tx: Transaction, tenant_id: int) -> None:
        known_sub_goals = goal_store.list_sub_goals(tx, tenant_id, self.goal.id)
        moves: list[tuple[Callable[[SubGoal], bool], Callable[[Transaction, SubGoal], object]]] = [
            (lambda step: step.status == "pending", lambda tx, step: start(tx, self.goal, step.id)),
            (lambda step: step.status == "in-progress", lambda tx, step: end(tx, self.goal, step.id)),
            (lambda step: step.status == "in-progress", lambda tx, step: end(tx, self.goal, step.id, error="It broke.")),
            (lambda step: step.status == "in-progress", sub_goals.mark_pending),
            (lambda step: step.status in OPEN_STATUSES, lambda tx, step: sub_goals.skip(tx, step, "no need")),
            (self.is_unevaluated, lambda tx, step: evaluate(tx, self.goal, step.id, self.chance.choice(DIVERGENCES))),
            (self.is_unevaluated, lambda tx, step: evaluate(tx, self.goal, step.id)),
            (self.is_replaceable, lambda tx, step: sub_goals.change_sub_goal(tx, step, superseded_by=2)),
            (lambda step: step.status == "pending", lambda tx, step: self.rewire(tx, step, known_sub_goals)),
            (lambda _: True, lambda tx, _: self.add(tx, known_sub_goals)),
            (lambda _: self.chance.random() < 0.1, lambda tx, step: goal_store.accept_divergences(tx, tenant_id, step.goal_id)),
        ]
        fits, move = self.chance.choice(moves)
        chosen = [step for step in known_sub_goals if fits(step)]
        if chosen:
            move(tx, self.chance.choice(chosen))

    def is_unevaluated(self, step: SubGoal) -> bool:
        return step.status in ("completed", "failed") and step.divergence is None

    def is_replaceable(self, step: SubGoal) -> bool:
        return step.ended and not step.is_done and not step.superseded_by

    def rewire(self, tx: Transaction, step: SubGoal, others: list[SubGoal]) -> None:
        before = [other.id for other in others if other.id < step.id]
        goal_store.replace_edges(
            tx, step.tenant_id, step.id, self.chance.sample(before, min(len(before), self.chance.randint(0, 3)))
        )

    def add(self, tx: Transaction, others: list[SubGoal]) -> None:
        mode = self.chance.choice(["inline", "agent"])
        urgency, value = self.chance.randint(1, 10), self.chance.choice([0.1, 0.3, 0.7, 1.0])
        owner: dict[str, Any] = {"tenant_id": self.goal.tenant_id, "goal_id": self.goal.id}
        new = sub_goal(mode=mode, urgency=urgency, expected_value=value, **owner)
        number = goal_store.insert_sub_goal(tx, new)
        self.rewire(tx, new._replace(id=number), others)


def find_contradictions(tx: Transaction, tenant_id: int, goal_id: int) -> list[str]:
    """List every stored counter and every indexed query that disagrees with the rows."""
    goal = goals.get_goal(tx, tenant_id, goal_id)
    rows = goal_store.list_sub_goals(tx, tenant_id, goal_id)
    counts = Counter(row.status for row in rows)
    problems: list[str] = [status for status in STATUSES if goal.progress[status.replace("-", "_")] != counts[status]]
    in_plan = [row for row in rows if not row.superseded_by]
    if (goal.in_plan, goal.done) != (len(in_plan), sum(row.is_done for row in in_plan)):
        problems.append("in the current plan")
    modes: tuple[SubGoalMode, ...] = ("inline", "agent")
    ready = {mode: goal_store.list_ready_pursuits(tx, goal, mode, EVERYTHING) for mode in modes}
    problems += [f"ready, {mode}" for mode in modes if ready[mode] != [row for row in list_ready(rows) if row.mode == mode]]
    active = [row for row in rows if row.status == "in-progress" or (row.ended and not row.divergence and row.status != "skipped")]
    if goal_store.list_active(tx, goal) != active:
        problems.append("at hand")
    if has_replan_reason(goal, goal_store.list_doubts(tx, goal)) != (find_replan_reason(goal, rows) is not None):
        problems.append("in doubt")
    if goal_store.list_last_completed(tx, goal, 3) != [row for row in rows if row.status == "completed"][-3:]:
        problems.append("done")
    problems += [
        f"below {row.id}" for row in rows if tuple(below.id for below in goal_store.list_dependencies(tx, row)) != row.depends_on
    ]
    return problems


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2))
def test_random_changes_to_sub_goals_keep_counters_and_rows_consistent(desk: TenantHarness, seed: int, proof: Proof) -> None:
    goal = desk.write(goals.add_goal, NewGoal("wander"))
    desk.write(lambda tx, _: add_plan(tx, goal, {"a": [], "b": ["a"], "c": ["a", "b"]}, mode="inline"))
    walk = Walk(desk.read(goals.get_goal, goal.id), seed)

    statuses_seen: set[str] = set()
    for number in range(proof.trials("random changes to sub-goals: counters and rows", share=120, whole=1_000)):
        desk.write(walk.step)
        assert desk.read(find_contradictions, goal.id) == [], f"after step {number}"
        statuses_seen |= {status for status, count in desk.read(goals.get_goal, goal.id).progress.items() if count}

    assert len(statuses_seen) == 3 + len(STATUSES), "a walk that never gets anywhere shows nothing"


def test_a_stale_change_to_a_sub_goal_is_refused(desk: TenantHarness) -> None:
    goal = desk.write(goals.add_goal, NewGoal("be quick"))
    ids = desk.write(lambda tx, _: add_plan(tx, goal, {"a": []}))
    stale = desk.read(goal_store.find_sub_goal, ids["a"])
    assert stale is not None
    desk.write(lambda tx, _: start(tx, goal, ids["a"]))

    with pytest.raises(AssertionError, match="lock the goal"):
        desk.write(lambda tx, _: sub_goals.skip(tx, stale, "too late"))

    assert desk.read(find_contradictions, goal.id) == []
    assert desk.read(goals.get_goal, goal.id).progress["in_progress"] == 1
