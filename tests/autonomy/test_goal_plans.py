"""The strong tier makes the plan, and the plan is validated before it takes effect."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.actions.goals import views
from headway.autonomy.planner import PlanForm
from tests.autonomy.goal_harness import Pursuit, agent, by_part, get_question, in_order, open_pursuit, plan, step
from tests.model_server import Reply, calls, text
from tests.tables import each_row


def twenty_five() -> list[dict[str, Any]]:
    """Five columns of five sub-goals. Each depends on the one above it; every other one is for a sub-agent."""
    return [
        step(f"{column}{row}", *([f"{column}{row - 1}"] if row else []), mode="agent" if (row + place) % 2 else "inline")
        for place, column in enumerate("abcde")
        for row in range(5)
    ]


def test_a_goal_of_twenty_five_sub_goals_completes(database_url: str, tmp_path: Path) -> None:
    with open_pursuit(database_url, tmp_path, by_part(plan=plan(*twenty_five()))) as pursuit:
        pursuit.achieve("Everything.")
        sub_goals = pursuit.sub_goals()
        assert [sub_goal.status for sub_goal in sub_goals] == ["completed"] * 25
        assert {sub_goal.divergence for sub_goal in sub_goals} == {"none"}
        ends = {sub_goal.id: sub_goal.ended_at for sub_goal in sub_goals}
        assert all(ends[below] <= sub_goal.started_at for sub_goal in sub_goals for below in sub_goal.depends_on)
        assert len(pursuit.journal("sub_goal_ended")) == len(pursuit.journal("evaluated")) == 25
        assert pursuit.goal().replan_count == 0
        assert len(pursuit.list_requests("plan")) == 1
        assert pursuit.job().state == "completed"
        assert pursuit.events("goal_changed")[-1]["goal"]["progress"]["completed"] == 25


def test_a_plan_keeps_the_fields_that_the_model_chose(database_url: str, tmp_path: Path) -> None:
    chosen = agent("dig", priority=9, expected_value=0.25, kind="Digging", role="coder", cost_limit_usd=2)
    with open_pursuit(database_url, tmp_path, by_part(plan=plan(chosen, step("fill", "dig")))) as pursuit:
        pursuit.achieve()
        dig, fill = pursuit.sub_goals()
        assert (dig.mode, dig.role, dig.urgency, dig.expected_value, dig.kind) == ("agent", "coder", 9, 0.25, "digging")
        assert (dig.expected_outcome, dig.cost_limit) == ("dig is done", 2_000_000_000)
        assert (fill.mode, fill.depends_on, fill.role) == ("inline", (dig.id,), "index")
        assert [(entry["mode"], entry["role"]) for entry in pursuit.journal("sub_goal_started")] == [
            ("agent", "coder"),
            ("inline", "index"),
        ]
        assert pursuit.run_of("dig").role == "coder"
        assert pursuit.run_of("fill").id == pursuit.goal().run_id


def test_the_planning_prompt_says_when_a_sub_agent_is_worth_its_cost(sqlite_url: str, tmp_path: Path) -> None:
    """004: "Planning prompt must explicitly instruct the LLM to weigh task complexity against overhead. Simple, fast tasks should
    execute inline"."""
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=plan(step("dig")))) as pursuit:
        pursuit.achieve()
        (request,) = pursuit.list_requests("plan")
        assert "Use inline for small or sequential work" in request.system
        assert "agent only for sizeable work that can run in parallel" in request.system
        assert "a small goal has one to three sub-goals" in request.system


@pytest.mark.parametrize("words", ["{}", "Here you are:\n```json\n{}\n```\nGood luck!"], ids=["bare", "fenced"])
def test_a_plan_may_be_handed_in_as_text(sqlite_url: str, tmp_path: Path, words: str) -> None:
    document = json.dumps({"sub_goals": [step("dig"), step("fill", "dig")]})
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=text(words.replace("{}", document)))) as pursuit:
        pursuit.achieve()
        assert pursuit.statuses() == {"dig": "completed", "fill": "completed"}
        assert len(pursuit.list_requests("plan")) == 1


def test_ids_may_be_numbers(sqlite_url: str, tmp_path: Path) -> None:
    steps = [{**step("dig"), "id": 1}, {**step("fill"), "id": 2, "depends_on": [1]}]
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=plan(*steps))) as pursuit:
        pursuit.achieve()
        dig, fill = pursuit.sub_goals()
        assert fill.depends_on == (dig.id,)


WRONG: dict[str, tuple[Reply, str]] = {
    "a cycle": (plan(step("a", "b"), step("b", "a")), "These depend on each other"),
    "itself": (plan(step("a", "a")), "These depend on each other"),
    "an unknown id": (plan(step("a", "z")), "a depends on 'z', which is unknown"),
    "one that exists, says the model": (plan(step("a", "#5")), "a depends on '#5', which is unknown"),
    "an id that exists, says the model": (plan({"id": "#5"}), "#5 is not an open sub-goal"),
    "nothing": (plan(), "The plan is empty"),
    "too much": (plan(*(step(f"s{n}") for n in range(101))), "at most 100 are allowed"),
    "the same id": (plan(step("a"), {**step("b"), "id": "a"}), "The id 'a' occurs twice"),
    "the same words": (plan(step("a"), {**step(" A "), "id": "b"}), "The description 'a' occurs twice"),
    "no description": (plan({**step("a"), "description": " "}), "description of a is missing"),
    "an unknown role": (plan(agent("a", role="wizard")), "Unknown role 'wizard'"),
    "a priority that is no number": (plan(step("a", priority="high")), "sub_goals[0].priority"),
    "a value that is no number": (plan(step("a", expected_value=float("nan"))), "expected_value"),
    "no object": (calls(("submit_plan", {}), text="x"), "sub_goals"),
    "broken JSON": (text('{"sub_goals": [}'), "not a JSON object"),
    "words": (text("I would begin with the digging."), "does not call submit_plan"),
    "another tool": (calls(("create_todo", {"items": []})), "does not call submit_plan"),
    "two tools": (calls(("create_todo", {}), ("submit_plan", {"sub_goals": []})), "The plan is empty"),
    "silence": (text(""), "does not call submit_plan"),
}


