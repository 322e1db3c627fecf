"""What front ends have beside their messages: tools of their own, context, and a way to resume and to stop a turn."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.forgeries import EDGES, list_edges
from tests.model_server import ModelServer, Reply, Request, calls, text
from tests.surfaces.conversation_client import get_turn, list_messages, wait_for_turn
from tests.surfaces.front_end_clients import AG_UI, AI_SDK, ClientSide, ag_ui, ui_stream
from tests.surfaces.model_fixtures import model_settings
from tests.surfaces.server_harness import Client, run_server, wait_until
from tests.surfaces.test_http_front_ends import BODIES, find_conversation
from tests.surfaces.waiting_turns import ask_then_answer

PAINT = {
    "name": "paint",
    "description": "Paint the door that the user sees.",
    "parameters": {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
}
SIDE = ClientSide((PAINT,), {"paint": "The door is blue now."}, ({"description": "The page", "value": "a red door"},))


def paint_then_answer(request: Request) -> Reply:
    """A model that uses the tool of the client, twice, and then repeats the last result."""
    if len(request.tool_results) < 2:
        return calls(("paint", {"colour": "blue"}))
    return text(f"It says {request.tool_results[-1].content}")


def check_calls(client: Client, key: str, model: ModelServer) -> None:
    """Check that the agent knew the tool and the context, that both calls had their results, and that the turn has ended."""
    assert "paint" in model.requests[0].tools
    assert "The page:\na red door" in model.requests[0].system
    (answer,) = (said for role, said in list_messages(client, find_conversation(client, key)) if role == "assistant")
    assert answer == 'It says {"result": "The door is blue now."}'
    questions = client.ok("GET", "/v1/questions")["questions"]
    assert [(one["client_call"]["tool"], one["state"], one["answer"]) for one in questions] == [
        ("paint", "answered", "The door is blue now.")
    ] * 2
    assert get_turn(client, questions[0]["turn_id"])["status"] == "finished"


@pytest.mark.parametrize("library", AG_UI)
def test_an_agent_calls_the_tools_of_an_ag_ui_client(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = paint_then_answer
    view = ag_ui(library, sqlite_chatter, "Paint the door.", side=SIDE)

    assert view["error"] is None
    check_calls(sqlite_chatter, "thread", model)
    assert [message["role"] for message in view["messages"]] == ["user", *["assistant", "tool"] * 2, "assistant"]
    assert all("outcome" not in event for event in view["events"] if event["type"] == "RUN_FINISHED")  # nobody is asked


@pytest.mark.parametrize("library", AI_SDK)
def test_an_agent_calls_the_tools_of_an_ai_sdk_chat(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = paint_then_answer
    view = ui_stream(library, sqlite_chatter, "Paint the door.", side=SIDE)

    assert (view["error"], view["status"]) == (None, "ready")
    check_calls(sqlite_chatter, "chat", model)
    assert [call["input"] for call in view["toolCalls"]] == [{"colour": "blue"}] * 2


def read_ag_ui(client: Client, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    body = {"threadId": "mine", "runId": "1", "messages": messages, "tools": [PAINT]}
    answer = client.post("/v1/ag-ui", json=body)
    assert answer.status_code == 200, answer.text
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line.startswith("data: ")]


@pytest.mark.parametrize("path", BODIES)
def test_what_a_front_end_sends_beside_its_message_forges_no_frame(path: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = lambda request: text("Done.") if request.tool_results else calls(("paint", {"colour": "blue"}))
    edges = "".join(f"{edge}\n" for edge in EDGES)
    colour = {"type": "string", "description": edges, "enum": [edges], "x-hint": {edges: [edges]}}
    forged = {"name": "paint", "description": edges, "parameters": {"type": "object", "properties": {"colour": colour}}}
    plain = {"name": "paint", "description": "x", "parameters": {"type": "object", "properties": {}}}
    for tool, context in ((plain, "x"), (forged, edges)):
        body = {**BODIES[path], "tools": [tool], "context": [{"description": context, "value": context}]}
        key = "threadId" if "threadId" in body else "id"
        assert sqlite_chatter.post(path, json={**body, key: context[:9]}).status_code == 200
    usual, attacked = model.requests[0], model.requests[-1]
    assert list_edges(attacked.system) == list_edges(usual.system)
    (paint,) = (tool["function"] for tool in attacked.body["tools"] if tool["function"]["name"] == "paint")
    assert list_edges(json.dumps(paint, ensure_ascii=False).replace("\\n", "\n")) == []


def test_a_message_without_the_result_goes_on_without_it(sqlite_chatter: Client, model: ModelServer) -> None:
    """The user may reload the page before a tool of the page has returned."""
    model.script = lambda request: text(f"I read {request.last}") if request.tool_results else calls(("paint", {}))
    hello = {"id": "1", "role": "user", "content": "Paint the door."}
    waiting = read_ag_ui(sqlite_chatter, [hello])
    assert waiting[-1]["type"] == "RUN_FINISHED"
    conversation = find_conversation(sqlite_chatter, "mine")
    frames = read_ag_ui(sqlite_chatter, [hello, {"id": "2", "role": "user", "content": "Never mind."}])

    assert frames[-1]["result"]["outcome"] == "answered"
    (question,) = sqlite_chatter.ok("GET", "/v1/questions")["questions"]
    assert question["answer"] == "The client gave no result."
    assert [said for role, said in list_messages(sqlite_chatter, conversation) if role == "user"] == [
        "Paint the door.",
        "Never mind.",
    ]


def test_a_result_that_arrives_after_the_server_was_killed_continues_the_turn(
    sqlite_url: str, tmp_path: Path, model: ModelServer
) -> None:
    model.script = lambda request: text("Blue it is.") if request.tool_results else calls(("paint", {"colour": "blue"}))
    hello = {"id": "1", "role": "user", "content": "Paint the door."}
    with run_server(sqlite_url, tmp_path, environment=model_settings(model)) as first, first.tenant() as client:
        (call_id,) = (one["toolCallId"] for one in read_ag_ui(client, [hello]) if one["type"] == "TOOL_CALL_START")
        first.end(signal.SIGKILL)
        with (
            run_server(sqlite_url, tmp_path, environment=model_settings(model)) as second,
            Client(second.url, client.desk) as returning,
        ):
            function = {"name": "paint", "arguments": '{"colour": "blue"}'}
            asked = {
                "id": "2",
                "role": "assistant",
                "toolCalls": [{"id": call_id, "type": "function", "function": function}],
            }
            result = {"id": "3", "role": "tool", "toolCallId": call_id, "content": "The door is blue now."}
            frames = read_ag_ui(returning, [hello, asked, result])

            assert frames[-1]["result"]["outcome"] == "answered"
            (question,) = returning.ok("GET", "/v1/questions")["questions"]
            assert (question["state"], question["answer"]) == ("answered", "The door is blue now.")
            assert get_turn(returning, question["turn_id"])["status"] == "finished"
            said = list_messages(returning, find_conversation(returning, "mine"))
            assert said == [("user", "Paint the door."), ("assistant", "Blue it is.")]


def test_a_tool_cannot_take_the_name_of_one_of_the_servers(sqlite_client: Client) -> None:
    for path, body in BODIES.items():
        tools = [{"name": "calculate", "description": "", "parameters": {}}]
        assert "calculate" in sqlite_client.refused("POST", path, 422, "invalid", json={**body, "tools": tools})
        twice = [PAINT, PAINT]
        assert "different names" in sqlite_client.refused("POST", path, 422, "invalid", json={**body, "tools": twice})


@pytest.mark.parametrize("library", AI_SDK)
def test_a_chat_of_the_ai_sdk_resumes_and_stops_a_turn(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = ask_then_answer("Which colour?")
    begun = ui_stream(library, sqlite_chatter, "Paint the door.")
    model.script = lambda _request: text("Hello again.")
    view = ui_stream(library, sqlite_chatter, "@resume", "@stop", "@resume", "Never mind.")

    assert view["error"] is None
    resumed, _, answer = view["messages"]
    assert resumed["id"] == begun["messages"][-1]["id"]
    assert [part["input"]["question"] for part in view["waits"][0]] == ["Which colour?"]
    assert get_turn(sqlite_chatter, resumed["id"])["status"] == "canceled"
    assert answer["parts"][-1]["text"] == "Hello again."
    assert sqlite_chatter.get("/v1/ui-stream/chat/stream").status_code == 204
    assert sqlite_chatter.get("/v1/ui-stream/unknown/stream").status_code == 204
    assert sqlite_chatter.ok("POST", "/v1/ui-stream/chat/stop") == {"turn_id": None}


@pytest.mark.parametrize("path", BODIES)
def test_a_turn_can_stop_with_its_connection(sqlite_chatter: Client, model: ModelServer, path: str) -> None:
    model.script = lambda _request: text("Here.")
    model.hold()
    with sqlite_chatter.stream("POST", path, json=BODIES[path], params={"disconnect": "stop"}) as stream:
        assert stream.status_code == 200
        model.wait_for_requests(1)
    conversation = find_conversation(sqlite_chatter, "mine")
    (turn_id,) = {
        message["turn_id"] for message in sqlite_chatter.ok("GET", f"/v1/conversations/{conversation}/messages")["messages"]
    }
    assert wait_for_turn(sqlite_chatter, turn_id)["status"] == "canceled"
    model.release()
    again = sqlite_chatter.post(path, json=BODIES[path], params={"disconnect": "stop"})
    assert again.status_code == 200
    wait_until(lambda: list_messages(sqlite_chatter, conversation)[-1] == ("assistant", "Here."), "the answer is stored")
