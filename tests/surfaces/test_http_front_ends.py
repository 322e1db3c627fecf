"""Third-party chat front ends against a real server: their official clients parse every event and show the state of the ledger."""

import json
from typing import Any

import httpx
import pytest

from headway.actions.installation import halts
from tests.model_server import Failure, ModelServer, Reply, calls, text
from tests.surfaces.conversation_client import get_turn, list_messages, plan_and_drain, reply_in_order, say, wait_for_turn
from tests.surfaces.front_end_clients import AG_UI, AI_SDK, ag_ui, ui_stream
from tests.surfaces.server_harness import Client, check_problem

BODIES: dict[str, dict[str, Any]] = {
    "/v1/ag-ui": {"threadId": "mine", "runId": "1", "messages": [{"id": "1", "role": "user", "content": "hello"}]},
    "/v1/ui-stream": {"id": "mine", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}]},
}
both = pytest.mark.parametrize("path", BODIES)


def find_conversation(client: Client, key: str) -> int:
    (conversation,) = (row for row in client.ok("GET", "/v1/conversations")["conversations"] if row["key"] == key)
    return int(conversation["id"])


def answer_early_once(answer: str) -> Any:
    """A model script that answers once while its plan is open, so that one answer is refused, and then works through the plan."""
    plan = plan_and_drain("buy milk", answer=answer)
    hasty = [text("Nothing to do, really.")]
    return lambda request: hasty.pop() if hasty and len(request.tool_results) == 1 else plan(request)


