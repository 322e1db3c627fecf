"""The rules of a goal's plan: which sub-goals are ready, when a replan is due, and which work is still open."""

from typing import Any

from headway.ledger.goal import (
    Experience,
    SubGoal,
    compute_frontier,
    find_replan_reason,
    has_replan_reason,
    list_ready,
    list_stranded,
)
from tests.goal_plans import GOAL, sub_goal
from tests.tables import each_row

DONE = {"status": "completed", "divergence": "none", "judged_under": 1}


def plan(*steps: dict[str, Any]) -> list[SubGoal]:
    """Build sub-goals numbered from 1."""
    return [sub_goal(f"step {number}", id=number, **fields) for number, fields in enumerate(steps, 1)]


def ids(steps: list[SubGoal]) -> list[int]:
    return [step.id for step in steps]


# Ready sub-goals


def test_a_sub_goal_without_dependencies_is_ready() -> None:
    assert ids(list_ready(plan({}, {"depends_on": (1,)}, {}))) == [1, 3]
    assert list_ready([]) == []


@each_row(
    ("below", "free"),
    [
        ({"status": "pending"}, False),
        ({"status": "in-progress"}, False),
        ({"status": "completed", "divergence": None}, False),  # not yet evaluated
        ({"status": "completed", "divergence": "none"}, True),
        ({"status": "completed", "divergence": "minor"}, True),
        ({"status": "failed"}, False),
        ({"status": "skipped"}, False),
    ],
)
def test_a_dependant_waits_until_its_dependency_is_completed_and_evaluated(below: dict[str, Any], free: bool) -> None:
    assert (2 in ids(list_ready(plan(below, {"depends_on": (1,)})))) == free


def test_all_that_it_builds_on_has_to_be_done() -> None:
    assert ids(list_ready(plan(DONE, {}, {"depends_on": (1, 2)}))) == [2]
    assert ids(list_ready(plan(DONE, DONE, {"depends_on": (1, 2)}))) == [3]


def test_the_worthiest_comes_first_and_then_the_oldest() -> None:
    worth = [(1, 0.9), (10, 0.5), (5, 1.0), (10, 0.6)]
    assert ids(list_ready(plan(*({"urgency": p, "expected_value": v} for p, v in worth)))) == [4, 2, 3, 1]


@each_row("status", ["in-progress", "completed", "failed", "skipped"])
def test_only_pending_sub_goals_begin(status: str) -> None:
    assert list_ready(plan({"status": status})) == []


# Stranded sub-goals


@each_row("status", ["failed", "skipped"])
def test_a_dependant_of_a_failed_sub_goal_never_becomes_ready(status: str) -> None:
    steps = plan({"status": status}, {"depends_on": (1,)}, {"depends_on": (2,)}, {})
    assert [(stranded.id, below.id) for stranded, below in list_stranded(steps)] == [(2, 1)]
    assert list_stranded(plan(DONE, {"depends_on": (1,)})) == []
    assert list_stranded(plan({"status": status}, {"status": "completed", "depends_on": (1,)})) == []


# Replanning


def plan_with(*divergences: str, under: int = 1) -> list[SubGoal]:
    return plan(
        *(
            {"status": "completed", "divergence": each, "divergence_reason": f"{each}.", "judged_under": under}
            for each in divergences
        )
    )


@each_row(
    ("divergences", "due"),
    [
        ([], False),
        (["none"] * 9, False),
        (["minor"], False),
        (["minor", "minor"], False),
        (["minor", "minor", "minor"], True),
        (["minor", "minor", "none", "none"], False),
        (["minor"] * 3 + ["none"] * 20, True),
        (["none", "none", "major"], True),
        (["major"], True),
    ],
)
def test_one_major_or_several_minor_divergences_cause_a_replan(divergences: list[str], due: bool) -> None:
    assert (find_replan_reason(GOAL, plan_with(*divergences)) is not None) == due
    assert has_replan_reason(GOAL, [divergence for divergence in divergences if divergence != "none"]) == due


def test_a_new_plan_starts_with_a_clean_slate() -> None:
    assert find_replan_reason(GOAL._replace(plan_no=2), plan_with("major", "minor", "minor", "minor")) is None


def test_the_reason_names_the_error() -> None:
    assert find_replan_reason(GOAL, plan_with("none", "major")) == "#2 diverged: major."
    assert (
        find_replan_reason(GOAL, plan_with("minor", "minor", "minor")) == "3 of 3 outcomes diverged slightly: minor. minor. minor."
    )
    lost = plan({"status": "failed"}, {"depends_on": (1,)})
    assert find_replan_reason(GOAL, lost) == "#2 waits for #1, which was failed."


def test_a_requested_replan_is_a_replan_reason() -> None:
    assert find_replan_reason(GOAL._replace(replan_why="The operator asks for one."), plan(DONE)) == "The operator asks for one."


def test_a_failure_without_dependants_causes_no_replan() -> None:
    assert find_replan_reason(GOAL, plan({"status": "failed"}, {})) is None


# The frontier


def test_the_frontier_lists_open_sub_goals_by_description() -> None:
    steps = plan(DONE, {}, {"status": "in-progress"}, {"status": "skipped"}, {"status": "failed"})
    assert compute_frontier(steps) == {"step 2", "step 3"}
    assert compute_frontier([]) == frozenset()


def test_the_same_words_under_a_new_number_are_the_same_work() -> None:
    old, new = sub_goal("Measure  the\nQUEUE", id=1), sub_goal("measure the queue", id=9)
    assert compute_frontier([old]) == compute_frontier([new])
    assert compute_frontier([old]) != compute_frontier([sub_goal("measure the queues")])


def test_progress_counts_every_status() -> None:
    goal = GOAL._replace(pending=2, in_progress=1, completed=1, failed=1, skipped=1, in_plan=4, done=1)
    by_status = {"pending": 2, "in_progress": 1, "completed": 1, "failed": 1, "skipped": 1}
    assert goal.progress == {"total": 6, **by_status, "in_plan": 4, "done": 1}
    assert set(GOAL.progress.values()) == {0}


@each_row(
    ("title", "description", "name"),
    [
        ("Draft it", "Write the first draft of the report.", "Draft it"),
        ("", "Write it.", "Write it."),
        (
            "",
            "Using the deployment descriptors and the\nrelease notes, list every service.",
            "Using the deployment descriptors and the release notes…",
        ),
        ("", "x" * 500, "x" * 59 + "…"),
    ],
)
def test_a_sub_goal_has_a_short_name(title: str, description: str, name: str) -> None:
    assert sub_goal(description, title=title).name == name


def test_experience_is_summarised_in_rates_and_averages() -> None:
    assert Experience("research", 3, 2, 1_500_000, 12_345).as_json() == {
        "kind": "research",
        "tried": 3,
        "succeeded": 2,
        "success_rate": 0.67,
        "cost_usd": 0.0015,
        "duration_s": 12.3,
    }
