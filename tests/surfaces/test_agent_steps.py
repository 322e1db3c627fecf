"""The transcript of a sub-agent over HTTP: its steps, their calls, and the sub-agents that it started, in pages."""

import json
from typing import Any

from tests.model_server import ModelServer, Reply, Request, calls, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client

FACT = "x" * 5_000


def delegate_twice(request: Request) -> Reply:
    """The agent hands a task to a coder, which works and hands a task to a researcher."""
    if "You are a researcher" in request.system:
        return text("1889.")
    if "You are a programmer" not in request.system:
        return text("Done.") if request.assistant_turns else calls(("delegate", {"agent": "coder", "task": "Look into it"}))
    replies = [
        calls(("calculate", {"expression": "6*7"}), ("calculate", {"expression": "1/0"}), text="First the numbers."),
        calls(("delegate", {"agent": "researcher", "task": "Find the year"})),
        calls(("remember", {"text": FACT})),
        text("It was 1889, and 42."),
    ]
    return replies[request.assistant_turns]


def list_steps(client: Client, run_id: str, **query: Any) -> dict[str, Any]:
    document: dict[str, Any] = client.ok("GET", f"/v1/agents/{run_id}/steps", params=query)
    return document


def test_the_steps_of_a_sub_agent_are_listed_in_pages_with_their_calls_and_its_own_sub_agents(
    chatter: Client, model: ModelServer
) -> None:
    model.script = delegate_twice
    turn_id = say(chatter, chatter.conversation(), "When was it?")
    wait_for_turn(chatter, turn_id)
    agents = {run["role"]: run for run in chatter.ok("GET", "/v1/agents", params={"turn_id": turn_id})["agents"]}
    document = list_steps(chatter, agents["coder"]["id"])

    assert [step["text"] for step in document["steps"]] == ["First the numbers.", "", "", "It was 1889, and 42."]
    first, second, third, last = document["steps"]
    assert [(call["tool"], call["state"], call["run_id"]) for call in first["calls"]] == [
        ("calculate", "succeeded", None),
        ("calculate", "failed", None),
    ]
    assert json.loads(first["calls"][0]["arguments"]) == {"expression": "6*7"}
    assert "42" in first["calls"][0]["result"]
    assert first["calls"][0]["ended_at"] >= first["calls"][0]["started_at"] >= first["at"] > 1_000_000_000
    assert second["calls"][0]["run_id"] == agents["researcher"]["id"]
    assert third["calls"][0]["arguments"].endswith("more characters)")
    assert len(third["calls"][0]["arguments"]) < len(FACT)
    assert last["calls"] == []
    assert [(run["id"], run["status"]) for run in document["agents"]] == [(agents["researcher"]["id"], "completed")]
    assert (document["next_after"], document["pruned"]) == (None, False)

    pages: list[dict[str, Any]] = []
    after: int | None = -1
    while after is not None:
        page = list_steps(chatter, agents["coder"]["id"], limit=1, **({"after": after} if after >= 0 else {}))
        pages += page["steps"]
        after = page["next_after"]
    assert pages == document["steps"]
    assert [step["text"] for step in list_steps(chatter, agents["researcher"]["id"])["steps"]] == ["1889."]
    chatter.refused("GET", f"/v1/agents/{agents['coder']['id']}/steps", 422, "invalid", params={"limit": 101})


def test_events_of_calls_name_the_answer_that_made_them_and_when(chatter: Client, model: ModelServer) -> None:
    model.script = delegate_twice
    wait_for_turn(chatter, say(chatter, chatter.conversation(), "When was it?"))
    events = [(kind, json.loads(data)) for kind, data in chatter.desk.events() if kind in ("tool_call", "tool_result", "message")]
    made = [(data["depth"], data["step"]) for kind, data in events if kind == "tool_call"]

    steps = [step for depth, step in made if depth == 1]
    assert [depth for depth, _ in made] == [0, 1, 1, 1, 1]
    assert [data["has_text"] for kind, data in events if kind == "tool_call"] == [False, True, True, False, False]
    assert steps[0] == steps[1] < steps[2] < steps[3]
    ends = {data["call_id"] + data["run_id"]: data["at"] for kind, data in events if kind == "tool_result"}
    assert all(ends[data["call_id"] + data["run_id"]] >= data["at"] for kind, data in events if kind == "tool_call")
