"""Sub-agents that fail: the parent gets the reason and continues."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart

from headway.actions.engine import dead_letters
from headway.testing import scripted_model
from tests.agents.sub_agent_harness import (
    by_role,
    by_transcript,
    delegate_call,
    get_job,
    get_result,
    get_states,
    list_requests,
    list_sub_agents,
    list_tool_answers,
)
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import Reply, Request, calls, drop, error, filtered_text, flaky, text

pytestmark = pytest.mark.usefixtures("dispatch")

INDEX = by_transcript(delegate_call("dig"), text("I go on."))


def get_failed_result(talk: Talk) -> dict[str, Any]:
    """Return the result of the failed sub-agent that its parent got."""
    assert talk.turn()["outcome"] == "answered"
    assert talk.answers() == ["I go on."]
    (result,) = list_tool_answers(talk.server.requests[-1], "delegate")
    assert set(result) == {"run_id", "status", "summary", "data", "error", "cost_usd"}
    assert result == {"run_id": list_sub_agents(talk)["dig"].id, **get_result(talk, "dig")}
    assert result["status"] == "failed"
    return result


def test_a_failure_that_will_not_pass_is_a_dead_job_and_a_result(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, by_role(index=INDEX, researcher=error(401, "no such key"))) as talk:
        talk.say()
        assert "401" in get_failed_result(talk)["error"]
        assert get_states(talk) == {"dig": ("failed", "dead")}
        (event,) = talk.list_event_data("job_dead")
        assert (event["job"]["kind"], event["job"]["id"]) == ("agent", list_sub_agents(talk)["dig"].id)
        assert [event["run"]["status"] for event in talk.list_event_data("agent_changed")] == ["queued", "running", "failed"]
        assert len(talk.list_event_data("turn_finished")) == 1
        assert len(list_requests(talk, "researcher")) == 1


@pytest.mark.parametrize("failure", [error(503), error(429, retry_after=0), drop()])
def test_a_transient_failure_is_not_reported_to_the_parent(sqlite_url: str, tmp_path: Path, failure: Reply) -> None:
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=flaky(2, failure, text("A hole.")))) as talk:
        talk.say()
        assert list_tool_answers(talk.server.requests[-1], "delegate")[0]["summary"] == "A hole."
        assert get_states(talk) == {"dig": ("completed", "completed")}
        assert len({request.last for request in list_requests(talk, "researcher")}) == 1


def test_a_sub_agents_calls_are_tried_as_often_as_the_settings_say(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=error(503)), model_retries="2") as talk:
        talk.say()
        assert "503" in get_failed_result(talk)["error"]
        assert len(list_requests(talk, "researcher")) == 2
        assert get_states(talk) == {"dig": ("failed", "dead")}


def summarise_at_limit(request: Request) -> Reply:
    """Make a call that was not made before, or sum up when no calls are possible."""
    if request.body.get("tool_choice") == "none":
        return text("Half a hole.")
    return calls(("calculate", {"expression": f"{len(request.calls)}+1"}))


def test_a_sub_agent_that_runs_out_of_steps_sums_up_and_says_so(sqlite_url: str, tmp_path: Path) -> None:
    """004: "Agent loop exceeded ${maxTurns} turns"."""
    script = by_role(index=INDEX, researcher=summarise_at_limit)
    with open_talk(sqlite_url, tmp_path, script, max_iterations="5", subagent_max_iterations="3") as talk:
        talk.say()
        result = get_failed_result(talk)
        assert result["error"] == "limit"
        assert result["summary"] == "Half a hole.\n\nThe agent was stopped after 3 steps, which is the limit."
        assert len(list_requests(talk, "researcher")) == 4


def test_a_sub_agent_has_twenty_steps_by_default(sqlite_url: str, tmp_path: Path) -> None:
    """004: "maxTurns = 20" of "Core agentic loop (tool-calling cycle)". Repeated calls are no progress."""
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=calls(("now", {})))) as talk:
        assert talk.say()["limit"] == 10
        assert len(list_requests(talk, "researcher")) == 20 + 1
        assert list_sub_agents(talk)["dig"].limit == 20
        assert len(talk.effects()) == 1 + 20


def test_a_sub_agent_that_makes_new_calls_gets_up_to_fifty_steps(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=summarise_at_limit)) as talk:
        talk.say()
        assert get_failed_result(talk)["summary"] == "Half a hole.\n\nThe agent was stopped after 50 steps, which is the limit."
        assert list_sub_agents(talk)["dig"].limit == 50


def test_a_sub_agent_that_repeats_itself_is_not_extended_again(sqlite_url: str, tmp_path: Path) -> None:
    def stall_after_fifteen(request: Request) -> Reply:
        return summarise_at_limit(request) if len(request.calls) < 15 else calls(("now", {}))

    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=stall_after_fifteen)) as talk:
        talk.say()
        assert get_failed_result(talk)["error"] == "limit"
        assert list_sub_agents(talk)["dig"].limit == 30


def test_a_sub_agent_without_an_answer_is_asked_again_and_then_given_up(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=text(""))) as talk:
        talk.say()
        assert get_failed_result(talk)["error"] == "incomplete"
        assert len(list_requests(talk, "researcher")) == 3


def test_a_content_filter_ends_the_sub_agent_and_not_the_turn(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=filtered_text("A ho"))) as talk:
        talk.say()
        result = get_failed_result(talk)
        assert result["error"] == "filtered"
        assert "content filter" in result["summary"]
        assert [kind for kind, _ in talk.notices()] == ["content_filter"]


def test_an_internal_error_in_a_sub_agent_is_a_result_without_its_details(sqlite_url: str, tmp_path: Path) -> None:
    def model(messages: list[ModelMessage]) -> ModelResponse:
        if "[DELEGATION CONTEXT]" in str(messages[0]):
            raise KeyError("secret detail")
        messages_seen.append(str(messages[-1]))
        delegates = ToolCallPart("delegate", {"agent": "researcher", "task": "dig"})
        return ModelResponse([delegates if len(messages) == 1 else TextPart("I go on.")])

    messages_seen: list[str] = []
    with open_talk(sqlite_url, tmp_path, scripted_model(model)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert get_states(talk) == {"dig": ("failed", "dead")}
        assert "secret" not in messages_seen[-1]


def test_a_retried_dead_sub_agent_continues_and_leaves_its_turn_alone(sqlite_url: str, tmp_path: Path) -> None:
    worker = flaky(1, error(401), text("A hole after all."))
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=worker), sweeping=True) as talk:
        talk.say()
        get_failed_result(talk)
        child = list_sub_agents(talk)["dig"]
        talk.database.write(lambda tx: dead_letters.retry(tx, talk.tenant_id, child.id))
        talk.headway.nudge()
        talk.wait(talk.until(lambda: get_job(talk, child).state == "completed"))
        assert get_result(talk, "dig")["summary"] == "A hole after all."
        assert talk.answers() == ["I go on."]
        assert len(list_requests(talk, "index")) == 2
