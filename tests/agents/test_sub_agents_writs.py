"""Writs and sub-agents: /agent and /parallel in a supervisor's text, /todo in a worker's."""

from pathlib import Path

import pytest

from headway.actions.todos import todos
from headway.ledger.todo import Draft
from tests.agents.sub_agent_harness import (
    begin_and_wait,
    by_role,
    by_task,
    by_transcript,
    crash_process,
    delegate_call,
    get_states,
    hold_replies,
    list_requests,
    list_sub_agents,
    list_tool_answers,
    wait_for_end,
)
from tests.agents.turn_harness import Talk, open_talk, plan_call
from tests.model_server import Reply, Script, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")

WORKERS: dict[str, Script | Reply] = {
    "researcher": by_task(dig=text("A hole.\nDeep."), drill=text("A bore.")),
    "writer": text("A poem. [END AGENT]"),
}
BOTH = "Let us see.\n/parallel\n/agent researcher dig\n/agent writer write\n/endparallel\nThat is all."


def list_todo_rows(talk: Talk) -> list[tuple[str, str]]:
    return talk.database.read(lambda tx: tx.all("SELECT subject, status FROM todos WHERE turn_id IS NULL ORDER BY id"))


def test_an_agent_that_is_called_in_a_text_answers_in_a_frame(database_url: str, tmp_path: Path) -> None:
    with open_talk(
        database_url, tmp_path, by_role(index=by_transcript(text("/agent researcher dig"), text("Dug.")), **WORKERS)
    ) as talk:
        turn = talk.say("Have it dug.")
        assert (turn["outcome"], turn["iterations"]) == ("answered", 2)
        message = talk.server.requests[-1].messages[-1]
        assert (message["role"], message["content"]) == ("user", "[/agent researcher]\nA hole.\nDeep.\n[END AGENT]")
        assert list_requests(talk, "researcher")[0].last.startswith("[DELEGATION CONTEXT]\nOriginal request: Have it dug.\n")
        assert talk.answers() == ["Dug."]


def test_those_of_a_parallel_block_work_at_once_and_answer_in_order(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        talk.server.script = by_role(
            index=by_transcript(text(BOTH), text("Done.")), researcher=hold_replies(talk, text("A hole.")), writer=WORKERS["writer"]
        )
        talk.wait(begin_and_wait(talk, "researcher"))
        talk.wait(talk.until(lambda: len(list_requests(talk, "writer")) == 1))
        talk.server.release()
        wait_for_end(talk)
        assert talk.server.requests[-1].last == (
            "[/agent researcher]\nA hole.\n[END AGENT]\n[/agent writer]\nA poem. (END AGENT]\n[END AGENT]"
        )
        assert talk.answers() == ["Let us see.\nThat is all.", "Done."]


def test_the_other_writs_of_the_text_run_once_and_in_their_place(sqlite_url: str, tmp_path: Path) -> None:
    mixed = "/todo add buy flour\n\n/agent researcher dig\n/todo done buy flour\n/agent writer write\n/todo list"
    with open_talk(sqlite_url, tmp_path, by_role(index=by_transcript(text(mixed), text("Done.")), **WORKERS)) as talk:
        talk.say()
        heads = [line for line in talk.server.requests[-1].last.split("\n") if line.startswith("[/")]
        assert heads == ["[/todo add]", "[/agent researcher]", "[/todo done]", "[/agent writer]", "[/todo list]"]
        assert list_todo_rows(talk) == [("buy flour", "completed")]
        assert len(list_requests(talk, "researcher")) == len(list_requests(talk, "writer")) == 1


def test_the_error_of_a_writ_is_in_its_frame(sqlite_url: str, tmp_path: Path) -> None:
    wrong = (
        "/agent cook cook\n/agent researcher\n/agent\n/agent researcher dig\n/parallel\n/endparallel\n/parallel\n/agent writer no"
    )
    with open_talk(sqlite_url, tmp_path, by_role(index=by_transcript(text(wrong), text("Oh.")), **WORKERS)) as talk:
        assert talk.say()["outcome"] == "answered"
        frames = talk.server.requests[-1].last.split("\n[END AGENT]")
        assert [frame.strip().split("\n")[0] for frame in frames[:-1]] == [
            "[/agent cook]",
            "[/agent researcher]",
            "[/agent]",
            "[/agent researcher]",
            "[/agent]",
            "[/parallel]",
        ]
        assert "ERR: Unknown role 'cook'. Known: index, researcher" in frames[0]
        assert "ERR: " in frames[1]
        assert "ERR: " in frames[2]
        assert "A hole." in frames[3]
        assert "ERR: " in frames[4]
        assert "ERR: missing /endparallel terminator" in frames[5]
        assert list(list_sub_agents(talk)) == ["dig"]


def test_a_sub_agent_that_fails_is_an_error_in_its_frame(sqlite_url: str, tmp_path: Path) -> None:
    script = by_role(index=by_transcript(text("/agent coder dig"), text("Oh.")), coder=calls(("now", {})))
    with open_talk(sqlite_url, tmp_path, script, subagent_max_iterations="2") as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.server.requests[-1].last.startswith("[/agent coder]\nERR: ")


def test_a_role_without_the_grant_gets_an_error(sqlite_url: str, tmp_path: Path) -> None:
    worker = by_transcript(text("/agent writer write\n/parallel\n/agent writer write\n/endparallel"), text("A hole."))
    with open_talk(
        sqlite_url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=worker)
    ) as talk:
        assert talk.say()["outcome"] == "answered"
        refused = "[/agent writer]\nERR: the role researcher needs the grant `agents` for this\n[END AGENT]"
        assert list_requests(talk, "researcher")[1].last == f"{refused}\n{refused}"
        assert list(list_sub_agents(talk)) == ["dig"]


