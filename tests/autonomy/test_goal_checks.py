"""Goals whose sub-goals and ends are proven by checks and not judged by a model."""

from pathlib import Path
from typing import Any

import pytest

from headway.actions.todos import proof
from headway.ledger.check import SubjectKind
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.parsing.checks import write_checks
from tests.autonomy.goal_harness import Pursuit, agent, by_part, get_question, in_order, open_pursuit, plan, replan, step
from tests.model_server import Reply, Request, calls, text

FILE = {"kind": "file", "path": "hole.md", "contains": "deep"}
DIG = calls(("write_file", {"path": "hole.md", "content": "deep"}))
JUDGE = {"kind": "judge", "rubric": "It is deep."}


def outcomes(pursuit: Pursuit, kind: SubjectKind, subject_id: int) -> list[bool]:
    found = pursuit.database.read(lambda tx: proof.list_newest_receipts(tx, pursuit.tenant_id, kind, subject_id))
    return [receipt.ok for receipt in reversed(found)]


def checked(build: Any, name: str, *checks: dict[str, Any]) -> dict[str, Any]:
    return {**build(name), "checks": list(checks)}


@pytest.mark.parametrize("build", [step, agent], ids=["inline", "sub-agent"])
def test_a_failing_check_of_a_sub_goal_calls_for_a_new_plan(database_url: str, tmp_path: Path, build: Any) -> None:
    script = by_part(
        {"dig": text("A hole."), "again": in_order(DIG, text("A deep hole."))},
        plan=plan(checked(build, "dig", FILE)),
        replan=replan(checked(build, "again", FILE)),
    )
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        assert "There is no hole.md in the workspace." in get_question(pursuit.list_requests("replan")[0])
        assert pursuit.list_requests("evaluation") == []
        assert [(entry["divergence"], entry["by"]) for entry in pursuit.journal("evaluated")] == [
            ("major", "checks"),
            ("none", "checks"),
        ]
        first, second = pursuit.sub_goal("dig"), pursuit.sub_goal("again")
        assert (first.proof, second.proof) == ("broken", "proven")
        assert (outcomes(pursuit, "sub_goal", first.id), outcomes(pursuit, "sub_goal", second.id)) == ([False], [True])


def test_a_goal_ends_when_its_checks_pass(database_url: str, tmp_path: Path) -> None:
    script = by_part({"again": in_order(DIG, text("A deep hole."))}, plan=plan(step("dig")), replan=replan(step("again")))
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        goal = pursuit.achieve(checks=write_checks([FILE], "operator"), success_criteria="It is deep.")
        assert (goal.proof, goal.replan_count) == ("proven", 1)
        assert "There is no hole.md" in get_question(pursuit.list_requests("replan")[0])
        assert pursuit.list_requests("verdict") == []
        assert outcomes(pursuit, "goal", goal.id) == [False, True]
        assert [(entry["met"], entry["by"]) for entry in pursuit.journal("goal_evaluated")] == [(False, "checks"), (True, "checks")]


def test_without_a_sandbox_a_person_decides_about_a_command(sqlite_url: str, tmp_path: Path) -> None:
    command = {"kind": "command", "run": "true"}
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=plan(step("dig"))), sandbox="off") as pursuit:
        pursuit.set_goal(checks=write_checks([command], "operator"))
        goal = pursuit.wait_until_paused()
        assert goal.pause_kind == "escalation"
        assert "need a sandbox" in goal.pause_reason
        assert outcomes(pursuit, "goal", goal.id) == []


@pytest.mark.parametrize("work", [(0, 0), (99_500, 0)], ids=["with money", "after the pool is empty"])
def test_a_judge_is_paid_for_and_waits_for_money(sqlite_url: str, tmp_path: Path, work: tuple[int, int]) -> None:
    others = by_part({"dig": text("A hole.", usage=work)}, plan=plan(checked(step, "dig", JUDGE)))

    def script(request: Request) -> Reply:
        if JUDGE["rubric"] in request.last:
            return text('{"ok": true, "reason": "Deep enough."}', usage=(1_999, 1))
        return others(request)

    with open_pursuit(sqlite_url, tmp_path, script, priced=True, budget_usd="100") as pursuit:
        pursuit.set_goal()
        if any(work):
            assert pursuit.wait_until_paused().pause_kind == "budget"
            assert pursuit.sub_goal("dig").proof == "unproven"
            pursuit.set_pool(1_000)
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.sub_goal("dig").proof == "proven"
        costs = pursuit.database.read(lambda tx: tx.all("SELECT cost FROM model_calls WHERE tier = 'cheap'"))
        assert [cost for (cost,) in costs] == [2 * NANOS_PER_DOLLAR]
