"""The messages of a sub-agent: its role, the envelope, its task and context, and nothing from any other agent."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.agents.instructions.roles import Roles
from tests.agents.sub_agent_harness import (
    await_calls,
    by_role,
    by_transcript,
    delegate_call,
    get_envelope,
    get_first_message,
    list_requests,
    list_tool_answers,
    raw_call,
)
from tests.agents.turn_harness import complete_next, list_callable, open_talk, plan_call
from tests.model_server import calls, text

SECRET = "the secret of the parent"
PLAN_TOOLS = {"create_todo", "list_todo", "complete_todo", "start_todo", "manage_todos"}
DELEGATING = {"delegate", "spawn_agent"}


def get_task_text(request: Any) -> str:
    return get_first_message(request).partition("[END DELEGATION CONTEXT]\n\n")[2]


def test_a_sub_agent_is_sent_its_role_the_envelope_and_its_task(database_url: str, tmp_path: Path) -> None:
    script = by_role(index=by_transcript(delegate_call("Dig.\nDeeply."), text("Dug.")), researcher=text("A hole."))
    with open_talk(database_url, tmp_path, script) as talk:
        assert talk.say("Have a hole dug.")["outcome"] == "answered"
        (request,) = list_requests(talk, "researcher")
        assert [message["role"] for message in request.messages] == ["system", "user"]
        assert request.system.startswith(Roles().find("researcher").prompt)
        assert get_first_message(request) == (
            "[DELEGATION CONTEXT]\nOriginal request: Have a hole dug.\nDelegated by: index\nPipeline depth: 1/2\n"
            "[END DELEGATION CONTEXT]\n\nDig.\nDeeply."
        )


def test_a_sub_agent_gets_neither_its_parents_transcript_nor_earlier_messages(sqlite_url: str, tmp_path: Path) -> None:
    index = by_transcript(
        text(f"Before: {SECRET}."),
        calls(("remember", {"text": "flour"}), ("now", {}), text=f"Let me see: {SECRET}."),
        calls(("delegate", {"agent": "writer", "task": "write"}), text=f"Aside: {SECRET}."),
        text("Written."),
    )
    with open_talk(sqlite_url, tmp_path, by_role(index=index, writer=text("A poem."))) as talk:
        talk.say(f"Earlier: {SECRET}.")
        talk.say("Have a poem written.")
        (request,) = list_requests(talk, "writer")
        assert SECRET not in json.dumps(request.messages)
        assert len(request.messages) == 2
        assert "Earlier" not in get_first_message(request)


def test_siblings_do_not_see_each_other(sqlite_url: str, tmp_path: Path) -> None:
    index = by_transcript(delegate_call("dig"), delegate_call("write", "writer"), text("Done."))
    script = by_role(index=index, researcher=by_transcript(calls(("now", {})), text("A deep hole.")), writer=text("A poem."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say("Do both.")
        (request,) = list_requests(talk, "writer")
        assert "hole" not in json.dumps(request.messages)
        assert "dig" not in get_first_message(request)
        assert [message["role"] for message in list_requests(talk, "researcher")[1].messages] == [
            "system",
            "user",
            "assistant",
            "tool",
        ]


def test_no_part_of_the_turns_plan_is_a_sub_agents_tool(sqlite_url: str, tmp_path: Path) -> None:
    index = by_transcript(plan_call("Dig"), delegate_call("dig"), complete_next, text("Dug."))
    with open_talk(sqlite_url, tmp_path, by_role(index=index, researcher=text("A hole."))) as talk:
        assert talk.say()["outcome"] == "drained"
        (request,) = list_requests(talk, "researcher")
        assert not PLAN_TOOLS & list_callable(request)
        assert {"AddTask", "remember", "recall"} <= list_callable(request)
        assert "[TURN CONTEXT] " not in get_first_message(request)
        assert not any(message.startswith("[TURN CONTEXT]") for message in request.texts)
        assert "create_todo" not in request.system


def test_sub_agents_may_delegate_above_the_depth_limit_and_not_at_it(sqlite_url: str, tmp_path: Path) -> None:
    script = by_role(
        index=by_transcript(delegate_call("dig"), text("Dug.")),
        researcher=by_transcript(delegate_call("shovel", "coder"), text("A hole.")),
        coder=by_transcript(delegate_call("deeper", "writer"), text("Shoveled.")),
    )
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say("Have a hole dug.")["outcome"] == "answered"
        upper, lower = list_requests(talk, "researcher")[0], list_requests(talk, "coder")[0]
        assert list_callable(upper) >= DELEGATING
        assert not (DELEGATING | {"await_agent", "check_agent", "cancel_agent"}) & list_callable(lower)
        assert "# Delegation" in upper.system
        assert "# Delegation" not in lower.system
        (result,) = list_tool_answers(list_requests(talk, "coder")[1], "delegate")
        assert "2 deep" in result["error"]
        assert get_envelope(lower) == ["Original request: Have a hole dug.", "Delegated by: researcher", "Pipeline depth: 2/2"]


def test_with_depth_zero_no_agent_delegates(sqlite_url: str, tmp_path: Path) -> None:
    index = by_transcript(delegate_call("dig"), text("I dig myself."))
    with open_talk(sqlite_url, tmp_path, by_role(index=index), agent_depth="0") as talk:
        assert talk.say()["outcome"] == "answered"
        assert not DELEGATING & list_callable(talk.server.requests[0])
        assert "error" in list_tool_answers(talk.server.requests[1], "delegate")[0]


def test_a_spawned_sub_agent_is_sent_the_context_it_was_given(sqlite_url: str, tmp_path: Path) -> None:
    contexts: dict[str, Any] = {
        "words": "Mind the pipes.\nAll of them.",
        "object": {"pipes": ["Wasser", "Gas – Öl"]},
        "list": [1, None],
        "number": 0,
        "empty": "",
        "bare": {},
        "none": None,
    }
    spawns = calls(*(("spawn_agent", {"task": task, "context": context, "role": "coder"}) for task, context in contexts.items()))
    with open_talk(
        sqlite_url, tmp_path, by_role(index=by_transcript(spawns, await_calls, text("Dug.")), coder=text("A hole."))
    ) as talk:
        talk.say()
        assert sorted(get_task_text(request) for request in list_requests(talk, "coder")) == [
            "bare",
            "empty",
            "list\n\nContext:\n[\n 1,\n null\n]",
            "none",
            "number\n\nContext:\n0",
            'object\n\nContext:\n{\n "pipes": [\n  "Wasser",\n  "Gas – Öl"\n ]\n}',
            "words\n\nContext:\nMind the pipes.\nAll of them.",
        ]


def test_a_role_of_ones_own_is_handed_work_like_any_other(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "digger.toml").write_text(
        'name = "digger"\ndescription = "Digs."\nprompt = "You are a digger."\ntier = "cheap"\ntools = ["now"]\nwrits = []\n'
    )
    index = by_transcript(delegate_call("dig", "digger"), text("Dug."))
    with open_talk(sqlite_url, tmp_path, by_role(index=index, own=text("A hole.")), model_cheap="openai-chat:cheap-1") as talk:
        talk.say()
        (request,) = list_requests(talk, "own")
        assert request.system.startswith("You are a digger.")
        assert request.tools == ["now", "read_result"]
        assert request.model == "cheap-1"
        assert list_tool_answers(talk.server.requests[-1], "delegate")[0]["summary"] == "A hole."


def test_an_unknown_role_is_an_answer_that_lists_the_known_ones(sqlite_url: str, tmp_path: Path) -> None:
    index = by_transcript(
        calls(("delegate", {"agent": "cook", "task": "cook"}), ("spawn_agent", {"task": "cook", "role": "cook"})), text("No.")
    )
    with open_talk(sqlite_url, tmp_path, by_role(index=index)) as talk:
        assert talk.say()["outcome"] == "answered"
        for tool in ("delegate", "spawn_agent"):
            (result,) = list_tool_answers(talk.server.requests[-1], tool)
            assert "cook" in result["error"]
            assert "researcher, coder, writer, reviewer" in result["error"]
        assert talk.list_event_data("agent_changed") == []


def test_the_text_of_a_sub_agent_is_not_streamed_to_people(sqlite_url: str, tmp_path: Path) -> None:
    script = by_role(
        index=by_transcript(delegate_call("dig"), text("Dug.")),
        researcher=by_transcript(calls(("now", {}), text="Hm."), text("A hole.")),
    )
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say("Dig.")
        assert [message.content for message in talk.messages()] == ["Dig.", "Dug."]
        assert [event["content"] for event in talk.list_event_data("message")] == ["Dig.", "Dug."]


# Characters that no database can store

UNSTORABLE = (
    ("delegate", '{"agent": "researcher", "task": "dig BAD"}'),
    ("delegate", '{"agent": "BAD", "task": "dig"}'),
    ("delegate", '{"agent": "researcher", "task": "dig", "todoId": "BAD"}'),
    ("spawn_agent", '{"task": "dig BAD", "context": {}}'),
    ("spawn_agent", '{"task": "dig", "context": "BAD"}'),
    ("spawn_agent", '{"task": "dig", "context": {"half": ["\\ud800"]}}'),
    ("await_agent", '{"run_id": "BAD"}'),
    ("check_agent", '{"run_id": "BAD"}'),
    ("cancel_agent", '{"run_id": "BAD"}'),
)


@pytest.mark.parametrize("bad", ["\\u0000", "\\ud800"])
def test_unstorable_arguments_are_answered_with_an_error(database_url: str, tmp_path: Path, bad: str) -> None:
    bad_calls = calls(*(raw_call(tool, arguments.replace("BAD", bad)) for tool, arguments in UNSTORABLE))
    with open_talk(database_url, tmp_path, by_role(index=by_transcript(bad_calls, text("Oh.")))) as talk:
        assert talk.say()["outcome"] == "answered"
        answers = [json.loads(result.content) for result in talk.server.requests[1].tool_results]
        assert [list(answer) for answer in answers] == [["error"]] * len(UNSTORABLE)
        assert talk.list_event_data("agent_changed") == []
