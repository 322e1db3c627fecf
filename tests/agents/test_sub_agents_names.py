"""The agent tools under the names that other runtimes use."""

import json
from pathlib import Path
from typing import Any

from tests.agents.sub_agent_harness import by_role, by_transcript, delegate_call, list_requests, list_sub_agents
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import Reply, Request, Script, calls, text

ROLE = """
prompt = "You are the boss. Use spawn-agent and await-agent."
tools = ["spawn-agent", "await-agent"]
"""


def get_job_id(request: Request) -> str:
    """Return the id under the only name that the source document defines."""
    return str(json.loads(request.tool_results[0].content)["jobId"])


def with_job_id(tool: str) -> Script:
    return lambda request: calls((tool, {"jobId": get_job_id(request)}))


SPAWNED = calls(("spawn-agent", {"task": "dig", "context": {"where": "in the garden"}}))


def list_results(requests: list[Request]) -> list[dict[str, Any]]:
    return [json.loads(result.content) for result in requests[-1].tool_results]


def test_a_sub_agent_is_spawned_and_awaited_by_the_names_of_the_document(database_url: str, tmp_path: Path) -> None:
    """004: "the tool implementation enqueues a BullMQ job and returns a `jobId`. The parent agent can later call `await-agent` with
    that `jobId` to get the result"."""
    index = by_transcript(SPAWNED, with_job_id("await-agent"), text("Dug."))
    with open_talk(database_url, tmp_path, by_role(index=index, researcher=text("A hole."))) as talk:
        assert talk.say()["outcome"] == "answered"
        spawned, awaited = list_results(list_requests(talk, "index"))
        assert spawned["jobId"] == spawned["run_id"] == list_sub_agents(talk)["dig"].id
        assert (awaited["status"], awaited["summary"]) == ("completed", "A hole.")
        assert "in the garden" in list_requests(talk, "researcher")[0].texts[-1]
        assert {event["tool"] for event in talk.list_event_data("tool_call")} == {"spawn_agent", "await_agent"}


def test_the_others_have_such_names_too(sqlite_url: str, tmp_path: Path) -> None:
    """004: "Main agent can monitor sub-agent status and cancel running sub-agents"."""

    def dawdle(_request: Request) -> Reply:
        return calls(("now", {}))

    index = by_transcript(SPAWNED, with_job_id("check-agent"), with_job_id("cancel-agent"), text("Never mind."))
    with open_talk(sqlite_url, tmp_path, by_role(index=index, researcher=dawdle), subagent_max_iterations="1000") as talk:
        talk.say()
        _, checked, canceled = list_results(list_requests(talk, "index"))
        assert checked["status"] == "running"
        assert canceled["status"] == "canceled"


def test_a_sub_agent_reports_by_the_name_with_a_hyphen(sqlite_url: str, tmp_path: Path) -> None:
    """004: "Sub-agents report structured results back to the main agent on completion or failure"."""
    report = calls(("report-outcome", {"summary": "A hole.", "data": {"depth": 2}}))
    with open_talk(
        sqlite_url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=report)
    ) as talk:
        talk.say()
        assert list_results(list_requests(talk, "index"))[0]["data"] == {"depth": 2}


def test_no_model_is_offered_the_other_names(sqlite_url: str, tmp_path: Path) -> None:
    """004: "'spawn-agent' exposed as a first-class tool": once, under one name."""
    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.say()
        (request,) = talk.server.requests
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request.body["tools"]}
        names = [*schemas, *schemas["use_tool"]["properties"]["name"]["enum"]]
        assert names.count("spawn_agent") == 1
        assert not any("-" in name for name in names)


def test_use_tool_returns_the_parameters_of_a_tool_and_calls_it(sqlite_url: str, tmp_path: Path) -> None:
    """004: "'spawn-agent' exposed as a first-class tool": its schema is sent when it is asked for."""
    ask, use = ({"name": "await-agent"}, {"name": "spawn_agent", "arguments": {"task": "dig"}})
    index = by_transcript(calls(("use_tool", ask), ("use_tool", use)), text("Dug."))
    with open_talk(sqlite_url, tmp_path, by_role(index=index, researcher=text("A hole."))) as talk:
        assert talk.say()["outcome"] == "answered"
        asked, used = list_results(list_requests(talk, "index"))
        assert set(asked["parameters"]["properties"]) == {"run_id", "timeout_s"}
        assert used["run_id"] == list_sub_agents(talk)["dig"].id
        assert [event["tool"] for event in talk.list_event_data("tool_call")] == ["await_agent", "spawn_agent"]


def test_use_tool_refuses_a_tool_that_does_not_exist_and_itself(sqlite_url: str, tmp_path: Path) -> None:
    use: list[tuple[str, dict[str, Any]]] = [("use_tool", {"name": name, "arguments": {}}) for name in ("no_such_tool", "use_tool")]
    with open_talk(sqlite_url, tmp_path, in_order(calls(*use, ("use_tool", {"arguments": {}})), text("Oh."))) as talk:
        talk.say()
        errors = [result["error"] for result in list_results(talk.server.requests)]
        assert [error.split(".")[0] for error in errors] == [
            "There is no tool named 'no_such_tool'",
            "There is no tool named 'use_tool'",
            "There is no tool named 'use_tool'",
        ]
        assert "spawn_agent" in errors[0]


def test_a_role_file_may_grant_tools_by_these_names(sqlite_url: str, tmp_path: Path) -> None:
    """004: "`spawn-agent` is a registered ToolDefinition"."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "index.toml").write_text(ROLE, encoding="utf-8")
    parts = by_role(own=by_transcript(SPAWNED, with_job_id("await-agent"), text("Dug.")), researcher=text("A hole."))
    with open_talk(sqlite_url, tmp_path, parts) as talk:
        assert talk.say()["outcome"] == "answered"
        boss = list_requests(talk, "own")
        assert boss[0].tools == ["await_agent", "read_result", "spawn_agent"]
        assert list_results(boss)[1]["summary"] == "A hole."
