"""The inbox over REST: a turn or a goal waits until a person decides, and exactly the approved call runs."""

from uuid import uuid4

import pytest

from headway.actions.access import tokens
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from tests.model_server import ModelServer, calls, text
from tests.surfaces.conversation_client import messages_path, reply_in_order, say, wait_for_turn
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import Client, Service, admin_headers, wait_until
from tests.surfaces.waiting_turns import SUM, add_rule, ask_then_answer, begin_waiting_turn, call_then_answer, list_results

OPEN_QUESTIONS = 'headway_waiting_for_people{kind="question"}'
DECIDED = ("decided_at", "decided_by", "reason", "state")


def test_an_approved_call_runs_and_the_turn_goes_on(chatter: Client, chat_service: Service, model: ModelServer) -> None:
    add_rule(chat_service, "calculate", chatter.desk.tenant.name)
    model.script = call_then_answer("calculate", SUM, "It is 42.")
    turn = begin_waiting_turn(chatter, chatter.conversation())
    (request,) = chatter.ok("GET", "/v1/inbox")["requests"]
    (proposed,) = chatter.ok("GET", "/v1/approvals", params={"state": "proposed"})["approvals"]
    approval = chatter.ok("POST", f"/v1/approvals/{proposed['id']}", json={"decision": "approve"})["approval"]
    ended = wait_for_turn(chatter, turn["id"])

    assert (request["kind"], request["state"]) == ("approval", "open")
    assert request | proposed == {**request, "state": "proposed"}
    assert turn["waiting_for"] == {"kind": "approval", "id": proposed["id"]}
    assert (proposed["tool"], proposed["arguments"], proposed["state"]) == ("calculate", SUM, "proposed")
    assert (approval["state"], approval["decided_by"]) == ("approved", "a test")
    assert {**approval, **{name: proposed[name] for name in DECIDED}} == proposed
    assert (ended["status"], ended["waiting_for"]) == ("finished", None)
    assert list_results(chatter) == [("calculate", {"result": 42}, False)]
    assert chatter.ok("GET", f"/v1/approvals/{proposed['id']}") == {"approval": approval, "rule": None}
    assert chatter.ok("GET", "/v1/approvals", params={"state": "proposed"}) == {"approvals": [], "next_cursor": None}


def test_a_rejected_call_reaches_the_model_with_the_reason(
    sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer
) -> None:
    add_rule(sqlite_chat_service, "calculate", sqlite_chatter.desk.tenant.name)
    model.script = call_then_answer("calculate", SUM)
    turn = begin_waiting_turn(sqlite_chatter, sqlite_chatter.conversation())
    path = f"/v1/approvals/{turn['waiting_for']['id']}"
    rejected = sqlite_chatter.ok("POST", path, json={"decision": "reject", "reason": "Guess it."})
    wait_for_turn(sqlite_chatter, turn["id"])

    assert (rejected["approval"]["state"], rejected["approval"]["reason"]) == ("rejected", "Guess it.")
    assert model.requests[-1].tool_results[-1].content.count("A person rejected this call: Guess it.") == 1
    assert sqlite_chatter.ok("POST", path, json={"decision": "reject"}) == rejected
    detail = sqlite_chatter.refused("POST", path, 409, "conflict", json={"decision": "approve"})
    assert detail == f"Approval #{turn['waiting_for']['id']} is already rejected by a test."


def test_edited_arguments_are_checked_and_run(sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer) -> None:
    add_rule(sqlite_chat_service, "calculate", sqlite_chatter.desk.tenant.name)
    model.script = call_then_answer("calculate", SUM)
    turn = begin_waiting_turn(sqlite_chatter, sqlite_chatter.conversation())
    path = f"/v1/approvals/{turn['waiting_for']['id']}"
    for bad in ({"expression": 1.5, "precision": 2}, {}, {"expression": "1", "other": True}):
        sqlite_chatter.refused("POST", path, 422, "invalid", json={"decision": "approve", "arguments": bad})
    sqlite_chatter.refused("POST", path, 422, "invalid", json={"decision": "reject", "arguments": SUM})
    sqlite_chatter.refused("POST", path, 422, "invalid", json={"decision": "reject", "always": True})
    sqlite_chatter.refused("POST", path, 422, "invalid", json={"decision": "maybe"})
    edited = sqlite_chatter.ok("POST", path, json={"decision": "approve", "arguments": {"expression": "2 + 3"}})["approval"]
    wait_for_turn(sqlite_chatter, turn["id"])

    assert edited["arguments"] == {"expression": "2 + 3"}
    assert list_results(sqlite_chatter) == [("calculate", {"result": 5}, False)]
    sqlite_chatter.refused("POST", path, 409, "conflict", json={"decision": "approve", "arguments": SUM})