@pytest.fixture
def pursuit(sqlite_url: str, tmp_path: Path) -> Iterator[Pursuit]:
    with open_pursuit(sqlite_url, tmp_path, text("")) as pursuit:
        yield pursuit


@each_row("name", WRONG)
def test_an_invalid_plan_is_sent_back_with_the_reason(pursuit: Pursuit, name: str) -> None:
    wrong, complaint = WRONG[name]
    pursuit.start_over(by_part(plan=in_order(wrong, plan(step("dig")))))
    pursuit.achieve()
    _, again = pursuit.list_requests("plan")
    assert complaint in again.last
    assert pursuit.statuses() == {"dig": "completed"}, "only the plan that was right counts"
    assert len(pursuit.journal("planned")) == 1


def test_a_plan_that_is_wrong_three_times_is_escalated(database_url: str, tmp_path: Path) -> None:
    with open_pursuit(
        database_url, tmp_path, by_part(plan=in_order(plan(), plan(), plan(step("a", "z")), plan(step("dig"))))
    ) as pursuit:
        pursuit.set_goal("A garden.")
        goal = pursuit.wait_until_paused()
        assert goal.pause_kind == "escalation"
        assert "which is unknown" in goal.pause_reason
        assert pursuit.sub_goals() == []
        assert [kind for kind, _ in pursuit.notices()] == ["decision"]
        assert len(pursuit.list_requests("plan")) == 3
        pursuit.decide("continue")
        assert pursuit.wait_until_ended().status == "completed"


def test_ready_sub_agents_start_in_the_order_of_their_worth(database_url: str, tmp_path: Path) -> None:
    steps = [
        agent("little", priority=10, expected_value=0.1),
        agent("most", priority=8, expected_value=1.0),
        agent("middling", priority=4, expected_value=0.9),
        agent("more", priority=9, expected_value=0.8),
    ]
    with open_pursuit(database_url, tmp_path, by_part(plan=plan(*steps)), subagents_per_parent="1") as pursuit:
        pursuit.achieve()
        assert pursuit.list_started_tasks() == ["most", "more", "middling", "little"]


def test_inline_work_is_done_in_the_order_of_its_worth(sqlite_url: str, tmp_path: Path) -> None:
    steps = [step("less", priority=2), step("more", priority=9), step("first", priority=1, expected_value=0), step("x", "first")]
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=plan(*steps))) as pursuit:
        pursuit.achieve()
        assert pursuit.list_started_tasks() == ["more", "less", "first", "x"]


def test_no_more_sub_agents_than_the_cap_are_at_work_at_once(database_url: str, tmp_path: Path) -> None:
    steps = [agent(f"a{n}") for n in range(5)]
    with open_pursuit(database_url, tmp_path, by_part(plan=plan(*steps)), subagents_per_parent="2") as pursuit:
        pursuit.achieve()
        going = most = 0
        for event in (entry.kind for entry in pursuit.entries()):
            going += (event == "sub_goal_started") - (event == "sub_goal_ended")
            most = max(most, going)
        assert most == 2


def test_the_results_of_earlier_goals_are_in_the_next_planning_prompt(database_url: str, tmp_path: Path) -> None:
    first = plan(step("dig", kind="digging"), step("fill", kind="filling"), step("rake", kind="digging"))
    with open_pursuit(database_url, tmp_path, by_part(plan=in_order(first, plan(step("rest"))))) as pursuit:
        pursuit.achieve("A garden.")
        pursuit.achieve("A pond.")
        before, after = (get_question(request) for request in pursuit.list_requests("plan"))
        assert "Experience so far" not in before
        assert "- digging: 2 of 2 went as expected" in after
        assert "- filling: 1 of 1 went as expected" in after
        assert [row["kind"] for row in read_goal(pursuit)["experience"]] == ["digging", "filling", "work"]
        assert pursuit.journal("planned")[0]["experience"][0]["success_rate"] == 1.0


def read_goal(pursuit: Pursuit) -> dict[str, Any]:
    return pursuit.read(views.show_goal, pursuit.goal_id)


@each_row(("given", "stored"), [(11, 10), (85, 10), (0, 1), (-3, 1), (7, 7)])
def test_a_priority_out_of_its_range_is_brought_into_it(given: int, stored: int) -> None:
    form = PlanForm.model_validate({"sub_goals": [{"description": "dig", "priority": given, "expected_value": given}]})
    assert form.sub_goals[0].priority == stored
    assert 0 <= form.sub_goals[0].expected_value <= 1
