"""Turns that wait for a person, through the official clients of AG-UI and the AI SDK: their own approvals, and ask_person."""

import json
from copy import deepcopy
from typing import Any
from uuid import uuid4

import pytest

from headway.ledger.events import encode_json
from tests.model_server import ModelServer, Reply, Request, calls, text
from tests.surfaces.conversation_client import get_turn, list_messages, reply_in_order, wait_for_turn
from tests.surfaces.front_end_clients import AG_UI, AI_SDK, ag_ui, ui_stream
from tests.surfaces.server_harness import Client, Service, check_problem
from tests.surfaces.waiting_turns import SUM, add_rule, list_results

ASKED = {"question": "Which colour?", "choices": ["red", "blue"]}
Frames = list[dict[str, Any]]


class AgUi:
    """A plain HTTP client that speaks AG-UI and keeps no state but its messages."""

    path = "/v1/ag-ui"

    def __init__(self, client: Client, key: str = "mine") -> None:
        self.client = client
        self.thread = {"threadId": key, "runId": "1"}
        self.messages: list[dict[str, Any]] = []

    def build_body(self, **more: Any) -> dict[str, Any]:
        return {**self.thread, "messages": self.messages, **more}

    def say(self, content: str = "go") -> Frames:
        self.messages.append({"id": "mine", "role": "user", "content": content})
        return self.send()

    def send(self, headers: dict[str, str] | None = None, **more: Any) -> Frames:
        frames = read_frames(self.client, self.path, self.build_body(**more), headers)
        for frame in frames:
            if frame["type"] == "TOOL_CALL_START":
                call = {
                    "id": frame["toolCallId"],
                    "type": "function",
                    "function": {"name": frame["toolCallName"], "arguments": "{}"},
                }
                self.messages.append({"id": frame["toolCallId"], "role": "assistant", "toolCalls": [call]})
        return frames

    def decide(self, approval_id: int | str, *, approved: bool = True, headers: dict[str, str] | None = None) -> Frames:
        entry = {"interruptId": f"approval-{approval_id}", "status": "resolved", "payload": {"approved": approved}}
        return self.send(headers, resume=[entry])

    def list_requests(self, frames: Frames) -> list[str]:
        outcome = frames[-1].get("outcome", {})
        return [interrupt["id"].removeprefix("approval-") for interrupt in outcome.get("interrupts", ())]

    def find_error(self, frames: Frames) -> str | None:
        return str(frames[-1]["message"]) if frames[-1]["type"] == "RUN_ERROR" else None

    def summarise(self, frames: Frames) -> str:
        """Return the results and the text in a stream."""
        return "".join(
            str(frame.get("content", frame.get("delta"))) for frame in frames if frame["type"] in ("TOOL_CALL_RESULT", CONTENT)
        )


class UiStream(AgUi):
    """The same for the UI message stream of the AI SDK."""

    path = "/v1/ui-stream"

    def build_body(self, **more: Any) -> dict[str, Any]:
        return {"id": self.thread["threadId"], "messages": self.messages, **more}

    def say(self, content: str = "go") -> Frames:
        self.messages.append({"id": "mine", "role": "user", "parts": [{"type": "text", "text": content}]})
        return self.send()

    def send(self, headers: dict[str, str] | None = None, **more: Any) -> Frames:
        frames = read_frames(self.client, self.path, self.build_body(**more), headers)
        for frame in frames:
            if frame["type"] == "start" and self.messages[-1]["id"] != frame["messageId"]:
                self.messages.append({"id": frame["messageId"], "role": "assistant", "parts": []})
            if frame["type"] == "tool-input-available":
                self.messages[-1]["parts"].append({**frame, "type": "dynamic-tool", "state": "input-available"})
        return frames

    def decide(self, approval_id: int | str, *, approved: bool = True, headers: dict[str, str] | None = None) -> Frames:
        part = self.messages[-1]["parts"][-1]
        part |= {"state": "approval-responded", "approval": {"id": str(approval_id), "approved": approved}}
        return self.send(headers)

    def list_requests(self, frames: Frames) -> list[str]:
        return [frame["approvalId"] for frame in frames if frame["type"] == "tool-approval-request"]

    def find_error(self, frames: Frames) -> str | None:
        return next((str(frame["errorText"]) for frame in frames if frame["type"] == "error"), None)

    def summarise(self, frames: Frames) -> str:
        return "".join(
            encode_json(frame["output"]) if "output" in frame else frame["delta"]
            for frame in frames
            if frame["type"] in ("tool-output-available", "text-delta")
        )


