"""A plan that no longer works is replaced, a limited number of times; then the operator decides."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from headway.actions.goals import goals
from headway.actions.inspection import why
from headway.ledger.errors import Conflict
from tests.autonomy.goal_harness import (
    Gate,
    Part,
    Pursuit,
    agent,
    by_part,
    evaluation_form,
    failure,
    find_key,
    get_question,
    in_order,
    open_pursuit,
    plan,
    replan,
    reply_done,
    step,
)
from tests.model_server import Reply, Request, Script, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")


def attempts() -> Script:
    """A different plan for every request."""
    number = count(1)
    return lambda _request: replan(step(f"try {next(number)}"))


def test_a_failing_sub_goal_is_replanned_and_its_dependants_never_start(database_url: str, tmp_path: Path) -> None:
    steps = plan(agent("dig"), step("fill", "dig"), agent("plant", "fill"), step("paint"))
    another_way = replan(step("buy a raised bed"), step("plant it", "buy a raised bed"))
    with open_pursuit(database_url, tmp_path, by_part({"dig": failure()}, plan=steps, replan=another_way)) as pursuit:
        pursuit.achieve()
        assert pursuit.goal().replan_count == 1
        [asked] = pursuit.list_requests("replan")
        assert "[failed] dig: It rains." in asked.last
        statuses = pursuit.statuses()
        assert statuses.pop("paint") in ("completed", "skipped"), "it needed nothing of what failed"
        assert statuses == {
            "dig": "failed",
            "fill": "skipped",
            "plant": "skipped",
            "buy a raised bed": "completed",
            "plant it": "completed",
        }
        assert not {"fill", "plant"} & set(pursuit.list_started_tasks())
        assert pursuit.sub_goal("fill").reason == "The new plan does not include it."
        assert pursuit.notices() == [], "the operator hears of major changes only"


def test_new_plans_may_depend_on_completed_sub_goals(database_url: str, tmp_path: Path) -> None:
    steps = plan(step("measure"), step("dig", "measure"), step("plant", "dig"))

    def another_way(request: Request) -> Reply:
        measured, planted = find_key(request, "measure"), find_key(request, "plant")
        return replan(step("drill", measured), {"id": planted, "depends_on": ["drill"]})

    with open_pursuit(database_url, tmp_path, by_part({"dig": failure()}, plan=steps, replan=another_way)) as pursuit:
        pursuit.achieve()
        assert pursuit.statuses() == {"measure": "completed", "dig": "failed", "plant": "completed", "drill": "completed"}
        assert pursuit.sub_goal("drill").depends_on == (pursuit.sub_goal("measure").id,)
        assert pursuit.sub_goal("plant").depends_on == (pursuit.sub_goal("drill").id,)
        assert pursuit.journal("replanned")[0]["kept"] == [pursuit.sub_goal("plant").id]
        assert pursuit.list_started_tasks() == ["measure", "dig", "drill", "plant"]


def test_a_kept_sub_goal_keeps_its_dependencies(sqlite_url: str, tmp_path: Path) -> None:
    gate = Gate()
    steps = plan(agent("measure"), step("draw", "measure"), step("dig", priority=10))

    def another_way(request: Request) -> Reply:
        return replan({"id": find_key(request, "measure")}, {"id": find_key(request, "draw")}, step("drill"))

    script = by_part({"dig": failure(), "measure": gate.before(reply_done)}, plan=steps, replan=another_way)
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: "drill" in pursuit.list_started_tasks())
        assert pursuit.sub_goal("draw").depends_on == (pursuit.sub_goal("measure").id,)
        gate.open()
        pursuit.wait_until_ended()
        assert pursuit.list_started_tasks()[-1] == "draw"


def test_work_in_progress_is_kept_or_canceled_as_the_new_plan_says(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    steps = plan(agent("keep"), agent("drop"), step("dig"))

    def another_way(request: Request) -> Reply:
        return replan({"id": find_key(request, "keep")}, step("drill"))

    work: dict[str, Part] = {"dig": failure(), "keep": gate.before(text("Kept.")), "drop": gate.before(text("Dropped."))}
    with open_pursuit(database_url, tmp_path, by_part(work, plan=steps, replan=another_way)) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.statuses().get("drill") == "completed")
        pursuit.until(lambda: pursuit.run_of("keep").status == "running")  # a dishonest dispatcher may start it late
        assert pursuit.statuses()["drop"] == "skipped"
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.run_of("drop").status == "canceled"
        assert pursuit.sub_goal("drop").reason == "The new plan does not include it."
        kept = pursuit.sub_goal("keep")
        assert (kept.status, kept.divergence, kept.judged_under) == ("completed", "none", 2)
        assert "Kept." in (kept.outcome or "")
        assert [entry["sub_goal_id"] for entry in pursuit.journal("sub_goal_started")].count(kept.id) == 1


def test_inline_work_in_progress_is_dropped_too(sqlite_url: str, tmp_path: Path) -> None:
    gate, never = Gate(), Gate()
    waits = calls(("delegate", {"agent": "researcher", "task": "ask around"}))
    steps = plan(agent("dig"), step("muse"))
    work: dict[str, Part] = {"dig": gate.before(failure()), "muse": waits, "ask around": never.before(reply_done)}
    with open_pursuit(sqlite_url, tmp_path, by_part(work, plan=steps, replan=replan(step("drill")))) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: "ask around" in pursuit.list_started_tasks())
        gate.open()
        pursuit.until(lambda: "drill" in pursuit.list_started_tasks())
        pursuit.wait_until_ended()
        never.open()
        assert pursuit.statuses() == {"dig": "failed", "muse": "skipped", "drill": "completed"}


@pytest.mark.parametrize("named", [False, True], ids=["dropped", "named"])
def test_a_sub_goal_that_ends_during_a_replan_causes_no_second_replan(database_url: str, tmp_path: Path, named: bool) -> None:
    """A plan without that sub-goal takes effect; a plan that depends on it is requested again."""
    working, planning = Gate(), Gate()

    def first(request: Request) -> Reply:
        return replan(step("rest"), *([{"id": find_key(request, "draw")}] if named else []))

    script = by_part(
        {"dig": failure(), "draw": working.before(failure("No paper."))},
        plan=plan(agent("dig"), agent("draw")),
        replan=in_order(planning.before(first), replan(step("rest"))),
    )
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.list_requests("replan"))
        working.open()
        pursuit.until(lambda: pursuit.statuses()["draw"] == "failed")
        planning.open()
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.goal().replan_count == 1
        assert len(pursuit.list_requests("replan")) == 1 + named
        assert {sub_goal.judged_under for sub_goal in pursuit.sub_goals() if sub_goal.status == "failed"} == {1}


def test_a_plan_that_changes_nothing_is_escalated_at_once(database_url: str, tmp_path: Path) -> None:
    def the_same(request: Request) -> Reply:
        return replan({"id": find_key(request, "fill"), "depends_on": []})

    script = by_part(
        {"dig": failure()}, plan=plan(step("dig"), step("fill", "dig")), replan=in_order(the_same, replan(step("drill")))
    )
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.set_goal()
        goal = pursuit.wait_until_paused()
        assert (goal.pause_kind, goal.replan_count, goal.plan_no) == ("escalation", 0, 1)
        assert "would change nothing" in goal.pause_reason
        assert [kind for kind, _ in pursuit.notices()] == ["decision"]
        assert len(pursuit.list_requests("replan")) == 1
        pursuit.decide("replan", "Use the drill.")
        assert pursuit.wait_until_ended().status == "completed"


def test_the_same_words_under_a_new_number_change_nothing(sqlite_url: str, tmp_path: Path) -> None:
    script = by_part({"dig": failure()}, plan=plan(step("dig"), step("fill", "dig")), replan=replan(step(" FILL ")))
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.set_goal()
        assert pursuit.wait_until_paused().pause_kind == "escalation"


def test_a_replan_that_does_not_work_is_sent_back_and_then_escalated(sqlite_url: str, tmp_path: Path) -> None:
    def on_what_failed(request: Request) -> Reply:
        return replan(step("plant", find_key(request, "dig")))

    script = by_part({"dig": failure()}, plan=plan(step("dig")), replan=on_what_failed)
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.set_goal()
        assert pursuit.wait_until_paused().pause_kind == "escalation"
        requests = pursuit.list_requests("replan")
        assert len(requests) == 3
        assert "which is failed and not in the plan" in requests[-1].last


def test_the_model_may_give_the_goal_up(database_url: str, tmp_path: Path) -> None:
    given_up = calls(("submit_replan", {"give_up": "There is no ground here."}))
    script = by_part({"dig": failure()}, plan=plan(step("dig"), step("fill", "dig")), replan=given_up)
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.set_goal("A garden.")
        goal = pursuit.wait_until_ended()
        assert (goal.status, goal.pause_reason) == ("abandoned", "There is no ground here.")
        assert pursuit.statuses() == {"dig": "failed", "fill": "skipped"}
        assert pursuit.run().status == "canceled"
        assert pursuit.job().state == "canceled"
        ((kind, words),) = pursuit.notices()
        assert kind == "given_up"
        assert "A garden." in words
        assert "There is no ground here." in words


def test_the_goal_itself_may_change_and_the_operator_hears_of_it(database_url: str, tmp_path: Path) -> None:
    """004: "`[Jarvis] Goal #${goalId} replanned (attempt ${replanCount}): ${reason}`"."""
    smaller = replan(agent("fill a pot"), new_goal="A flowerpot.", reason="No ground.")
    with open_pursuit(database_url, tmp_path, by_part({"dig": failure()}, plan=plan(step("dig")), replan=smaller)) as pursuit:
        pursuit.achieve("A garden.")
        assert pursuit.goal().description == "A flowerpot."
        ((kind, words),) = pursuit.notices()
        assert kind == "replanned"
        assert words.startswith(f"Goal #{pursuit.goal_id} was replanned (attempt 1): ")
        assert words.endswith("No ground. The goal was “A garden.”. It is now “A flowerpot.”.")
        assert "A flowerpot." in get_question(pursuit.list_requests("work")[-1]), (
            "whoever works for it is told of the goal as it is"
        )


def six_divergences(pursuit: Pursuit) -> None:
    pursuit.set_goal()
    goal = pursuit.wait_until_paused()
    assert (goal.pause_kind, goal.replan_count) == ("replans", 5)
    assert len(pursuit.list_requests("replan")) == 5
    assert "replanned 5 times" in goal.pause_reason
    assert "Crooked." in goal.pause_reason
    ((kind, words),) = pursuit.notices()
    assert kind == "decision"
    assert "A garden." in words
    assert words.endswith("Continue, replan with a note, or abandon it?")
    assert pursuit.job().state == "delayed"


def diverging(times: int = 6) -> Script:
    return by_part(
        plan=plan(step("try")),
        replan=attempts(),
        evaluation=in_order(*[evaluation_form("major", "Crooked.")] * times, evaluation_form()),
    )


def continued(pursuit: Pursuit) -> None:
    assert pursuit.decide("continue").replan_count == 0
    assert pursuit.wait_until_ended().status == "completed"
    assert pursuit.goal().replan_count == 1


def replanned(pursuit: Pursuit) -> None:
    pursuit.decide("replan", "Ask the neighbour.")
    assert pursuit.wait_until_ended().status == "completed"
    assert "Ask the neighbour." in get_question(pursuit.list_requests("replan")[-1])
    assert pursuit.goal().replan_count == 5


def abandoned(pursuit: Pursuit) -> None:
    assert pursuit.decide("abandon", "Never mind.").status == "abandoned"
    assert pursuit.goal().pause_reason == "Never mind."
    assert pursuit.job().state == "canceled"


@pytest.mark.parametrize("decided", [continued, replanned, abandoned])
def test_six_divergences_pause_a_goal_and_one_decision_resumes_it(
    database_url: str, tmp_path: Path, decided: Callable[[Pursuit], None]
) -> None:
    with open_pursuit(database_url, tmp_path, diverging()) as pursuit:
        six_divergences(pursuit)
        decided(pursuit)
        assert len(pursuit.journal("decided")) == 1


def test_how_often_is_a_setting(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, diverging(), replan_limit="0") as pursuit:
        pursuit.set_goal()
        assert pursuit.wait_until_paused().pause_kind == "replans"
        assert pursuit.list_requests("replan") == []


def test_there_is_nothing_to_decide_about_a_goal_that_is_not_paused(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    with open_pursuit(database_url, tmp_path, by_part(plan=gate.before(plan(step("dig"))))) as pursuit:
        pursuit.set_goal()
        with pytest.raises(Conflict, match="is active; only a paused goal needs a decision"):
            pursuit.decide("continue")
        with pytest.raises(Conflict, match="is active; only a paused goal can be resumed"):
            pursuit.act(goals.resume, pursuit.goal_id)
        gate.open()
        pursuit.wait_until_ended()
        for action in (goals.pause, goals.resume, goals.abandon):
            with pytest.raises(Conflict):
                pursuit.act(action, pursuit.goal_id)
        with pytest.raises(Conflict):
            pursuit.decide("abandon")


def test_nothing_left_and_nothing_achieved_is_escalated(sqlite_url: str, tmp_path: Path) -> None:
    """A plan may be empty only after some work was done, so a goal cannot complete with nothing."""
    script = by_part({"dig": failure()}, plan=plan(step("dig")), replan=replan())
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.set_goal()
        assert "The plan is empty" in pursuit.wait_until_paused().pause_reason


def test_why_tells_which_divergence_led_to_the_new_plan(sqlite_url: str, tmp_path: Path) -> None:
    evaluation = in_order(evaluation_form("major", "Crooked."), *[evaluation_form()] * 2)
    parts = by_part(plan=plan(step("dig"), step("plant", "dig")), replan=replan(step("dig again")), evaluation=evaluation)
    with open_pursuit(sqlite_url, tmp_path, parts) as pursuit:
        pursuit.achieve()
        explanation = pursuit.database.read(lambda tx: why.explain(tx, pursuit.tenant_id, "goal", str(pursuit.goal_id), 100))
        dig = pursuit.sub_goal("dig").id
        lines = [line.text for line in explanation.lines]

        assert lines[0] == "The goal was set."
        diverged = lines.index(f"#{dig} “dig” diverged: Crooked.")
        assert lines[diverged + 2] == f"Plan 2 (1 added, 0 kept, 1 dropped): #{dig} diverged: Crooked."
        assert all(line.seq for line in explanation.lines[:-1])
        assert lines[-1] == f"Goal #{pursuit.goal_id} is completed: 1 of 1 sub-goals are done."
