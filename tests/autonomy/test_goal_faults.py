"""Model outages: transient failures are retried, permanent ones reach the operator, and finished work is kept."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.actions.engine import dead_letters
from headway.actions.goals import goals, views
from headway.actions.runs import jobs
from headway.autonomy.pursuit import fail_pursuit
from tests.agents.job_harness import get_delay_ms
from tests.autonomy.goal_harness import Pursuit, agent, by_part, in_order, open_pursuit, plan, replan, step
from tests.model_server import Reply, chunk, encode_stream, error, raw, text

pytestmark = pytest.mark.usefixtures("dispatch")

DOWN = error(500, "no model here")
DIG = plan(step("dig"))


def test_a_planner_that_is_back_in_time_is_asked_again(database_url: str, tmp_path: Path) -> None:
    with open_pursuit(database_url, tmp_path, by_part(plan=in_order(DOWN, error(429), DIG)), model_retries="3") as pursuit:
        pursuit.achieve()
        assert len(pursuit.list_requests("plan")) == 3
        assert pursuit.notices() == []


def test_a_planner_that_asks_to_be_left_alone_is(database_url: str, tmp_path: Path) -> None:
    """004, QUEUE-01: "External calls retry with exponential backoff on transient failures"."""
    with open_pursuit(database_url, tmp_path, by_part(plan=in_order(error(429, "slow", retry_after=1_800), DIG))) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.job().retry_at)
        assert get_delay_ms(pursuit.job()) == 1_800_000
        assert pursuit.events("agent_changed")[-1]["run"]["retry_at"] == pursuit.job().retry_at
        assert "is rate limited" in pursuit.read(views.explain, pursuit.goal_id)
        retried(pursuit)
        assert pursuit.wait_until_ended().status == "completed"


@pytest.mark.parametrize(
    "garbled",
    [raw("[1]", kind="application/json"), raw(encode_stream([1])), raw(encode_stream(chunk({}, choices=None)))],
    ids=["an array", "a stream of arrays", "no choices"],
)
def test_a_planner_without_a_valid_answer_is_a_fault_that_quotes_it(sqlite_url: str, tmp_path: Path, garbled: Reply) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=garbled)) as pursuit:
        pursuit.set_goal()
        goal = pursuit.wait_until_paused()
        assert goal.pause_kind == "fault"
        assert "It sent " in goal.pause_reason
        assert "internal error" not in goal.pause_reason


@pytest.mark.parametrize("garbled", [raw(encode_stream([1])), raw("<html>Sign in</html>")], ids=["for good", "until nobody tries"])
@pytest.mark.parametrize("form", ["evaluation", "verdict"])
def test_a_judge_that_sends_no_answer_stops_no_process(sqlite_url: str, tmp_path: Path, garbled: Reply, form: str) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=DIG, replan=DOWN, **{form: garbled}), model_retries="2") as pursuit:
        pursuit.set_goal()
        pursuit.wait_for_status("completed", "paused")
        assert "internal error" not in pursuit.goal().pause_reason + str(pursuit.notices())


def retried(pursuit: Pursuit) -> None:
    pursuit.act(dead_letters.retry, pursuit.job().id)


def resumed(pursuit: Pursuit) -> None:
    pursuit.act(goals.resume, pursuit.goal_id)


def decided(pursuit: Pursuit) -> None:
    pursuit.decide("continue")


@pytest.mark.parametrize("mended", [retried, resumed, decided])
def test_an_unreachable_planner_pauses_the_goal_until_a_person_resumes_it(
    database_url: str, tmp_path: Path, mended: Callable[[Pursuit], None]
) -> None:
    with open_pursuit(database_url, tmp_path, by_part(plan=in_order(DOWN, DOWN, DOWN, DIG)), model_retries="3") as pursuit:
        pursuit.set_goal("A garden.")
        goal = pursuit.wait_until_paused()
        assert goal.pause_kind == "fault"
        assert "no model here" in goal.pause_reason
        assert pursuit.job().state == "dead"
        assert len(pursuit.events("job_dead")) == 1
        assert len(json.loads(pursuit.job().errors)) == 3
        ((kind, words),) = pursuit.notices()
        assert kind == "fault"
        assert "A garden." in words
        assert "Resume it when the fault is fixed, or abandon it." in words
        mended(pursuit)
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.job().state == "completed"


def test_a_model_that_refuses_is_not_asked_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=error(401, "who are you?"))) as pursuit:
        pursuit.set_goal()
        assert pursuit.wait_until_paused().pause_kind == "fault"
        assert len(pursuit.list_requests("plan")) == 1


def test_an_unreachable_replanner_is_a_fault_and_completed_work_stays(sqlite_url: str, tmp_path: Path) -> None:
    script = by_part(
        {"dig": error(400, "too deep")},
        plan=plan(step("measure"), step("dig", "measure")),
        replan=in_order(DOWN, DOWN, replan(step("drill"))),
    )
    with open_pursuit(sqlite_url, tmp_path, script, model_retries="2") as pursuit:
        pursuit.set_goal()
        assert pursuit.wait_until_paused().pause_kind == "fault"
        resumed(pursuit)
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.statuses() == {"measure": "completed", "dig": "failed", "drill": "completed"}
        assert pursuit.list_started_tasks() == ["measure", "dig", "drill"]


@pytest.mark.parametrize("failure", [error(400, "too deep"), DOWN], ids=["for good", "until nobody tries any more"])
@pytest.mark.parametrize("kind", [step, agent])
def test_work_whose_model_fails_fails_and_the_goal_continues(
    database_url: str, tmp_path: Path, failure: object, kind: Callable[..., dict[str, object]]
) -> None:
    script = by_part({"dig": failure}, plan=plan(kind("dig")), replan=replan(step("drill")))  # type: ignore[dict-item]
    with open_pursuit(database_url, tmp_path, script, model_retries="2") as pursuit:
        pursuit.achieve()
        assert pursuit.statuses() == {"dig": "failed", "drill": "completed"}
        assert pursuit.goal().replan_count == 1
        assert pursuit.job().state == "completed"
        assert [entry.kind for entry in pursuit.entries() if entry.kind in ("paused", "resumed")] == []


def test_work_whose_model_recovers_in_time_continues(sqlite_url: str, tmp_path: Path) -> None:
    script = by_part({"dig": in_order(DOWN, text("A hole."))}, plan=DIG)
    with open_pursuit(sqlite_url, tmp_path, script, model_retries="2") as pursuit:
        pursuit.achieve()
        assert pursuit.goal().replan_count == 0


def test_a_fault_may_be_the_end_of_it(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=DOWN), model_retries="1") as pursuit:
        pursuit.set_goal()
        pursuit.wait_until_paused()
        assert pursuit.act(goals.abandon, pursuit.goal_id).status == "abandoned"
        assert pursuit.run().status == "canceled"


def test_a_goal_whose_dead_job_was_dropped_continues_when_it_is_resumed(database_url: str, tmp_path: Path) -> None:
    with open_pursuit(database_url, tmp_path, by_part(plan=in_order(error(400, "no"), DIG))) as pursuit:
        pursuit.set_goal()
        goal = pursuit.wait_until_paused()
        pursuit.act(jobs.drop, goal.run_id)
        resumed(pursuit)
        assert pursuit.wait_until_ended().status == "completed"


def test_a_pursuit_that_fails_while_its_goal_waits_for_money_is_reported(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=DIG), priced=True, budget_usd="0") as pursuit:
        pursuit.set_goal()
        assert pursuit.wait_until_paused().pause_kind == "budget"
        job = pursuit.job()
        pursuit.database.write(lambda tx: fail_pursuit(tx, job, "It broke."))
        assert (pursuit.goal().pause_kind, pursuit.job().state) == ("fault", "dead")
        assert [kind for kind, _ in pursuit.notices()] == ["budget", "fault"]
        pursuit.set_pool(1000)
        resumed(pursuit)
        assert pursuit.wait_until_ended().status == "completed"