CONTENT = "TEXT_MESSAGE_CONTENT"
both = pytest.mark.parametrize("protocol", [AgUi, UiStream])


def read_frames(client: Client, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Frames:
    answer = client.post(path, json=body, headers=headers or {})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream"), answer.text
    lines = [frame.removeprefix("data: ") for frame in answer.text.split("\n\n") if frame.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


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


@both
def test_a_decision_made_elsewhere_continues_the_clients_stream(protocol: type[AgUi], asker: Client, model: ModelServer) -> None:
    model.script = reply_in_order(calls(("calculate", SUM)), text("It is 42."))
    front_end = protocol(asker)
    (approval,) = front_end.list_requests(front_end.say())
    still_waiting = front_end.send()
    turn_id = asker.ok("POST", f"/v1/approvals/{approval}", json={"decision": "approve"})["approval"]["turn_id"]
    wait_for_turn(asker, turn_id)
    continued = front_end.send()

    assert front_end.list_requests(still_waiting) == [approval]
    assert front_end.summarise(still_waiting) == ""
    assert front_end.summarise(continued) == '{"result":42}It is 42.'
    assert front_end.list_requests(continued) == []
    assert len(list_messages(asker, get_turn(asker, turn_id)["conversation_id"])) == 2


@both
def test_only_the_first_decision_counts(protocol: type[AgUi], asker: Client, model: ModelServer) -> None:
    model.script = reply_in_order(calls(("calculate", SUM)), text("It is 42."))
    front_end = protocol(asker)
    (approval,) = front_end.list_requests(front_end.say())
    key = {"Idempotency-Key": uuid4().hex}
    first, repeated = (front_end.decide(approval, headers=key) for _ in range(2))
    again = front_end.decide(approval)
    contrary = front_end.decide(approval, approved=False)

    for frames in (first, repeated, again, contrary):
        assert front_end.summarise(frames) == '{"result":42}It is 42.'
    assert list_approvals(asker) == [("approved", "", "a test")]
    assert len(model.requests) == 2


@both
def test_wrong_answers_are_errors_of_the_protocol(
    protocol: type[AgUi], asker: Client, sqlite_chat_service: Service, model: ModelServer
) -> None:
    model.script = reply_in_order(calls(("calculate", SUM)), text("It is 42."))
    front_end, elsewhere = protocol(asker), protocol(asker, "another")
    (approval,) = front_end.list_requests(front_end.say())
    elsewhere.messages = deepcopy(front_end.messages)
    for wrong in ("999999", "x", "-1", "9" * 30, "\u0663"):
        error = front_end.find_error(deepcopy_of(front_end).decide(wrong))
        assert error
        assert error.startswith(("No approval", "Nothing waits"))
    with sqlite_chat_service.tenant() as stranger:
        theirs = protocol(stranger)
        theirs.messages = deepcopy(front_end.messages)
        assert theirs.find_error(theirs.decide(approval)) == f"No approval #{approval}."
        assert theirs.client.ok("GET", "/v1/conversations")["conversations"] == []
    assert elsewhere.find_error(elsewhere.decide(approval)) == f"No approval #{approval} in this conversation."
    key = {"Idempotency-Key": uuid4().hex}
    assert len({elsewhere.find_error(elsewhere.decide(approval, headers=key)) for _ in range(2)}) == 1
    answer = asker.post(front_end.path, json=front_end.build_body(), headers={"Authorization": "Bearer hw_wrong"})
    check_problem(answer, 401)
    assert list_approvals(asker) == [("proposed", "", "")]


@both
def test_a_new_message_does_not_answer_a_turn_that_waits(protocol: type[AgUi], asker: Client, model: ModelServer) -> None:
    model.script = reply_in_order(calls(("calculate", SUM)), text("It is 42."))
    front_end = protocol(asker)
    (approval,) = front_end.list_requests(front_end.say())
    asked = deepcopy_of(front_end)
    front_end.messages.append({"id": "next", "role": "user", "content": "hello?"})
    detail = asker.refused("POST", front_end.path, 409, "turn_waiting", json=front_end.build_body(), params={"wait": 60})

    assert detail == f"The conversation's turn waits for a person: approval #{approval}. Decide, or cancel the turn."
    assert asked.summarise(asked.decide(approval)) == '{"result":42}It is 42.'


@both
def test_a_canceled_turn_ends_for_a_client_that_returns(protocol: type[AgUi], asker: Client, model: ModelServer) -> None:
    model.script = reply_in_order(calls(("calculate", SUM)), text("It is 42."))
    front_end = protocol(asker)
    (approval,) = front_end.list_requests(front_end.say())
    turn_id = asker.ok("GET", f"/v1/approvals/{approval}")["approval"]["turn_id"]
    asker.ok("POST", f"/v1/turns/{turn_id}/cancel")
    frames = front_end.decide(approval)

    types = [frame["type"] for frame in frames]
    if protocol is UiStream:  # the call has no decision that the client could send again, and it is in an earlier step
        assert types[-4:] == ["data-approval-decided", "tool-output-error", "start-step", "abort"]
    else:
        assert front_end.find_error(frames) == "The turn was canceled."
    assert list_approvals(asker)[0][0] == "canceled"


def test_interrupts_may_be_abandoned(asker: Client, model: ModelServer) -> None:
    """An approval is rejected then. A question stays open, because only an answer ends it."""
    model.script = reply_in_order(calls(("calculate", SUM)), calls(("ask_person", ASKED)), text("Blue it is."))
    front_end = AgUi(asker)
    (approval,) = front_end.list_requests(front_end.say())
    first = front_end.send(resume=[{"interruptId": f"approval-{approval}", "status": "cancelled"}])
    (question,) = front_end.list_requests(first)
    second = front_end.send(resume=[{"interruptId": question, "status": "cancelled"}])
    errors = [
        front_end.find_error(front_end.send(resume=[{"interruptId": name, "status": "resolved", "payload": payload}]))
        for name, payload in ((question, "green"), (question, 1), (f"approval-{approval}", "yes"), ("toast-1", True))
    ]
    front_end.messages.append({"id": "next", "role": "user", "content": "hello?"})
    errors.append(front_end.find_error(front_end.send(resume=[{"interruptId": question, "status": "resolved", "payload": "blue"}])))
    front_end.messages.pop()
    last = front_end.send(resume=[{"interruptId": question, "status": "resolved", "payload": "blue"}])

    assert list_approvals(asker) == [("rejected", "The request was closed without a decision.", "a test")]
    assert front_end.list_requests(second) == [question]
    assert errors == [
        "Answer with one of: red, blue.",
        "The answer to a question must be a text, or an object with `answer`.",
        f"The answer to approval #{approval} must be an object with `approved`: true or false.",
        "Nothing waits under the id 'toast-1'.",
        "A turn continues with the answers alone. Send the new message when it has ended.",
    ]
    assert front_end.summarise(last) == "blueBlue it is."


@both
def test_a_sub_agents_call_is_approved_like_the_main_agents(protocol: type[AgUi], asker: Client, model: ModelServer) -> None:
    def script(request: Request) -> Reply:
        is_sub_agent = any("count the stars" in said for said in request.texts)
        if request.tool_results:
            return text("Many." if is_sub_agent else "There are many stars.")
        task = {"agent": "researcher", "task": "count the stars"}
        return calls(("calculate", SUM)) if is_sub_agent else calls(("delegate", task))

    model.script = script
    front_end = protocol(asker)
    asking = front_end.say()
    (approval,) = front_end.list_requests(asking)
    continued = front_end.decide(approval)

    assert front_end.summarise(asking) == ""
    assert front_end.summarise(continued).startswith('{"result":42}')
    assert front_end.summarise(continued).endswith("There are many stars.")


def deepcopy_of(front_end: AgUi) -> AgUi:
    copied = type(front_end)(front_end.client, front_end.thread["threadId"])
    copied.messages = deepcopy(front_end.messages)
    return copied
