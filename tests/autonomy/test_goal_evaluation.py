"""Outcomes are judged first by measurable criteria, then by the cheap tier. A failing evaluator does not count as a pass."""

from pathlib import Path

import pytest

from headway.ledger.money import NANOS_PER_DOLLAR
from tests.autonomy.goal_harness import (
    Pursuit,
    agent,
    by_part,
    by_transcript,
    evaluation_form,
    failure,
    get_question,
    in_order,
    open_pursuit,
    plan,
    replan,
    step,
    verdict,
)
from tests.model_server import MODEL, Reply, calls, error, text

pytestmark = pytest.mark.usefixtures("dispatch")

CHEAP = "cheap-1"
DIG = plan(step("dig"))
ANOTHER_WAY = replan(step("dig elsewhere"), reason="The ground was too hard.")


def verdicts(pursuit: Pursuit) -> list[tuple[str, str]]:
    return [(entry["divergence"], entry["by"]) for entry in pursuit.journal("evaluated")]


def test_outcomes_are_judged_by_the_cheap_tier(database_url: str, tmp_path: Path) -> None:
    script = by_part(plan=plan(step("dig"), agent("fill")))
    with open_pursuit(database_url, tmp_path, script, model_cheap=f"openai-chat:{CHEAP}") as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit) == [("none", "model")] * 2
        assert {request.model for request in pursuit.list_requests("evaluation")} == {CHEAP}
        assert {request.model for request in pursuit.list_requests("plan")} == {MODEL}
        question = get_question(pursuit.list_requests("evaluation")[0])
        assert "Expected outcome: " in question
        assert "Done: " in question


def test_a_major_divergence_calls_for_a_new_plan(database_url: str, tmp_path: Path) -> None:
    script = by_part(
        plan=DIG, replan=ANOTHER_WAY, evaluation=in_order(evaluation_form("major", "There is no hole."), evaluation_form())
    )
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        assert pursuit.goal().replan_count == 1
        assert "There is no hole." in get_question(pursuit.list_requests("replan")[0])
        assert "There is no hole." in pursuit.journal("replanned")[0]["why"]
        assert pursuit.statuses() == {"dig": "completed", "dig elsewhere": "completed"}


@pytest.mark.parametrize(("minor", "replans"), [(2, 0), (3, 1)])
def test_more_than_two_minor_divergences_call_for_a_new_plan(sqlite_url: str, tmp_path: Path, minor: int, replans: int) -> None:
    steps = plan(*(step(f"s{n}") for n in range(5)))
    evaluation = in_order(*[evaluation_form("minor", "A little crooked.")] * minor, evaluation_form())
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=steps, replan=ANOTHER_WAY, evaluation=evaluation)) as pursuit:
        pursuit.achieve()
        assert pursuit.goal().replan_count == replans


def test_minor_divergences_under_an_earlier_plan_do_not_count_again(sqlite_url: str, tmp_path: Path) -> None:
    steps = plan(*(step(f"s{n}") for n in range(3)))
    afterwards = replan(*(step(f"t{n}") for n in range(3)))
    evaluation = in_order(*[evaluation_form("minor", "A little crooked.")] * 5, evaluation_form())
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=steps, replan=afterwards, evaluation=evaluation)) as pursuit:
        pursuit.achieve()
        assert pursuit.goal().replan_count == 1


NONSENSE = {
    "words": text("Looks good to me!"),
    "another shape": calls(("submit_evaluation", {"divergence": "some"})),
    "no arguments": calls(("submit_evaluation", {})),
    "silence": text(""),
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
def test_an_unparsable_evaluation_is_retried_and_then_counts_as_divergence(
    sqlite_url: str, tmp_path: Path, nonsense: Reply
) -> None:
    evaluation = in_order(nonsense, nonsense, nonsense, evaluation_form())
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=DIG, replan=ANOTHER_WAY, evaluation=evaluation)) as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit) == [("major", "evaluator failed"), ("none", "model")]
        assert pursuit.goal().replan_count == 1


def test_an_evaluator_that_comes_to_its_senses_is_believed(sqlite_url: str, tmp_path: Path) -> None:
    evaluation = in_order(text("Fine."), text("Really."), evaluation_form("minor", "A little crooked."))
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=DIG, evaluation=evaluation)) as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit) == [("minor", "model")]