def test_always_adds_a_rule_so_that_the_next_call_is_made_at_once(
    sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer
) -> None:
    tenant, conversation = sqlite_chatter.desk.tenant.name, sqlite_chatter.conversation()
    add_rule(sqlite_chat_service, "calculate", tenant)
    add_rule(sqlite_chat_service, "recall", f"not {tenant}")
    model.script = reply_in_order(calls(("calculate", SUM)), text("One."), calls(("calculate", SUM)), text("Two."))
    turn = begin_waiting_turn(sqlite_chatter, conversation)
    path = f"/v1/approvals/{turn['waiting_for']['id']}"
    preview = sqlite_chatter.ok("GET", path)["rule"]
    sqlite_chatter.ok("POST", path, json={"decision": "approve", "always": True})
    wait_for_turn(sqlite_chatter, turn["id"])
    policy = sqlite_chatter.ok("GET", "/v1/policy", headers=admin_headers(sqlite_chatter))

    assert wait_for_turn(sqlite_chatter, say(sqlite_chatter, conversation, "again"))["status"] == "finished"
    assert [(rule["decision"], rule["tool"], rule["tenant"]) for rule in policy["rules"]] == [
        ("allow", "calculate", tenant),
        ("ask", "calculate", tenant),
    ]
    assert policy["rules"][0] == {**preview, "line": policy["rules"][0]["line"]}
    assert [rule["approval"] for rule in policy["rules"]] == [turn["waiting_for"]["id"], 0]
    assert (policy["file"], policy["problem"]) == ("policy.toml", "")
    assert "set_goal" in policy["defaults"]
    assert "calculate" not in policy["defaults"]
    assert len(sqlite_chatter.ok("GET", "/v1/approvals")["approvals"]) == 1


