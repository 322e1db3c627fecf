"""Writs in an agent's text: run when the answer is complete, reported back to the agent, and hidden from users."""

from pathlib import Path

from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.actions.todos import todos
from headway.ledger.todo import Draft
from tests.agents.turn_harness import CHEAP_TIER, Talk, complete_next, in_order, open_talk, plan_call, tiers
from tests.model_server import Reply, calls, drop, error, pause_midway, text

ADD = text("I will write it down.\n/todo add buy flour\n\nDone with that.")


def list_subjects(talk: Talk) -> list[tuple[str, str]]:
    return talk.database.read(lambda tx: tx.all("SELECT subject, status FROM todos WHERE turn_id IS NULL ORDER BY id"))


def test_a_writ_runs_and_its_result_goes_back_to_the_model(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(ADD, text("All set."))) as talk:
        turn = talk.say()
        assert (turn["outcome"], turn["iterations"]) == ("answered", 2)
        assert list_subjects(talk) == [("buy flour", "pending")]
        message = talk.server.requests[1].messages[-1]
        assert message["role"] == "user"
        assert message["content"].startswith("[/todo add]\nadded #")
        assert message["content"].endswith("[pending] buy flour\n[END TODO]")
        assert talk.answers() == ["I will write it down.\n\nDone with that.", "All set."]


def test_an_answer_of_nothing_but_a_writ_never_ends_the_turn(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(
        sqlite_url, tmp_path, in_order(text("/todo add buy flour"), text("/todo list"), text("One thing to buy."))
    ) as talk:
        assert talk.say()["iterations"] == 3
        assert talk.answers() == ["One thing to buy."]
        assert "1 open (0 in progress, 1 pending):" in talk.server.requests[2].last


def test_a_scheduled_turn_works_on_the_todos_that_a_person_left(database_url: str, tmp_path: Path) -> None:
    """001: "a /schedule-fired run can pick up the same todos a human-driven turn left behind", and "a scheduled run that fires
    /todo done <id> as it finishes each step gives the human a passive progress feed"."""
    with open_talk(database_url, tmp_path, text(""), sweeping=True) as talk:
        draft = Draft("write the post-mortem", conversation_id=talk.conversation_id)
        todo = talk.database.write(lambda tx: todos.add_todo(tx, talk.tenant_id, draft))
        replies = (text("/todo list"), text(f"/todo start {todo.id}"), text(f"/todo done {todo.id}"), text("Written."))
        talk.server.script = in_order(*replies)
        work = {"message": {"conversation_id": talk.conversation_id, "content": "Go on with what is open."}}
        talk.database.write(lambda tx: schedules.put(tx, talk.tenant_id, "nightly", Timing(every_ms=3_600_000), work))
        talk.database.write(lambda tx: schedules.run_now(tx, talk.tenant_id, "nightly"))
        talk.headway.nudge()
        talk.wait(talk.until(lambda: bool(talk.list_event_data("turn_finished"))))
        assert f"#{todo.id} [pending] write the post-mortem" in talk.server.requests[1].last
        progress = [event["todo"]["status"] for event in talk.list_event_data("todo_changed")]
        assert progress == ["pending", "in_progress", "completed"]


def test_streamed_text_never_contains_part_of_a_writ(sqlite_url: str, tmp_path: Path) -> None:
    written = "Hello.\n/todo add buy flour\nbrown\n/endtodo\nA path: /usr/bin\n/todo list\n/to be or not"
    with open_talk(sqlite_url, tmp_path, in_order(pause_midway(text(written)), text("Bye."))) as talk:
        talk.say()
        streamed = talk.read_streamed_text()
        assert "/todo" not in streamed
        assert "flour" not in streamed
        assert streamed == "Hello.\nA path: /usr/bin\n/to be or notBye."
        assert not any("/todo" in chunk["text"] or chunk["text"].endswith("/") for chunk in talk.headway.streamed)
        assert talk.answers() == ["Hello.\nA path: /usr/bin\n/to be or not", "Bye."]


def test_a_writ_beside_tool_calls_is_run_after_them(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(calls(("now", {}), text="Look:\n/todo add buy flour"), text("Bought."))) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [message["role"] for message in talk.server.requests[1].messages[-3:]] == ["assistant", "tool", "user"]
        assert "buy flour" in talk.server.requests[1].last
        assert talk.answers() == ["Look:\n", "Bought."]


def test_a_writ_that_is_wrong_says_why(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(text("/todo done 404"), text("/todo add a\nno end"), text("Oh."))) as talk:
        talk.say()
        assert "ERR: " in talk.server.requests[1].last
        assert "ERR: missing /endtodo terminator" in talk.server.requests[2].last
        assert list_subjects(talk) == []


def test_a_writ_in_a_fence_is_text(sqlite_url: str, tmp_path: Path) -> None:
    written = "Write this:\n```\n/todo add buy flour\n```\n"
    with open_talk(sqlite_url, tmp_path, text(written)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.answers() == [written]
        assert list_subjects(talk) == []


def test_a_role_without_the_grant_gets_an_error(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "index.toml").write_text("writs = []\n")
    with open_talk(sqlite_url, tmp_path, in_order(text("/todo add buy flour"), text("Oh."))) as talk:
        talk.say()
        assert "needs the grant" in talk.server.requests[1].last
        assert list_subjects(talk) == []


def test_a_writ_that_was_cut_off_runs_once_it_is_whole(sqlite_url: str, tmp_path: Path) -> None:
    cut_off, rest = Reply("Hm.\n/todo add buy fl", finish="length"), text("our\n\nThat is all.")
    with open_talk(sqlite_url, tmp_path, in_order(cut_off, rest, text("All set."))) as talk:
        talk.say()
        assert list_subjects(talk) == [("buy flour", "pending")]
        assert "/todo" not in "".join(talk.answers())


def test_writs_next_to_a_cut_off_call_are_not_run(sqlite_url: str, tmp_path: Path) -> None:
    cut_off = calls(("now", {}), text="Hm.\n/todo add buy flour\n\nand the", finish="length")
    with open_talk(sqlite_url, tmp_path, tiers(in_order(cut_off, text("end.")), text("Sum.")), model_cheap=CHEAP_TIER) as talk:
        talk.say()
        assert list_subjects(talk) == []
        assert "/todo" not in "".join(talk.answers())


def test_a_writ_of_an_answer_that_broke_off_runs_once(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(drop("/todo add buy flour\n\nand so on and on"), error(503), ADD, text("All set."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        assert list_subjects(talk) == [("buy flour", "pending")]


def test_writs_do_not_get_around_the_drain_gate(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Bake"), text("/todo list"), text("Done!"), complete_next, text("Done."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "drained"
        assert len(talk.list_event_data("refused")) == 1
        assert talk.answers() == ["Done."]


def test_a_model_that_only_speaks_in_writs_meets_the_limit(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("/todo list"), max_iterations="3") as talk:
        turn = talk.say()
        assert (turn["outcome"], turn["iterations"]) == ("limit", 3)
