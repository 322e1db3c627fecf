"""The limits of a turn, and how it ends when it reaches one."""

from pathlib import Path
from typing import Any

import pytest

from headway.actions.turns import plan
from headway.ledger.scope import Scope
from tests.agents.turn_harness import STRONG, Talk, complete_next, in_order, list_open_ids, open_talk, plan_call
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
        assert [data | {"duration_s": 0} for data in talk.list_event_data("turn_finished")] == [
            {
                "turn_id": turn["id"],
                "outcome": "answered",
                "incomplete": [],
                "models": [STRONG],
                "usage": turn["usage"],
                "duration_s": 0,
            }
        ]


def test_a_turn_without_a_plan_ends_after_ten_steps_and_a_summary(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(*[NOW] * 10, text("It is late."))) as talk:
        talk.say()
        assert get_limits(talk) == ("limit", 10, 10)
        *steps, last = talk.server.requests
        assert len(steps) == 10
        assert all("tool_choice" not in step.body or step.body["tool_choice"] == "auto" for step in steps)
        assert last.body["tool_choice"] == "none"
        assert last.body["tools"] == steps[-1].body["tools"]  # so that a provider's cache still has the beginning
        assert last.last.startswith("You have reached the step limit of this task.")
        assert talk.answers() == ["It is late.", "The agent was stopped after 10 steps, which is the limit."]
        assert talk.list_event_data("turn_finished")[0]["incomplete"] == []


def test_calls_of_the_last_answer_are_not_made(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        talk.say()
        assert get_limits(talk) == ("limit", 10, 10)
        assert len(talk.server.requests) == 11
        assert len(talk.effects()) == 10
        assert talk.answers() == ["The agent was stopped after 10 steps, which is the limit."]


def test_a_long_plan_can_be_completed_as_prescribed(sqlite_url: str, tmp_path: Path) -> None:
    """Three steps per item and ten more, where that is more than the limit of 50."""

    def work(request: Request) -> Reply:
        if not request.calls:
            return plan_call(*(f"Step {n}" for n in range(20)))
        if not (open_ids := list_open_ids(request)):
            return text("All done.")
        if request.calls[-1].name in ("create_todo", "complete_todo"):
            return calls(("start_todo", {"todoId": open_ids[0]}))
        if request.calls[-1].name == "start_todo":
            return NOW
        return calls(("complete_todo", {"todoId": open_ids[0], "outcome": "done"}))

    with open_talk(sqlite_url, tmp_path, work) as talk:
        assert talk.say()["outcome"] == "drained"
        assert talk.turn()["iterations"] == 1 + 3 * 20 + 1
        assert {todo.status for todo in talk.plan()} == {"completed"}


def test_a_role_file_sets_the_number_of_steps(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "index.toml").write_text("steps = 4")
    with open_talk(sqlite_url, tmp_path, in_order(*ENDLESS)) as talk:
        talk.say()
        assert get_limits(talk) == ("incomplete", 4, 4)


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
        assert len(talk.server.requests) == 51
        assert [todo.status for todo in talk.plan()] == ["pending", "pending"]
        open_items = [{"id": todo.id, "title": todo.subject, "status": "pending"} for todo in talk.plan()]
        assert turn["incomplete"] == talk.list_event_data("turn_finished")[0]["incomplete"] == open_items
        assert talk.answers()[-1].endswith("Incomplete:\n- Bake\n- Frost")


def test_the_next_turn_does_not_touch_open_items_of_the_last_one(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Bake"), NOW, NOW, text("I could not."), text("What else?"))
    options: dict[str, Any] = {"max_iterations": "3", "max_iterations_with_plan": "3"}
    with open_talk(sqlite_url, tmp_path, script, **options) as talk:
        talk.say("A cake!")
        open_items = talk.plan()
        turn = talk.say("Hello?")
        assert (turn["outcome"], turn["incomplete"]) == ("answered", [])
        assert talk.database.read(lambda tx: tx.all("SELECT subject, status, updated_at FROM todos")) == [
            ("Bake", "pending", open_items[0].updated_at)
        ]
        assert not any("[TURN CONTEXT]" in message for message in talk.server.requests[-1].texts[1:])


def test_a_turn_that_continues_another_makes_a_plan_of_its_own(sqlite_url: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_iterations": "2", "max_iterations_with_plan": "4"}
    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Bake"), NOW, NOW, NOW, text("Not yet.")), **options) as talk:
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


def test_items_that_the_agent_adds_extend_the_limit_by_fifty_steps_in_all(sqlite_url: str, tmp_path: Path) -> None:
    def add_for_ever(request: Request) -> Reply:
        if len(talk.server.requests) == 3:  # a person adds items, which count in full: 3 steps for each of 21, and 10
            items = [plan.PlanItem(f"Cake {number}") for number in range(20)]
            scope, turn_id = Scope(talk.tenant_id, talk.conversation_id), talk.turn()["id"]
            talk.database.write(lambda tx: plan.create_plan(tx, scope, turn_id, items))
        return plan_call(f"Cake of step {len(talk.server.requests)}")

    with open_talk(sqlite_url, tmp_path, add_for_ever) as talk:
        talk.say()
        assert get_limits(talk) == ("incomplete", 73 + 50, 73 + 50)
        assert talk.answers()[-1].startswith(
            "The agent was stopped after 123 steps, which is the limit. "
            "It added 122 items to its plan while it worked, which give at most 50 more.\n"
        )


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
