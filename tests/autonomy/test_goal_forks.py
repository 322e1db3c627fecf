"""Forks of goals: the copy has the plan and the outcomes of the original at a journal entry, and is pursued from there."""

from pathlib import Path

import pytest

from headway.actions.goals.forks import GoalForkRequest, fork_goal
from headway.actions.todos import proof
from headway.ledger.errors import Invalid, NotFound
from tests.autonomy.goal_harness import (
    Pursuit,
    agent,
    by_part,
    by_transcript,
    get_question,
    in_order,
    open_pursuit,
    plan,
    replan,
    step,
)
from tests.model_server import calls, text

TOOL = '''
from pathlib import Path
from headway import tool

@tool
def ring(bell: str) -> dict:
    """Ring a bell."""
    with Path(__file__).with_name("rung.txt").open("a") as file:
        file.write(bell + "\\n")
    return {"rung": bell}
'''


def fork(pursuit: Pursuit, request: GoalForkRequest) -> int:
    """Fork the goal set last, make the fork the goal that the harness shows, and return the number of the original."""
    original = pursuit.goal_id
    request = request._replace(limits=pursuit.headway.settings.limits)
    pursuit.goal_id = pursuit.act(fork_goal, original, request).id
    return original


def find_entry(pursuit: Pursuit, kind: str) -> int:
    return next(entry.n for entry in pursuit.entries() if entry.kind == kind)


def test_a_fork_continues_with_the_plan_and_the_outcomes_of_that_entry(database_url: str, tmp_path: Path) -> None:
    script = by_part(plan=plan(step("dig"), agent("fill", "dig")))
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        rows, entries = pursuit.sub_goals(), pursuit.entries()
        at = find_entry(pursuit, "evaluated")  # "dig" has ended and was judged, "fill" has not begun

        original = fork(pursuit, GoalForkRequest(at))
        goal = pursuit.wait_until_ended()

        assert (goal.status, goal.forked_from, goal.fork_at, goal.plan_no) == ("completed", original, at, 1)
        assert pursuit.statuses() == {"dig": "completed", "fill": "completed"}
        dig, fill = pursuit.sub_goals()
        assert (dig.outcome, dig.run_id, fill.depends_on) == (rows[0].outcome, None, (dig.id,))
        assert [get_question(request) for request in pursuit.list_requests("plan")][1:] == []  # the plan was copied
        kinds = [entry.kind for entry in pursuit.entries()]
        assert kinds[: at + 1] == [*[entry.kind for entry in entries[:at]], "forked"]
        assert pursuit.sub_goals(original) == rows

        pursuit.goal_id = original
        fork(pursuit, GoalForkRequest(1))  # before there was a plan
        assert pursuit.wait_until_ended().status == "completed"
        assert len(pursuit.list_requests("plan")) == 2


def test_a_copied_sub_goal_keeps_the_receipt_that_proves_it(database_url: str, tmp_path: Path) -> None:
    hole = {**step("dig"), "checks": [{"kind": "file", "path": "hole.md"}]}
    dig = in_order(calls(("write_file", {"path": "hole.md", "content": "deep"})), text("A hole."))
    with open_pursuit(database_url, tmp_path, by_part({"dig": dig}, plan=plan(hole, agent("fill", "dig")))) as pursuit:
        pursuit.achieve()
        original = pursuit.sub_goal("dig")
        fork(pursuit, GoalForkRequest(find_entry(pursuit, "evaluated")))
        pursuit.wait_until_ended()

        copy = pursuit.sub_goal("dig")
        (receipt,) = pursuit.read(proof.list_newest_receipts, "sub_goal", original.id)
        (copied,) = pursuit.read(proof.list_newest_receipts, "sub_goal", copy.id)
        assert (copy.proof, copied.results, copied.id != receipt.id) == ("proven", receipt.results, True)


def test_a_new_description_replaces_the_plan(sqlite_url: str, tmp_path: Path) -> None:
    script = by_part(plan=plan(step("dig")), replan=replan(step("plant")))
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        fork(pursuit, GoalForkRequest(find_entry(pursuit, "planned"), "An orchard."))
        goal = pursuit.wait_until_ended()
        assert (goal.description, pursuit.statuses()) == ("An orchard.", {"dig": "skipped", "plant": "completed"})
        with pytest.raises(Invalid, match="at must be between 1 and"):
            fork(pursuit, GoalForkRequest(0))
        with pytest.raises(NotFound):
            pursuit.act(fork_goal, 999_999, GoalForkRequest(1))


@pytest.mark.parametrize("mode", ["inline", "agent"])
def test_recorded_results_are_served_and_the_fork_is_paused_at_a_call_without_one(
    sqlite_url: str, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "bells.py").write_text(TOOL)
    rung = tmp_path / "tools" / "rung.txt"
    work = by_transcript(calls(("ring", {"bell": "a"})), text("Rung."))
    with open_pursuit(sqlite_url, tmp_path, by_part(work, plan=plan(step("ring", mode=mode)))) as pursuit:
        pursuit.achieve()
        original = fork(pursuit, GoalForkRequest(1))
        assert pursuit.wait_until_ended().status == "completed"
        assert rung.read_text() == "a\n"

        pursuit.server.script = by_part(
            by_transcript(calls(("ring", {"bell": "b"})), text("Rung.")), plan=plan(step("ring", mode=mode))
        )
        pursuit.goal_id = original
        fork(pursuit, GoalForkRequest(1))
        goal = pursuit.wait_until_paused()
        assert 'needed the real world: ring {"bell": "b"}' in goal.pause_reason
        pursuit.goal_id = original
        fork(pursuit, GoalForkRequest(1, live=True))
        assert pursuit.wait_until_ended().status == "completed"
        assert rung.read_text() == "a\nb\n"
