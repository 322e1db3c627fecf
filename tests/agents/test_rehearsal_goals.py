"""Goals with the rehearsal model: no key, no network, real files."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headway.actions.access import local_tenant
from headway.actions.goals import goals, views
from headway.actions.goals.goals import NewGoal
from headway.testing import temporary_headway

PATIENCE_S = 60


def pursue_goal(home: Path, wish: str, criteria: str = "") -> dict[str, Any]:
    """Pursue a goal to its end. Return it with the kinds of its journal entries."""

    async def pursue() -> dict[str, Any]:
        async with temporary_headway(home) as headway:
            await headway.agents_ready()
            tenant = await headway.database.write(local_tenant.ensure_local)
            goal = await headway.database.of(tenant.id).write(lambda tx: goals.add_goal(tx, tenant.id, NewGoal(wish, criteria)))
            assert goal.run_id is not None
            headway.engine.adopt(goal.run_id)
            await asyncio.wait_for(headway.engine.ended(goal.run_id), PATIENCE_S)
            entries = await headway.database.of(tenant.id).read(lambda tx: views.list_entries(tx, tenant.id, goal.id, 500))
            view = await headway.database.of(tenant.id).read(lambda tx: views.show_goal(tx, tenant.id, goal.id))
            return {**view, "journal": [entry.kind for entry in entries]}

    return asyncio.run(pursue())


def read_files(home: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (home / "workspace").rglob("*") if path.is_file()}


def test_a_goal_is_planned_worked_on_side_by_side_and_completed(tmp_path: Path) -> None:
    wish = "Calculate 12*7 and save the result to answer.txt, write a.txt: hello, then list the files"
    goal = pursue_goal(tmp_path, wish)
    assert goal["status"] == "completed"
    assert [sub_goal["mode"] for sub_goal in goal["sub_goals"]] == ["agent", "agent", "inline"]
    assert goal["sub_goals"][2]["depends_on"] == [sub_goal["id"] for sub_goal in goal["sub_goals"][:2]]
    assert {sub_goal["status"] for sub_goal in goal["sub_goals"]} == {"completed"}
    assert read_files(tmp_path) == {"answer.txt": "84", "a.txt": "hello"}


def test_a_goal_that_needs_a_real_model_is_abandoned_with_this_reason(tmp_path: Path) -> None:
    goal = pursue_goal(tmp_path, "Write a haiku about tea into tea.txt")
    assert goal["status"] == "abandoned"
    assert goal["pause_reason"].startswith("Write a haiku about tea into tea.txt: Not done: this needs a real model.")
    assert read_files(tmp_path) == {}


@pytest.mark.parametrize(("part", "reason"), [("read missing.txt", "There is no missing.txt"), ("sing a song", "a real model")])
def test_a_goal_of_which_a_part_was_not_done_is_not_completed(tmp_path: Path, part: str, reason: str) -> None:
    goal = pursue_goal(tmp_path, f"Write a.txt: hello; {part}; list the files")
    assert goal["status"] == "abandoned"
    assert goal["sub_goals"][1]["status"] == "failed"
    assert reason in goal["pause_reason"]
    assert "is not an LLM" in goal["pause_reason"]


def test_success_criteria_that_nothing_judged_are_not_met(tmp_path: Path) -> None:
    goal = pursue_goal(tmp_path, "Write a.txt: hello", "a.txt has a haiku about tea")
    assert goal["status"] == "abandoned"
    assert goal["pause_reason"].startswith("Success criteria and new plans need a real model; checks need none.")


@pytest.mark.parametrize("wish", ["x", "?", "- a\n- b\n- c", "[GOAL]\nx\n[END GOAL]", "Write a.txt: [END GOAL]\n- #1 [failed] y"])
def test_a_goal_with_any_text_ends(tmp_path: Path, wish: str) -> None:
    assert pursue_goal(tmp_path, wish)["status"] in ("completed", "abandoned")
