"""The drain gate: an answer does not end a turn while its plan has open items."""

from pathlib import Path

from headway.actions.todos import todos
from headway.ledger.todo import Change
from tests.agents.turn_harness import complete_next, in_order, open_talk, plan_call
from tests.model_server import Reply, Request, calls, text

NOW = calls(("now", {}))


def test_an_answer_while_items_are_open_is_refused_and_never_shown(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Bake", "Frost"), text("All done!"), complete_next, complete_next, text("Really done."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        turn = talk.say()
        assert (turn["status"], turn["outcome"]) == ("finished", "drained")
        assert talk.list_event_data("refused") == [{"turn_id": turn["id"], "remaining": 2, "reason": "2 items are still open."}]
        assert talk.answers() == ["Really done."]
        assert "All done!" not in [data.get("content") for data in talk.list_event_data("message")]
        kinds = [kind for kind, _ in talk.events("refused", "todo_changed", "message", "turn_finished")]
        assert kinds.index("refused") < len(kinds) - 2
        assert kinds[-2:] == ["message", "turn_finished"]


def test_the_refusal_names_the_items_that_remain(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Bake", "Frost"), complete_next, text("Done!"), complete_next, text("Done."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        _, frost = talk.plan()
        answer, refusal = talk.server.requests[3].messages[-2:]
        assert (answer["role"], answer["content"]) == ("assistant", "Done!")
        assert refusal["role"] == "user"
        assert f"- {frost.id} [pending] Frost" in refusal["content"]
        assert "Bake" not in refusal["content"]
        assert "Not finished: 1 item of your plan is still open." in refusal["content"]


def test_the_third_refusal_without_a_change_ends_the_turn_honestly(database_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Bake", "Frost"), complete_next, text("One."), text("Two."), text("Three."))
    with open_talk(database_url, tmp_path, script) as talk:
        turn = talk.say()
        assert (turn["status"], turn["outcome"], turn["iterations"]) == ("finished", "incomplete", 5)
        assert [data["remaining"] for data in talk.list_event_data("refused")] == [1, 1, 1]
        (closing,) = (message for message in talk.messages() if message.role == "assistant")
        assert closing.kind == "closing"
        assert closing.content == (
            "The agent was stopped, because it made no progress with its plan. Its last answer was not accepted.\n\n"
            "Incomplete:\n- Frost"
        )
        assert [todo.status for todo in talk.plan()] == ["completed", "pending"]
        assert [todo["title"] for todo in talk.list_event_data("turn_finished")[0]["incomplete"]] == ["Frost"]


def test_a_change_to_the_list_restarts_the_count(sqlite_url: str, tmp_path: Path) -> None:
    idle = [text("Done."), text("Done!")]
    script = in_order(plan_call("Bake", "Frost"), *idle, complete_next, *idle, complete_next, text("Done indeed."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "drained"
        assert len(talk.list_event_data("refused")) == 4
        assert talk.answers() == ["Done indeed."]


def test_a_change_by_a_person_counts_too(sqlite_url: str, tmp_path: Path) -> None:
    def rename(_: Request) -> Reply:
        (bake,) = talk.plan()
        talk.database.write(lambda tx: todos.change_todo(tx, talk.tenant_id, bake.id, Change(subject="Bake bread")))
        return text("Done!")

    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Bake"), text("1"), text("2"), rename, text("4"), text("5"))) as talk:
        turn = talk.say()
        assert turn["outcome"] == "incomplete"
        assert len(talk.list_event_data("refused")) == 5


def test_items_a_person_ended_do_not_hold_up_the_answer(sqlite_url: str, tmp_path: Path) -> None:
    def drop(_: Request) -> Reply:
        (bake,) = talk.plan()
        talk.database.write(lambda tx: todos.end_todo(tx, talk.tenant_id, bake.id, "canceled"))
        return text("Never mind, then.")

    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Bake"), drop)) as talk:
        assert talk.say()["outcome"] == "drained"
        assert talk.list_event_data("refused") == []


def test_an_item_may_be_cancelled_with_its_reason(sqlite_url: str, tmp_path: Path) -> None:
    def cancel(request: Request) -> Reply:
        (bake,) = talk.plan()
        return calls(("complete_todo", {"todoId": bake.uuid, "outcome": "no flour", "status": "cancelled"}))

    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Bake"), cancel, text("There was no flour."))) as talk:
        assert talk.say()["outcome"] == "drained"
        assert [(todo.status, todo.outcome) for todo in talk.plan()] == [("canceled", "no flour")]


def test_an_empty_answer_is_sent_back(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(text(""), text("  \n"), text("Here I am."))) as talk:
        turn = talk.say()
        assert (turn["outcome"], turn["iterations"]) == ("answered", 3)
        assert talk.answers() == ["Here I am."]
        assert "empty" in talk.server.requests[1].last
        assert [(event["remaining"], event["reason"]) for event in talk.list_event_data("refused")] == [
            (0, "The answer was empty.")
        ] * 2


def test_empty_answers_only_end_the_turn_with_words_of_our_own(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        turn = talk.say()
        assert (turn["outcome"], turn["iterations"]) == ("incomplete", 3)
        assert [message.kind for message in talk.messages()] == ["text", "closing"]


def test_text_beside_tool_calls_is_shown(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(calls(("now", {}), text="Let me look."), text("It is late."))) as talk:
        talk.say()
        assert talk.answers() == ["Let me look.", "It is late."]


def test_watchers_hear_of_a_list_in_order(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Bake"), complete_next, text("Done."))) as talk:
        turn = talk.say()
        assert [kind for kind, _ in talk.events() if kind not in ("todo_changed", "cost_changed", "conversation_changed")] == [
            "turn_started",
            "message",
            *["tool_call", "tool_result", "todos_updated", "todos_current"] * 2,
            "message",
            "turn_finished",
        ]
        assert all(data.get("turn_id", turn["id"]) == turn["id"] for _, data in talk.events())


def test_calls_for_a_plan_that_does_not_exist_are_withdrawn(sqlite_url: str, tmp_path: Path) -> None:
    """A small model completes items of a plan that it never made. It is asked to answer instead, without its calls in view."""
    lost = calls(("complete_todo", {"todoId": "1", "outcome": "Done."}), ("start_todo", {"todoId": "2"}))
    with open_talk(sqlite_url, tmp_path, in_order(calls(("now", {})), lost, text("It is late."))) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [message["role"] for message in talk.server.requests[-1].messages[1:]] == ["user", "assistant", "tool", "user"]
        assert talk.server.requests[-1].last.startswith("There is no plan, and none is needed.")
        assert talk.list_event_data("refused")[0]["reason"] == "There is no plan to work on."
        assert [effect.tool for effect in talk.effects()] == ["now"]


def test_a_model_that_only_completes_what_does_not_exist_ends_the_turn(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, calls(("complete_todo", {"todoId": "1", "outcome": "Done."}))) as talk:
        assert talk.say()["outcome"] == "incomplete"
        assert len(talk.server.requests) == 3
