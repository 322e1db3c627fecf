"""set_goal and discover_goal: goals that an agent starts alongside a conversation."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.actions.access import spending
from headway.actions.goals import goals, views
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from tests.agents.person_harness import write_policy
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import Reply, Request, calls, text

WISH = {"description": "Keep the docs right", "success_criteria": "No broken link", "priority": 7}
ALLOWED = 'tool = "set_goal"\ndecision = "allow"'  # by default a person has to approve the call
FOUND = {"description": "Mend the build", "evidence": "It is red since Monday."}


def script_with_call(call: tuple[str, dict[str, Any]]) -> Any:
    """The supervisor makes the call and answers. The goal's own agent never submits a plan."""

    def script(request: Request) -> Reply:
        if "submit_plan" in request.tools:
            return text("No plan.")
        return text("Done.") if request.tool_results else calls(call)

    return script


def get_tool_result(talk: Talk) -> dict[str, Any]:
    """Return the last result of a tool."""
    results = [result for request in talk.server.requests for result in request.tool_results]
    answer: dict[str, Any] = json.loads(results[-1].content)
    return answer


def get_goal(talk: Talk) -> dict[str, Any]:
    (goal,) = talk.database.read(lambda tx: views.list_goals(tx, talk.tenant_id, None, 10)).goals
    return goal


def test_a_goal_that_the_user_asked_for_starts_at_once(database_url: str, tmp_path: Path) -> None:
    write_policy(tmp_path, ALLOWED)
    with open_talk(database_url, tmp_path, script_with_call(("set_goal", WISH))) as talk:
        talk.say("Keep the docs right from now on.")
        goal = get_goal(talk)
        assert get_tool_result(talk) == {"goal_id": goal["id"], "status": "active", "waits_for": None}
        assert (goal["source"], goal["description"], goal["success_criteria"], goal["priority"]) == (
            "agent-discovered",
            "Keep the docs right",
            "No broken link",
            7,
        )
        turn_id = talk.turn()["id"]
        assert (
            goal["evidence"]
            == f"Set by the agent index in turn {turn_id}. The user's request was: Keep the docs right from now on."
        )
        (entry, *_) = talk.list_event_data("journal_appended")
        assert (entry["entry"]["kind"], entry["entry"]["data"]["source"]) == ("goal_set", "agent-discovered")
        job = talk.database.read(lambda tx: job_store.find_job(tx, talk.tenant_id, goal["run_id"]))
        assert job is not None
        assert job.kind == "goal"


def test_a_discovered_goal_waits_for_the_operators_yes(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, script_with_call(("discover_goal", FOUND))) as talk:
        talk.say("Look around.")
        goal = get_goal(talk)
        assert get_tool_result(talk)["status"] == "paused"
        assert (goal["status"], goal["pause_kind"], goal["source"]) == ("paused", "proposal", "agent-discovered")
        assert (goal["evidence"], goal["run_id"]) == ("It is red since Monday.", None)
        (notice,) = talk.list_event_data("operator_notice")
        assert notice["kind"] == "proposal"
        assert notice["url"] == f"/goals/{goal['id']}"
        for word in ("Mend the build", "It is red since Monday.", "Continue, or abandon it?"):
            assert word in notice["text"]
        decided = talk.database.write(lambda tx: goals.decide_goal(tx, talk.tenant_id, goal["id"], "continue"))
        assert decided.status == "active"
        assert decided.run_id is not None


def test_no_is_an_answer(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, script_with_call(("discover_goal", FOUND))) as talk:
        talk.say("Look around.")
        goal_id = get_goal(talk)["id"]
        goal = talk.database.write(lambda tx: goals.decide_goal(tx, talk.tenant_id, goal_id, "abandon", "Not now."))
        assert (goal.status, goal.pause_reason, goal.run_id) == ("abandoned", "Not now.", None)


def test_an_installation_may_let_discovered_goals_start(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, script_with_call(("discover_goal", FOUND)), goal_discovery="auto") as talk:
        talk.say("Look around.")
        assert get_tool_result(talk)["status"] == "active"
        goal = get_goal(talk)
        assert (goal["source"], goal["evidence"]) == ("agent-discovered", "It is red since Monday.")


def test_but_not_without_money(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, script_with_call(("discover_goal", FOUND)), goal_discovery="auto") as talk:
        talk.database.write(lambda tx: spending.set_limit(tx, talk.tenant_id, 0))
        talk.say("Look around.")
        assert get_goal(talk)["pause_kind"] == "proposal"


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("set_goal", {}, "description"),
        ("set_goal", {"description": "   "}, "description"),
        ("set_goal", {"description": "x", "priority": -1}, "priority"),
        ("discover_goal", {"description": "x"}, "evidence"),
        ("discover_goal", {"description": "x", "evidence": "y", "tenant_id": 2}, "tenant_id"),
    ],
)
def test_bad_arguments_are_an_answer_that_says_which(
    sqlite_url: str, tmp_path: Path, tool: str, arguments: dict[str, Any], complaint: str
) -> None:
    with open_talk(sqlite_url, tmp_path, script_with_call((tool, arguments))) as talk:
        talk.say("Go.")
        assert complaint in get_tool_result(talk)["error"]
        assert talk.database.read(lambda tx: goal_store.count_open(tx, talk.tenant_id)) == 0


@pytest.mark.parametrize("discovery", ["ask", "auto"])
def test_the_goal_of_a_sub_agent_is_treated_like_one_that_it_discovered(sqlite_url: str, tmp_path: Path, discovery: str) -> None:
    (tmp_path / "agents").mkdir()
    write_policy(tmp_path, ALLOWED)
    (tmp_path / "agents" / "scout.toml").write_text('description = "Looks around"\ntools = ["goals"]\n')

    def script(request: Request) -> Reply:
        if "submit_plan" in request.tools or request.tool_results:
            return text("Done.")
        return (
            calls(("set_goal", WISH)) if "delegate" not in request.tools else calls(("delegate", {"agent": "scout", "task": "Go."}))
        )

    with open_talk(sqlite_url, tmp_path, script, goal_discovery=discovery) as talk:
        talk.say("Look around.")
        goal = get_goal(talk)
        assert (goal["status"], goal["source"]) == ("active" if discovery == "auto" else "paused", "agent-discovered")
        assert goal["evidence"] == f"Set by the agent scout, which worked for turn {talk.turn()['id']}."


def test_workers_set_no_goals(sqlite_url: str, tmp_path: Path) -> None:
    delegate = ("delegate", {"agent": "coder", "task": "Do it."})
    with open_talk(sqlite_url, tmp_path, script_with_call(delegate)) as talk:
        talk.say("Go.")
        worker = next(request for request in talk.server.requests if "You are a programmer" in request.system)
        assert not {"set_goal", "discover_goal"} & set(worker.tools)
