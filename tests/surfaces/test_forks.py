"""Forks and comparisons over REST and in the shell."""

import json
from typing import Any

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from tests.model_server import ModelServer, calls, text
from tests.surfaces.conversation_client import list_messages, messages_path, reply_in_order, say, wait_for_turn
from tests.surfaces.server_harness import Client, check_problem
from tests.surfaces.shell import Shell, get_error_line


def test_a_turn_and_a_conversation_are_forked_and_compared(sqlite_chatter: Client, model: ModelServer) -> None:
    conversation = sqlite_chatter.conversation()
    model.script = reply_in_order(
        calls(("calculate", {"expression": "1+1"})),
        text("Two."),
        text("Three."),
        text("Four."),
        calls(("ListTasks", {})),
    )
    turn_id = say(sqlite_chatter, conversation, "How much?")
    wait_for_turn(sqlite_chatter, turn_id)

    forked = sqlite_chatter.ok("POST", f"/v1/turns/{turn_id}/fork", 201, json={"at": 1})["turn"]
    assert (forked["forked_from"], forked["status"]) == ({"turn_id": turn_id, "at": 1}, "running")
    assert wait_for_turn(sqlite_chatter, forked["id"])["outcome"] == "answered"
    assert list_messages(sqlite_chatter, forked["conversation_id"]) == [("user", "How much?"), ("assistant", "Three.")]

    (question, _) = sqlite_chatter.ok("GET", messages_path(conversation))["messages"]
    body = {"at": question["id"], "message": "How many?"}
    answer = sqlite_chatter.ok("POST", f"/v1/conversations/{conversation}/fork", 201, json=body)
    assert list(answer) == ["conversation", "turn"]
    assert (answer["turn"]["request"], answer["turn"]["conversation_id"]) == ("How many?", answer["conversation"]["id"])
    wait_for_turn(sqlite_chatter, answer["turn"]["id"])
    stopped = sqlite_chatter.ok("POST", f"/v1/turns/{turn_id}/fork", 201, json={"at": 0})["turn"]
    assert wait_for_turn(sqlite_chatter, stopped["id"])["outcome"] == "needs_live"

    diff = sqlite_chatter.ok("GET", f"/v1/turns/{turn_id}/diff/{forked['id']}")["diff"]
    assert (diff["diverged_at"], [step["same"] for step in diff["steps"]]) == (2, [True, False])
    assert (diff["a"]["answer"], diff["b"]["answer"], diff["b"]["forked_from"]["at"]) == ("Two.", "Three.", 1)
    call = diff["steps"][0]["b"]["calls"][0]
    assert (call["tool"], json.loads(call["result"]), call["replayed"]) == ("calculate", {"result": 2}, True)
    assert sqlite_chatter.ok("GET", f"/v1/turns/{turn_id}/diff/{turn_id}")["diff"]["diverged_at"] is None

    path = f"/v1/turns/{turn_id}/fork"
    for wrong, detail in [
        ({"at": 9}, "at must be between 0 and 2"),
        ({"at": 0, "model": "nonsense"}, "provider:name"),
        ({"at": 0, "role": "nobody"}, "Unknown role"),
        ({"at": -1}, "at"),
        ({}, "at"),
    ]:
        assert detail in check_problem(sqlite_chatter.post(path, json=wrong), 422), wrong


def test_a_goal_is_forked(sqlite_client: Client) -> None:
    goal = sqlite_client.desk.write(goals.add_goal, NewGoal("peace"))
    forked: dict[str, Any] = sqlite_client.ok("POST", f"/v1/goals/{goal.id}/fork", 201, json={"at": 1, "message": "quiet"})["goal"]
    assert (forked["description"], forked["forked_from"]) == ("quiet", {"goal_id": goal.id, "at": 1})
    problem = check_problem(sqlite_client.post(f"/v1/goals/{goal.id}/fork", json={"at": 99}), 422)
    assert "the number of journal entries" in problem


def test_the_shell_shows_forks_and_compares_turns(talker: Shell, model: ModelServer) -> None:
    script = [calls(("calculate", {"expression": "1+1"})), text("Two."), text("Three."), calls(("ListTasks", {})), text("Again.")]
    model.script = reply_in_order(*script)
    turn_id = json.loads(talker("chat", "How much?", "--json").out)["turn"]["id"]

    shown = talker.ok("turn", "show", turn_id).splitlines()
    assert shown[1:] == ['  1  calculate {"expression": "1+1"}', "  2  Two."]

    forked = talker("turn", "fork", turn_id, "--at", "1")
    assert (forked.code, forked.out) == (0, "Three.\n")
    fork_id = forked.err.split()[1]
    lines = talker.ok("turn", "diff", turn_id, fork_id).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "They diverge at step 2."
    assert any(line.startswith("≠ 2  Two.") and "≠ 2  Three." in line for line in lines)

    stopped = talker("turn", "fork", turn_id, "--at", "0")
    assert (stopped.code, "it would have needed the real world: ListTasks {}" in stopped.err) == (6, True)

    messages = json.loads(talker.ok("conversation", "show", "1", "--json"))["messages"]
    again = talker("conversation", "fork", "1", "--at", str(messages[0]["id"]), "--json")
    assert (again.code, json.loads(again.out)["messages"][-1]["content"]) == (0, "Again.")

    wrong = talker("turn", "fork", turn_id, "--at", "9")
    assert "at must be between 0 and 2" in get_error_line(wrong, 2)
