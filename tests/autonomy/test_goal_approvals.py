"""A goal's agents wait for people like the agents of a turn, and the goal shows it."""

from pathlib import Path
from typing import Any

import pytest

from headway.actions.goals import views
from headway.actions.runs import inbox
from headway.actions.runs.inbox import Answer, ApprovalDecision
from tests.autonomy.goal_harness import (
    Gate,
    Part,
    Pursuit,
    agent,
    by_part,
    by_transcript,
    failure,
    intervention,
    open_pursuit,
    plan,
    replan,
    step,
)
from tests.model_server import calls, text

pytestmark = pytest.mark.usefixtures("dispatch")

RUN = calls(("run_command", {"command": ["echo", "dig"]}))
DIGGING = by_transcript(RUN, text("A hole."))


def list_open(pursuit: Pursuit) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pursuit.read(inbox.list_items, "approval", "proposed", 10)["approvals"]
    return rows


def decide(pursuit: Pursuit, answer: Answer) -> None:
    (approval,) = list_open(pursuit)
    pursuit.act(pursuit.headway.permission.decide, approval["id"], ApprovalDecision(answer, "bob"))
    pursuit.headway.nudge()


def test_the_main_agent_waits(database_url: str, tmp_path: Path) -> None:
    script = by_part({"dig": DIGGING}, plan=plan(step("dig"), step("fill", "dig")))
    with open_pursuit(database_url, tmp_path, script, commands="echo", sandbox="off") as pursuit:
        goal = pursuit.set_goal()
        pursuit.until(lambda: list_open(pursuit) and pursuit.job().state == "delayed")
        (approval,) = list_open(pursuit)
        assert (approval["goal_id"], approval["turn_id"], approval["run_id"]) == (goal.id, None, pursuit.run().id)
        shown = pursuit.read(views.show_goal, goal.id)
        assert (shown["status"], shown["waiting_for"]) == ("active", {"kind": "approval", "id": approval["id"]})
        assert "An agent waits for a person: approval" in pursuit.read(views.explain, goal.id)
        decide(pursuit, "approve")
        assert pursuit.wait_until_ended().status == "completed"


def test_a_sub_agent_that_waits_is_not_stuck_and_others_go_on(sqlite_url: str, tmp_path: Path) -> None:
    steps = plan(agent("dig"), agent("measure"), step("draw", "measure"))
    script = by_part({"dig": DIGGING}, plan=steps, intervention=intervention("wait"))  # on a slow machine, agents may seem stuck
    with open_pursuit(
        sqlite_url, tmp_path, script, commands="echo", sandbox="off", check_in_s="0.1", stuck_after_s="0.2"
    ) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: list_open(pursuit) and pursuit.statuses().get("draw") == "completed")
        before = pursuit.sub_goal("dig")
        # The pauses double: that before the third check-in is longer than stuck_after_s, and so is every later one.
        pursuit.until(lambda: pursuit.sub_goal("dig").check_ins > max(before.check_ins, 2))
        assert pursuit.sub_goal("dig").interventions == before.interventions
        decide(pursuit, "approve")
        assert pursuit.wait_until_ended().status == "completed"


def test_a_new_plan_cancels_what_the_dropped_sub_goal_waited_for(sqlite_url: str, tmp_path: Path) -> None:
    gate = Gate()
    work: dict[str, Part] = {"dig": DIGGING, "measure": gate.before(failure())}
    script = by_part(work, plan=plan(step("dig"), agent("measure")), replan=replan(step("rest")))
    with open_pursuit(sqlite_url, tmp_path, script, commands="echo", sandbox="off") as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: list_open(pursuit))
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.statuses() == {"dig": "skipped", "measure": "failed", "rest": "completed"}
        states = [approval["state"] for approval in pursuit.read(inbox.list_items, "approval", None, 10)["approvals"]]
        assert states == ["canceled"]


def test_a_deadline_passes_while_the_main_agent_waits(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(
        sqlite_url, tmp_path, by_part({"dig": DIGGING}, plan=plan(step("dig"))), commands="echo", sandbox="off"
    ) as pursuit:
        deadline = pursuit.database.read(lambda tx: tx.now) + 3_600_000
        pursuit.set_goal(deadline_at=deadline)
        pursuit.until(lambda: list_open(pursuit) and pursuit.job().state == "delayed")
        assert abs(pursuit.job().due_at - deadline) < 1_000
        pursuit.database.write(lambda tx: tx.run("UPDATE goals SET deadline_at = 1"))
        pursuit.database.write(lambda tx: tx.run("UPDATE jobs SET due_at = 0 WHERE state = 'delayed'"))
        pursuit.headway.nudge()
        assert pursuit.wait_until_paused().pause_reason == "Its deadline has passed."
        assert len(list_open(pursuit)) == 1
        pursuit.decide("abandon")
        assert list_open(pursuit) == []
