"""The limits of a turn, and how it ends when it reaches one."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.turn_harness import Talk, complete_next, in_order, list_open_ids, open_talk, plan_call
from tests.model_server import Reply, Request, Script, calls, text

NOW = calls(("now", {}))
ENDLESS = [plan_call("Bake", "Frost"), *[NOW] * 60]


def get_limits(talk: Talk) -> tuple[str, int, int]:
    turn = talk.turn()
    return turn["outcome"], turn["iterations"], turn["limit"]


def test_a_simple_question_is_answered_at_once(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("Hello.")) as talk:
        turn = talk.say("Hi!")
        assert turn["status"] == "finished"
        assert get_limits(talk) == ("answered", 1, 10)
        assert [(message.role, message.content) for message in talk.messages()] == [("user", "Hi!"), ("assistant", "Hello.")]
        assert talk.list_event_data("turn_finished") == [{"turn_id": turn["id"], "outcome": "answered", "incomplete": []}]


def test_a_turn_without_a_plan_ends_after_ten_steps(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        talk.say()
        assert get_limits(talk) == ("limit", 10, 10)
        assert len(talk.server.requests) == 10
        assert "10 steps" in talk.answers()[-1]
        assert talk.list_event_data("turn_finished")[0]["incomplete"] == []


def test_open_items_extend_the_limit_to_ten_more_steps_from_where_the_turn_is(sqlite_url: str, tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []

    def record(reply: Reply | None = None) -> Script:
        def script(request: Request) -> Reply:
            row = talk.run_row()
            progress.append((row.iterations, row.limit))
            return reply or complete_next(request)

        return script

    script = in_order(
        record(plan_call("Bake", "Frost")), record(NOW), record(), record(NOW), record(), record(NOW), record(text("Eat."))
    )
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        assert progress == [(0, 10), (1, 11), (2, 12), (3, 13), (4, 14), (5, 14), (6, 14)]
        assert get_limits(talk) == ("drained", 7, 14)


def test_a_turn_with_open_items_still_ends_after_fifty_steps(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(*ENDLESS)) as talk:
        turn = talk.say()
        assert get_limits(talk) == ("incomplete", 50, 50)
        assert len(talk.server.requests) == 50
        assert [todo.status for todo in talk.plan()] == ["pending", "pending"]
        open_items = [{"id": todo.id, "title": todo.subject, "status": "pending"} for todo in talk.plan()]
        assert turn["incomplete"] == talk.list_event_data("turn_finished")[0]["incomplete"] == open_items
        assert talk.answers()[-1].endswith("Incomplete:\n- Bake\n- Frost")


def test_the_next_turn_does_not_touch_open_items_of_the_last_one(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Bake"), NOW, NOW, text("What else?"))
    options: dict[str, Any] = {"max_iterations": "3", "max_iterations_with_plan": "3"}
    with open_talk(sqlite_url, tmp_path, script, **options) as talk:
        talk.say("A cake!")
        open_items = talk.plan()
        turn = talk.say("Hello?")
        assert (turn["outcome"], turn["incomplete"]) == ("answered", [])
        assert talk.database.read(lambda tx: tx.all("SELECT subject, status, updated_at FROM todos")) == [
            ("Bake", "pending", open_items[0].updated_at)
        ]
        assert not any("TURN CONTEXT" in message for message in talk.server.requests[-1].texts[1:])


def test_a_turn_that_continues_another_makes_a_plan_of_its_own(sqlite_url: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_iterations": "2", "max_iterations_with_plan": "4"}
    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Bake"), NOW, NOW, NOW), **options) as talk:
        talk.say("A cake!")
        open_items = talk.plan()
        talk.server.script = in_order(plan_call("Bake it now"), complete_next, text("Baked."))
        turn = talk.say("Go on.")
        assert turn["outcome"] == "drained"
        assert [todo.subject for todo in talk.plan()] == ["Bake it now"]
        assert [todo.status for todo in open_items] == ["pending"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_iterations": "3", "max_iterations_with_plan": "7"}, ("incomplete", 7, 7)),
        ({"max_iterations": "12", "max_iterations_with_plan": "7"}, ("incomplete", 12, 12)),
    ],
)
def test_the_limits_are_settings(sqlite_url: str, tmp_path: Path, options: dict[str, Any], expected: tuple[str, int, int]) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(*ENDLESS), **options) as talk:
        talk.say()
        assert get_limits(talk) == expected


def test_the_limit_without_a_plan_is_a_setting(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MAX_ITERATIONS", "2")
    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        talk.say()
        assert get_limits(talk) == ("limit", 2, 2)


def test_a_plan_that_was_drained_extends_nothing_any_more(sqlite_url: str, tmp_path: Path) -> None:
    def drain(request: Request) -> Reply:
        return calls(*(("complete_todo", {"todoId": todo_id, "outcome": "done"}) for todo_id in list_open_ids(request)))

    with open_talk(sqlite_url, tmp_path, in_order(plan_call("a", "b"), drain, *[NOW] * 20)) as talk:
        talk.say()
        assert get_limits(talk) == ("limit", 11, 11)