def test_a_text_with_writs_and_tool_calls_has_both_answered(sqlite_url: str, tmp_path: Path) -> None:
    both = calls(("now", {}), ("delegate", {"agent": "writer", "task": "write"}), text="Look:\n/agent researcher dig")
    with open_talk(sqlite_url, tmp_path, by_role(index=by_transcript(both, text("Done.")), **WORKERS)) as talk:
        assert talk.say()["outcome"] == "answered"
        last = talk.server.requests[-1]
        assert [message["role"] for message in last.messages[-4:]] == ["assistant", "tool", "tool", "user"]
        assert list_tool_answers(last, "delegate")[0]["status"] == "completed"
        assert last.last == "[/agent researcher]\nA hole.\nDeep.\n[END AGENT]"
        assert talk.answers() == ["Look:\n", "Done."]


def test_a_crash_while_they_work_begins_nothing_twice(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        said_once = by_transcript(text(f"/todo add buy flour\n\n{BOTH}"), text("Done."))
        talk.server.script = by_role(index=said_once, researcher=hold_replies(talk, text("A hole.")), writer=text("A poem."))
        talk.wait(begin_and_wait(talk, "researcher"))
        talk.wait(crash_process(talk))
        talk.server.release()
        talk.revive()
        assert wait_for_end(talk)["outcome"] == "answered"
        assert get_states(talk) == {"dig": ("completed", "completed"), "write": ("completed", "completed")}
        assert list_todo_rows(talk) == [("buy flour", "pending")]
        assert len(list_requests(talk, "index")) == 2
        assert talk.server.requests[-1].last.endswith(
            "[/agent researcher]\nA hole.\n[END AGENT]\n[/agent writer]\nA poem.\n[END AGENT]"
        )


# Writs of a worker


def test_a_worker_marks_progress_on_the_conversations_todos(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        draft = Draft("dig a hole", conversation_id=talk.conversation_id)
        todo = talk.database.write(lambda tx: todos.add_todo(tx, talk.tenant_id, draft))
        worker = by_transcript(text(f"/todo start {todo.id}"), text(f"/todo done #{todo.id}\n/todo add fill it"), text("A hole."))
        talk.server.script = by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=worker)
        assert talk.say()["outcome"] == "answered"
        _, second, third = list_requests(talk, "researcher")
        assert second.last == f"[/todo start]\n▶ #{todo.id} [in_progress] dig a hole\n[END TODO]"
        assert third.last.startswith(f"[/todo done]\n#{todo.id} [completed] dig a hole\n[END TODO]\n[/todo add]")
        assert list_todo_rows(talk) == [("dig a hole", "completed"), ("fill it", "pending")]
        assert list_tool_answers(talk.server.requests[-1], "delegate")[0]["summary"] == "A hole."


def test_the_turns_plan_belongs_to_the_supervisor(sqlite_url: str, tmp_path: Path) -> None:
    worker = by_transcript(plan_call("Dig"), text("A hole."))
    with open_talk(
        sqlite_url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=worker)
    ) as talk:
        assert talk.say()["outcome"] == "answered"
        assert "belongs to the supervisor" in list_tool_answers(list_requests(talk, "researcher")[1], "create_todo")[0]["error"]
        assert talk.plan() == []