def test_the_stream_of_any_conversation_tells_how_much_waits(sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = ask_then_answer("Which colour?")
    with open_stream(sqlite_chatter, f"/v1/conversations/{sqlite_chatter.conversation()}/events") as stream:
        turn = begin_waiting_turn(sqlite_chatter, sqlite_chatter.conversation())
        sqlite_chatter.ok("POST", f"/v1/questions/{turn['waiting_for']['id']}", json={"answer": "green"})
        events = (event for event in stream.events() if event.event in ("waiting_changed", "question_asked"))
        counts = [next(events), next(events)]

    none = {"approvals": 0, "questions": 0, "decisions": 0}
    assert [event.data for event in counts] == [{**none, "questions": 1}, none]
    wait_for_turn(sqlite_chatter, turn["id"])


def test_a_question_is_answered_once(chatter: Client, chat_service: Service, model: ModelServer) -> None:
    model.script = ask_then_answer("Which colour?", ("red", "blue"))
    before = chat_service.read_metrics()[OPEN_QUESTIONS]
    turn = begin_waiting_turn(chatter, chatter.conversation())
    (question,) = chatter.ok("GET", "/v1/questions", params={"state": "open"})["questions"]
    path = f"/v1/questions/{question['id']}"
    detail = chatter.refused("POST", path, 422, "invalid", json={"answer": "green"})
    during = chat_service.read_metrics()[OPEN_QUESTIONS]
    answered = chatter.ok("POST", path, json={"answer": "blue"})
    ended = wait_for_turn(chatter, turn["id"])

    request = chatter.ok("GET", f"/v1/inbox/{question['id']}")
    assert request["rule"] is None
    assert {name: request["request"][name] for name in ("kind", "state", "answer", "decided_by")} == {
        "kind": "question",
        "state": "answered",
        "answer": "blue",
        "decided_by": "a test",
    }
    assert chatter.ok("POST", f"/v1/inbox/{question['id']}", json={"answer": "blue"})["request"] == request["request"]
    chatter.refused("POST", f"/v1/inbox/{question['id']}", 409, "conflict", json={"answer": "red"})
    chatter.refused("POST", f"/v1/inbox/{question['id']}", 422, "invalid", json={"decision": "approve"})
    assert turn["waiting_for"] == {"kind": "question", "id": question["id"]}
    assert (question["question"], question["choices"], question["state"]) == ("Which colour?", ["red", "blue"], "open")
    assert detail == "Answer with one of: red, blue."
    assert (during, chat_service.read_metrics()[OPEN_QUESTIONS]) == (before + 1, before)
    assert (answered["question"]["answer"], answered["question"]["answered_by"]) == ("blue", "a test")
    assert ended["status"] == "finished"
    assert '"answer": "blue"' in model.requests[-1].tool_results[-1].content
    assert chatter.ok("POST", path, json={"answer": "blue"}) == answered == chatter.ok("GET", path)
    chatter.refused("POST", path, 409, "conflict", json={"answer": "red"})


def test_a_paused_goal_is_in_the_inbox_until_someone_decides(chatter: Client) -> None:
    def pause(reason: str) -> int:
        goal = chatter.desk.write(goals.propose, NewGoal(reason), "A hunch.")
        return goal.id

    first, second = pause("A tidy shed."), pause("A new shed.")
    other, request = chatter.ok("GET", "/v1/inbox", params={"kind": "decision"})["requests"]
    path = f"/v1/inbox/{request['id']}"

    assert [(one["goal_id"], one["state"], one["run_id"]) for one in (request, other)] == [
        (first, "open", None),
        (second, "open", None),
    ]
    assert request["question"].startswith(f"An agent proposes goal #{first}: “A tidy shed.”.")
    assert request["choices"] == ["continue", "replan", "abandon"]
    assert chatter.ok("GET", f"/v1/goals/{first}")["goal"]["waiting_for"] is None  # none of its agents waits
    detail = chatter.refused("POST", path, 422, "invalid", json={"answer": "continue"})
    assert detail == f"Request #{request['id']} asks to decide about a goal: send `action`."
    chatter.refused("POST", path, 422, "invalid", json={"action": "wait"})
    chatter.refused("POST", f"/v1/questions/{request['id']}", 404, "not_found", json={"answer": "continue"})
    answered = chatter.ok("POST", path, json={"action": "abandon", "note": "It is tidy."})["request"]
    assert [answered[name] for name in ("state", "answer", "reason", "decided_by")] == [
        "answered",
        "abandon",
        "It is tidy.",
        "a test",
    ]
    assert chatter.ok("POST", path, json={"action": "abandon", "note": "It is tidy."})["request"] == answered
    chatter.refused("POST", path, 409, "conflict", json={"action": "continue"})
    assert chatter.ok("GET", f"/v1/goals/{first}")["goal"]["status"] == "abandoned"

    # A decision that is made elsewhere is also an answer.
    chatter.ok("POST", f"/v1/goals/{second}/decision", json={"action": "abandon"})
    assert chatter.ok("GET", f"/v1/inbox/{other['id']}")["request"]["answer"] == "abandon"
    assert chatter.ok("GET", "/v1/inbox")["requests"] == []


def test_a_key_makes_a_decision_once_and_repeats_its_answer(
    sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer
) -> None:
    add_rule(sqlite_chat_service, "calculate", sqlite_chatter.desk.tenant.name)
    model.script = call_then_answer("calculate", SUM)
    turn = begin_waiting_turn(sqlite_chatter, sqlite_chatter.conversation())
    path, headers = f"/v1/approvals/{turn['waiting_for']['id']}", {"Idempotency-Key": uuid4().hex}
    first = sqlite_chatter.ok("POST", path, json={"decision": "approve"}, headers=headers)
    wait_for_turn(sqlite_chatter, turn["id"])

    assert sqlite_chatter.ok("POST", path, json={"decision": "approve"}, headers=headers) == first
    sqlite_chatter.refused("POST", path, 409, "key_reused", json={"decision": "reject"}, headers=headers)


def test_a_token_without_a_label_decides_under_its_number(sqlite_chatter: Client, model: ModelServer) -> None:
    created = sqlite_chatter.desk.write(tokens.create_token)
    model.script = ask_then_answer("Which colour?")
    turn = begin_waiting_turn(sqlite_chatter, sqlite_chatter.conversation())
    path = f"/v1/questions/{turn['waiting_for']['id']}"
    headers = {"Authorization": f"Bearer {created.secret}"}
    answered = sqlite_chatter.ok("POST", path, json={"answer": "green"}, headers=headers)["question"]
    wait_for_turn(sqlite_chatter, turn["id"])

    assert answered["answered_by"] == f"token {created.token.id}"


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_message_does_not_wait_for_a_turn_that_waits_for_a_person(
    sqlite_chatter: Client, model: ModelServer, accept: str
) -> None:
    conversation = sqlite_chatter.conversation()
    model.script = ask_then_answer("Which colour?")
    turn = begin_waiting_turn(sqlite_chatter, conversation)
    body = {"json": {"content": "hello?"}, "params": {"wait": 300}, "headers": {"Accept": accept}}
    detail = sqlite_chatter.refused("POST", messages_path(conversation), 409, "turn_waiting", **body)
    canceled = sqlite_chatter.ok("POST", f"/v1/turns/{turn['id']}/cancel")["turn"]

    question = turn["waiting_for"]["id"]
    assert detail == f"The conversation's turn waits for a person: question #{question}. Decide, or cancel the turn."
    assert (canceled["status"], canceled["waiting_for"]) == ("canceled", None)
    wait_until(lambda: sqlite_chatter.ok("GET", f"/v1/questions/{question}")["question"]["state"] == "canceled", "it is canceled")
    sqlite_chatter.refused("POST", f"/v1/questions/{question}", 409, "conflict", json={"answer": "late"})