def test_an_evaluator_that_cannot_be_reached_is_tried_again_and_then_it_diverged(database_url: str, tmp_path: Path) -> None:
    down = error(500, "no evaluator here")
    evaluation = in_order(down, down, down, evaluation_form())
    script = by_part(plan=DIG, replan=ANOTHER_WAY, evaluation=evaluation)
    with open_pursuit(database_url, tmp_path, script, model_retries="3") as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit) == [("major", "evaluator failed"), ("none", "model")]
        assert "no evaluator here" in pursuit.journal("evaluated")[0]["reason"]
        assert len(pursuit.list_requests("evaluation")) == 4


def test_an_evaluator_that_is_back_in_time_is_believed(sqlite_url: str, tmp_path: Path) -> None:
    evaluation = in_order(error(500), error(503), evaluation_form())
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=DIG, evaluation=evaluation), model_retries="3") as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit) == [("none", "model")]
        assert pursuit.job().errors == "[]"


def test_a_failed_sub_goal_needs_no_evaluator(database_url: str, tmp_path: Path) -> None:
    script = by_part({"dig": failure("Nothing but rock.")}, plan=plan(agent("dig")), replan=ANOTHER_WAY)
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit) == [("major", "metric"), ("none", "model")]
        assert pursuit.sub_goal("dig").reason == "Nothing but rock."
        assert "Nothing but rock." in pursuit.journal("evaluated")[0]["reason"]


@pytest.mark.parametrize("kind", [step, agent])
def test_a_sub_goal_over_its_cost_limit_diverged(database_url: str, tmp_path: Path, kind: type) -> None:
    script = by_part({"dig": text("A hole.", usage=(1_499, 1))}, plan=plan(kind("dig", cost_limit_usd=1)), replan=ANOTHER_WAY)
    with open_pursuit(database_url, tmp_path, script, priced=True, budget_usd="1000") as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit)[0] == ("major", "metric")
        assert "$1.5000 of $1.0000" in pursuit.journal("evaluated")[0]["reason"]
        assert pursuit.sub_goal("dig").cost == 1.5 * NANOS_PER_DOLLAR


def test_an_answer_of_nothing_is_no_outcome(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part({"dig": text("")}, plan=DIG, replan=ANOTHER_WAY)) as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit)[0] == ("major", "metric")


def test_any_text_of_an_evaluator_can_be_stored(database_url: str, tmp_path: Path) -> None:
    evaluation = in_order(evaluation_form("minor", "a\0b \ud800 c"), evaluation_form())
    with open_pursuit(database_url, tmp_path, by_part(plan=DIG, evaluation=evaluation)) as pursuit:
        pursuit.achieve()
        assert verdicts(pursuit) == [("minor", "model")]


def test_unmet_criteria_call_for_a_new_plan(database_url: str, tmp_path: Path) -> None:
    script = by_part(plan=DIG, replan=replan(step("plant")), verdict=in_order(verdict("There are no flowers."), verdict()))
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.achieve(success_criteria="Flowers.")
        assert [entry["met"] for entry in pursuit.journal("goal_evaluated")] == [False, True]
        assert "There are no flowers." in get_question(pursuit.list_requests("replan")[0])
        assert pursuit.statuses() == {"dig": "completed", "plant": "completed"}
        assert "Success criteria: Flowers." in get_question(pursuit.list_requests("plan")[0])


def test_an_unavailable_verdict_is_no_pass(sqlite_url: str, tmp_path: Path) -> None:
    no_bool = calls(("submit_verdict", {"met": "yes"}))
    script = by_part(plan=DIG, replan=replan(step("plant")), verdict=in_order(no_bool, no_bool, no_bool, verdict()))
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.achieve(success_criteria="Flowers.")
        assert pursuit.goal().replan_count == 1


def test_without_criteria_no_verdict_is_requested(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=plan(step("dig"), step("fill", "dig")))) as pursuit:
        pursuit.achieve()
        assert pursuit.list_requests("verdict") == []
        assert pursuit.journal("completed") == [{"summary": "Done: fill."}], "the outcome of what nothing else builds on"


def test_outcomes_reach_those_that_build_on_them(sqlite_url: str, tmp_path: Path) -> None:
    reported = by_transcript(calls(("report_outcome", {"summary": "A hole.", "data": {"depth_m": 2}})))
    script = by_part({"dig": reported}, plan=plan(step("dig"), agent("fill", "dig"), step("rest", "dig")))
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        assert pursuit.sub_goal("dig").as_json()["outcome"]["data"] == {"depth_m": 2}
        handed = [get_question(request) for request in pursuit.list_requests("work")][1:]
        assert len(handed) == 2
        assert all("A hole." in words and '"depth_m": 2' in words for words in handed)