def split_frames(answer: httpx.Response) -> list[str]:
    return [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: ")]


# AG-UI


@pytest.mark.parametrize("library", AG_UI)
def test_an_ag_ui_client_sees_a_planned_turn(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk", "buy bread", answer="All is bought.")
    view = ag_ui(library, sqlite_chatter, "Buy milk and bread.", key="shopping")

    assert view["error"] is None
    assert [message["role"] for message in view["messages"]] == ["user", *["assistant", "tool"] * 3, "assistant"]
    assert view["messages"][-1]["content"] == "All is bought."
    called = [tool_call["function"]["name"] for message in view["messages"] for tool_call in message.get("toolCalls", [])]
    assert called == ["create_todo", "complete_todo", "complete_todo"]
    todos = view["state"]["todos"]
    assert (todos["total"], todos["remaining"], todos["current"]) == (2, 0, None)
    assert [(item["description"], item["status"]) for item in todos["items"]] == [("buy milk", "done"), ("buy bread", "done")]
    event_types = [event["type"] for event in view["events"]]
    assert (event_types[0], event_types[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert event_types.count("STATE_DELTA") == 3
    assert view["events"][-1]["result"]["outcome"] == "drained"
    assert list_messages(sqlite_chatter, find_conversation(sqlite_chatter, "shopping")) == [
        ("user", "Buy milk and bread."),
        ("assistant", "All is bought."),
    ]


@pytest.mark.parametrize("library", AG_UI)
def test_an_ag_ui_client_continues_its_thread(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    """The second request repeats the whole conversation, which the ledger already stores."""
    model.script = reply_in_order(calls(("now", {})), text("It is late."), calls(("now", {})), text("Still late."))
    view = ag_ui(library, sqlite_chatter, "What time is it?", "And now?")

    assert view["error"] is None
    assert [message.get("content") for message in view["messages"] if message["role"] == "user"] == ["What time is it?", "And now?"]
    assert view["messages"][-1]["content"] == "Still late."
    assert len({message["id"] for message in view["messages"]}) == len(view["messages"]) == 8
    assert len(list_messages(sqlite_chatter, find_conversation(sqlite_chatter, "thread"))) == 4


@pytest.mark.parametrize("library", AG_UI)
def test_a_refused_answer_does_not_stay_with_an_ag_ui_client(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = answer_early_once("Bought.")
    view = ag_ui(library, sqlite_chatter, "Buy milk.")

    assert view["error"] is None
    assert [message["content"] for message in view["messages"] if message["role"] == "assistant" and message.get("content")] == [
        "Bought."
    ]
    assert view["messages"][0]["content"] == "Buy milk."
    assert [event["value"]["remaining"] for event in view["events"] if event.get("name") == "refused"] == [1]


@pytest.mark.parametrize("library", AG_UI)
def test_an_ag_ui_client_receives_a_failure(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = reply_in_order(Reply(failure=Failure(400, "no such thing")))
    view = ag_ui(library, sqlite_chatter, "hello")

    assert view["events"][-1]["type"] == "RUN_ERROR"
    assert "no such thing" in view["events"][-1]["message"]


# The AI SDK


@pytest.mark.parametrize("library", AI_SDK)
def test_a_chat_of_the_ai_sdk_sees_a_planned_turn(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk", "buy bread", answer="All is bought.")
    view = ui_stream(library, sqlite_chatter, "Buy milk and bread.", key="shopping")

    assert (view["error"], view["status"], view["toolCalls"]) == (None, "ready", [])
    _, answer = view["messages"]
    assert answer["id"] == answer["metadata"]["turn_id"]
    assert answer["metadata"]["outcome"] == "drained"
    assert get_turn(sqlite_chatter, answer["id"])["outcome"] == "drained"
    tools = [part for part in answer["parts"] if part["type"] == "dynamic-tool"]
    assert [(part["toolName"], part["state"]) for part in tools] == [
        ("create_todo", "output-available"),
        ("complete_todo", "output-available"),
        ("complete_todo", "output-available"),
    ]
    (todos,) = (part["data"] for part in answer["parts"] if part["type"] == "data-todos")
    assert (todos["total"], todos["remaining"]) == (2, 0)
    assert answer["parts"][-1] | {"providerMetadata": None} == {
        "type": "text",
        "text": "All is bought.",
        "state": "done",
        "providerMetadata": None,
    }
    assert list_messages(sqlite_chatter, find_conversation(sqlite_chatter, "shopping"))[-1] == ("assistant", "All is bought.")


@pytest.mark.parametrize("library", AI_SDK)
def test_an_ai_sdk_chat_continues(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = reply_in_order(calls(("now", {})), text("It is late."), calls(("calculate", {"expression": "1/0"})), text("No."))
    view = ui_stream(library, sqlite_chatter, "What time is it?", "Divide one by zero.")

    assert view["error"] is None
    assert [message["role"] for message in view["messages"]] == ["user", "assistant"] * 2
    (failed,) = (part for part in view["messages"][-1]["parts"] if part["type"] == "dynamic-tool")
    assert failed["state"] == "output-error"
    assert failed["errorText"]
    assert len(list_messages(sqlite_chatter, find_conversation(sqlite_chatter, "chat"))) == 4


@pytest.mark.parametrize("library", AI_SDK)
def test_a_refused_answer_is_marked_for_the_ai_sdk(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = answer_early_once("Bought.")
    view = ui_stream(library, sqlite_chatter, "Buy milk.")
    texts = [part for part in view["messages"][-1]["parts"] if part["type"] == "text"]

    assert view["error"] is None
    assert [(part["text"], part.get("providerMetadata")) for part in texts] == [
        ("Nothing to do, really.", {"headway": {"withdrawn": True}}),
        ("Bought.", None),
    ]
    assert [part["data"]["remaining"] for part in view["data"] if part["type"] == "data-refused"] == [1]


@pytest.mark.parametrize("library", AI_SDK)
def test_an_ai_sdk_chat_receives_a_failure(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = reply_in_order(Reply(failure=Failure(400, "no such thing")))
    view = ui_stream(library, sqlite_chatter, "hello")

    assert view["status"] == "error"
    assert "no such thing" in view["error"]


# Both protocols, with a plain HTTP client


@both
def test_a_stream_is_one_of_events_and_ends_by_itself(path: str, chatter: Client) -> None:
    answer = chatter.post(path, json=BODIES[path])

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers.get("x-vercel-ai-ui-message-stream") == ("v1" if path == "/v1/ui-stream" else None)
    *_, last = split_frames(answer)
    assert last == "[DONE]" if path == "/v1/ui-stream" else json.loads(last)["type"] == "RUN_FINISHED"
    assert list_messages(chatter, find_conversation(chatter, "mine")) == [("user", "hello"), ("assistant", "hello")]


@both
def test_a_key_that_looks_like_a_number_is_a_key(path: str, sqlite_chatter: Client) -> None:
    other = sqlite_chatter.conversation()
    key = "threadId" if path == "/v1/ag-ui" else "id"
    assert sqlite_chatter.post(path, json=BODIES[path] | {key: str(other)}).status_code == 200
    assert list_messages(sqlite_chatter, other) == []
    assert len(list_messages(sqlite_chatter, find_conversation(sqlite_chatter, str(other)))) == 2


@both
def test_a_conversation_has_one_running_turn_however_it_began(path: str, sqlite_chatter: Client, model: ModelServer) -> None:
    conversation = sqlite_chatter.conversation(key="mine")
    model.hold()
    turn_id = say(sqlite_chatter, conversation)
    model.wait_for_requests(1)
    sqlite_chatter.refused("POST", path, 409, "turn_running", json=BODIES[path])
    model.release()
    wait_for_turn(sqlite_chatter, turn_id)
    assert sqlite_chatter.post(path, json=BODIES[path], params={"wait": 20}).status_code == 200


@both
def test_hanging_up_does_not_stop_the_turn(path: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.hold()
    with sqlite_chatter.again() as visitor, visitor.stream("POST", path, json=BODIES[path]) as answer:
        first = next(line for line in answer.iter_lines() if line.startswith("data: "))
        model.wait_for_requests(1)
    assert json.loads(first.removeprefix("data: "))["type"] in ("RUN_STARTED", "start")
    model.release()
    (started,) = sqlite_chatter.ok("GET", f"/v1/conversations/{find_conversation(sqlite_chatter, 'mine')}/messages")["messages"][:1]
    assert wait_for_turn(sqlite_chatter, started["turn_id"])["status"] == "finished"


@both
def test_the_same_key_gives_the_same_turn_again(path: str, sqlite_chatter: Client, model: ModelServer) -> None:
    first, second = (sqlite_chatter.post(path, json=BODIES[path], headers={"Idempotency-Key": "once"}) for _ in range(2))

    assert (first.status_code, second.status_code) == (200, 200)
    assert split_frames(first) == split_frames(second)
    assert len(model.requests) == 1


@both
def test_while_everything_is_halted_nothing_begins(path: str, sqlite_client: Client) -> None:
    sqlite_client.desk.database.write(lambda tx: halts.halt(tx, "a test"))
    try:
        sqlite_client.refused("POST", path, 503, "halted", json=BODIES[path])
        assert sqlite_client.ok("GET", "/v1/conversations")["conversations"] == []
    finally:
        sqlite_client.desk.database.write(halts.unhalt)


@both
def test_strangers_and_nonsense_are_refused_in_sentences(path: str, sqlite_client: Client) -> None:
    body = BODIES[path]
    check_problem(sqlite_client.post(path, json=body, headers={"Authorization": "Bearer hw_wrong"}), 401)
    for messages in (
        [{"role": "assistant", "content": "hi"}],
        [{"role": "user", "content": [{"type": "image"}]}],
        [{"role": "user"}],
    ):
        detail = sqlite_client.refused("POST", path, 422, "invalid", json=body | {"messages": messages})
        assert "the last one is the request" in detail
    wrongs: tuple[dict[str, Any], ...] = (
        {"messages": []},
        {"messages": "hello"},
        {"threadId": "", "id": ""},
        {"threadId": None, "id": None},
    )
    for wrong in wrongs:
        sqlite_client.refused("POST", path, 422, "invalid", json=body | wrong)
    raw = json.dumps(body).replace('"1"', "NaN", 1).encode()
    answer = sqlite_client.post(path, content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert sqlite_client.ok("GET", "/v1/conversations")["conversations"] == []


def test_text_may_come_in_parts(sqlite_chatter: Client, model: ModelServer) -> None:
    parts = [{"type": "text", "text": "first"}, {"type": "unheard-of"}, {"type": "text", "text": "second"}]
    body = BODIES["/v1/ag-ui"] | {"messages": [{"id": "1", "role": "user", "content": parts}]}
    assert sqlite_chatter.post("/v1/ag-ui", json=body).status_code == 200
    assert list_messages(sqlite_chatter, find_conversation(sqlite_chatter, "mine"))[0] == ("user", "first\nsecond")


@pytest.mark.parametrize(
    ("path", "more"), [("/v1/ag-ui", {"forwardedProps": {"mode": "queue"}}), ("/v1/ui-stream", {"mode": "queue"})]
)
def test_a_front_end_may_choose_the_mode(path: str, more: dict[str, Any], sqlite_chatter: Client) -> None:
    answer = sqlite_chatter.post(path, json=BODIES[path] | more)
    assert any('"mode":"queue"' in frame for frame in split_frames(answer))
    wrong = {name: "x" if isinstance(value, str) else {"mode": "x"} for name, value in more.items()}
    sqlite_chatter.refused("POST", path, 422, "invalid", json=BODIES[path] | wrong)
