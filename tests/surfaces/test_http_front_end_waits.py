"""Turns that wait for a person, through the official clients of AG-UI and the AI SDK: their own approvals, and ask_person."""

import json
from typing import Any

import pytest

from tests.model_server import ModelServer, calls, text
from tests.surfaces.conversation_client import reply_in_order
from tests.surfaces.front_end_clients import AG_UI, AI_SDK, ag_ui, ui_stream
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.waiting_turns import SUM, add_rule, list_results

ASKED = {"question": "Which colour?", "choices": ["red", "blue"]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/ag-ui": {"threadId": "mine", "runId": "1", "messages": [{"id": "1", "role": "user", "content": "hello"}]},
    "/v1/ui-stream": {"id": "mine", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}]},
}


@pytest.fixture
def asker(sqlite_chatter: Client, sqlite_chat_service: Service) -> Client:
    """A client of a tenant whose agents must ask before they calculate."""
    add_rule(sqlite_chat_service, "calculate", sqlite_chatter.desk.tenant.name)
    return sqlite_chatter


def list_approvals(client: Client) -> list[tuple[str, str, str]]:
    approvals = client.ok("GET", "/v1/approvals")["approvals"]
    return [(approval["state"], approval["reason"], approval["decided_by"]) for approval in reversed(approvals)]


@pytest.mark.parametrize("library", AG_UI)
def test_an_ag_ui_client_answers_interrupts(library: str, asker: Client, model: ModelServer) -> None:
    """Approves with other arguments, rejects, answers a question, and sends an answer again: one thread, one turn each."""
    model.script = reply_in_order(
        calls(("now", {}), ("calculate", SUM)),
        text("It is 5."),
        calls(("calculate", SUM), ("calculate", {"expression": "1"})),
        calls(("ask_person", ASKED)),
        text("Blue it is."),
    )
    view = ag_ui(
        library,
        asker,
        "What is six times seven?",
        '@{"payload": {"approved": true, "editedArgs": {"expression": "2 + 3"}}}',
        "And again?",
        '@{"payload": {"approved": false, "reason": "Guess it."}}',
        '@{"payload": {"answer": "blue"}}',
    )
    assert view["error"] is None
    first, _, second, third, _ = view["interrupts"]
    assert [len(interrupts) for interrupts in view["interrupts"]] == [1, 0, 2, 1, 0]
    called = {call["id"]: call["function"] for message in view["messages"] for call in message.get("toolCalls", [])}
    assert [(interrupt["reason"], called[interrupt["toolCallId"]]["name"]) for interrupt in (*first, *second, *third)] == [
        *[("tool_call", "calculate")] * 3,
        ("input_required", "ask_person"),
    ]
    assert json.loads(called[first[0]["toolCallId"]]["arguments"]) == SUM
    assert third[0]["message"] == "Which colour?"
    assert third[0]["responseSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
    assert list_approvals(asker) == [("approved", "", "a test"), *[("rejected", "Guess it.", "a test")] * 2]
    assert [result for _, result, _ in list_results(asker)][1] == {"result": 5}
    roles = [message["role"] for message in view["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user", *["assistant", "tool"] * 3, "assistant"]
    results = {message["toolCallId"]: message["content"] for message in view["messages"] if message["role"] == "tool"}
    assert results[first[0]["toolCallId"]] == '{"result":5}'
    assert "A person rejected this call: Guess it." in results[second[0]["toolCallId"]]
    assert results[third[0]["toolCallId"]] == "blue"
    assert [message["content"] for message in view["messages"] if message.get("content") and message["role"] == "assistant"] == [
        "It is 5.",
        "Blue it is.",
    ]
    assert [event["type"] for event in view["events"]].count("RUN_FINISHED") == 5


@pytest.mark.parametrize("library", AI_SDK)
def test_an_ai_sdk_chat_approves_rejects_and_answers(library: str, asker: Client, model: ModelServer) -> None:
    model.script = reply_in_order(
        calls(("now", {}), ("calculate", SUM)),
        text("It is 42."),
        calls(("calculate", SUM), ("calculate", {"expression": "1"})),
        calls(("ask_person", ASKED)),
        text("Blue it is."),
    )
    view = ui_stream(library, asker, "Six times seven?", "@approve", "And again?", "@deny Guess it.", "@answer blue")
    assert (view["error"], view["status"]) == (None, "ready")
    assert view["sent"] == 5
    first, _, second, third, _ = view["waits"]
    assert len(second) == 2
    (question,) = (part for part in third if part["type"] == "dynamic-tool")
    assert (question["toolName"], question["input"], question["state"]) == ("ask_person", ASKED, "input-available")
    assert [call["toolName"] for call in view["toolCalls"]] == ["ask_person"]
    if library == "ai-5":
        assert (first[0]["data"]["tool"], first[0]["data"]["arguments"]) == ("calculate", SUM)
    else:
        assert (first[0]["toolName"], first[0]["input"]) == ("calculate", SUM)
    assert list_approvals(asker) == [("approved", "", "a test"), *[("rejected", "Guess it.", "a test")] * 2]
    assert [message["role"] for message in view["messages"]] == ["user", "assistant"] * 2
    _, approved, _, rejected = ([part for part in message["parts"] if part["type"] != "step-start"] for message in view["messages"])
    assert [(part.get("toolName"), part.get("state")) for part in approved if part["type"] != "data-approval"] == [
        ("now", "output-available"),
        ("calculate", "output-available"),
        (None, "done"),
    ]
    denied = "output-error" if library == "ai-5" else "output-denied"
    assert [(part.get("toolName"), part.get("state")) for part in rejected if part["type"] != "data-approval"] == [
        *[("calculate", denied)] * 2,
        ("ask_person", "output-available"),
        (None, "done"),
    ]
    assert rejected[-2]["output"] == "blue"
    assert [part["text"] for part in (approved[-1], rejected[-1])] == ["It is 42.", "Blue it is."]
