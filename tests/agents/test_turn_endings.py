"""How a turn ends early: what is stored and sent to the model later, and how the next turn continues its plan."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headway.actions.engine import run_ends
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.actions.turns.live_text import PartialAnswer
from headway.ledger.errors import Conflict, HeadwayError, Invalid, NotFound, TurnRunning
from headway.ledger.tenancy import Turn
from headway.storage.stores import conversations as conversation_store
from tests.agents.test_steering import send
from tests.agents.turn_harness import Talk, complete_next, in_order, open_talk, plan_call, queue_call
from tests.model_server import Reply, Request, calls, pause_midway, text

LIE = "All done! Everything is tested and deployed."


def list_sent(request: Request) -> list[tuple[str, str]]:
    return [(message["role"], str(message.get("content") or "")) for message in request.messages[1:]]


def list_said(talk: Talk) -> list[tuple[str, str]]:
    return [(message.kind, message.content) for message in talk.messages() if message.role == "assistant"]


def continue_turn(talk: Talk, turn_id: str) -> dict[str, Any]:
    """Continue the plan of a turn, as a surface does, and wait for the end."""

    async def run() -> None:
        headway = talk.headway
        begin = partial(headway.begin_turn, continues=turn_id)
        job = await headway.database.of(talk.tenant_id).write(
            lambda tx: begin(tx, talk.tenant_id, talk.conversation_id, turns.CONTINUE_REQUEST)
        )
        talk.run = talk.run_row()._replace(id=job.id, turn_id=turns.get_turn_id(job))
        headway.engine.take(job)
        await talk.wait_until_ended(headway.engine.tasks[job.id])

    talk.wait(run())
    return talk.turn()


# A refused answer


def test_a_refused_answer_is_neither_stored_nor_sent_again_as_the_answer(database_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Test", "Deploy"), text("One."), text("Two."), text(LIE), text("Hello again."))
    with open_talk(database_url, tmp_path, script) as talk:
        turn = talk.say()
        assert turn["outcome"] == "incomplete"
        ((kind, closing),) = list_said(talk)
        assert kind == "closing"
        assert closing.endswith("Incomplete:\n- Test\n- Deploy")
        assert [data["kind"] for data in talk.list_event_data("message")] == ["text", "closing"]
        assert turn["answer"] == closing
        talk.say("Hello?")
        sent = list_sent(talk.requests[-1])
        assert LIE not in [content for _, content in sent]
        assert sent[-2:] == [
            ("user", f"The runtime ended the turn above with this message to the user:\n\n{closing}"),
            ("user", "Hello?"),
        ]


def test_a_refused_answer_is_not_shown_when_a_person_has_sent_a_message(sqlite_url: str, tmp_path: Path) -> None:
    def lie(_: Request) -> Reply:
        send(talk, "Skip the tests.")
        return text(LIE)

    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        talk.server.script = in_order(plan_call("Test"), text("One."), text("Two."), lie, complete_next, text("Skipped."))
        assert talk.say()["outcome"] == "drained"
        assert list_said(talk) == [("text", "Skipped.")]
        refusal, message = list_sent(talk.requests[4])[-2:]
        assert refusal[1].startswith("Not finished: 1 item of your plan is still open.")
        assert message[1].endswith("Skip the tests.")


# Continuing


def test_the_next_turn_takes_over_the_open_todos(database_url: str, tmp_path: Path) -> None:
    script = in_order(
        plan_call("Bake", "Frost", "Serve"), complete_next, *[text(LIE)] * 3, complete_next, complete_next, text("Eat.")
    )
    with open_talk(database_url, tmp_path, script) as talk:
        first = talk.say("A cake!")
        _, *left = talk.plan()
        second = continue_turn(talk, first["id"])
        assert (second["outcome"], second["mode"], second["plan_source"]) == ("drained", "plan", "agent")
        assert [(todo.id, todo.position, todo.status) for todo in talk.plan()] == [
            (todo.id, place, "completed") for place, todo in enumerate(left)
        ]
        assert talk.list_event_data("turn_started")[-1]["continues"] == first["id"]
        context = next(content for _, content in list_sent(talk.requests[5]) if content.startswith("[TURN CONTEXT]"))
        assert [f"{todo.id} [pending]" in context for todo in left] == [True, True]
        assert list_said(talk)[-1] == ("text", "Eat.")
        shown = talk.database.read(lambda tx: turns.show_turn(tx, talk.tenant_id, first["id"], talk.headway.settings.limits))
        assert (shown["outcome"], shown["incomplete"]) == ("incomplete", [])
        counts = talk.database.read(
            lambda tx: tx.all("SELECT pending, in_progress, completed FROM todo_lists ORDER BY next_position")
        )
        assert counts == [(0, 0, 2), (0, 0, 1)]


def test_a_queue_is_continued_as_a_queue(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(queue_call("bake"), *[text("")] * 3, text(""), text(""), text(""))) as talk:
        first = talk.say("A cake!", "queue")
        assert first["outcome"] == "incomplete"
        second = continue_turn(talk, first["id"])
        assert (second["mode"], len(talk.plan())) == ("queue", 1)


def test_only_an_ended_turn_of_the_conversation_with_open_todos_can_be_continued(sqlite_url: str, tmp_path: Path) -> None:
    def start(conversation_id: int, turn_id: str) -> None:
        request = turns.TurnRequest("Go on.", continues=turn_id)
        talk.database.write(lambda tx: turns.start_turn(tx, talk.tenant_id, conversation_id, request))

    def refuse(error: type[HeadwayError], turn_id: str, conversation_id: int) -> None:
        with pytest.raises(error):
            start(conversation_id, turn_id)

    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Bake"), *[text(LIE)] * 3, text("Hello."))) as talk:
        incomplete, done = talk.say()["id"], talk.say("Hi!")["id"]
        elsewhere = talk.database.write(lambda tx: conversations.add_conversation(tx, talk.tenant_id)).id
        own = Turn("own", talk.conversation_id, started_at=1)
        talk.database.write(lambda tx: conversation_store.insert_turn(tx, talk.tenant_id, own))
        refuse(Conflict, done, talk.conversation_id)
        refuse(Conflict, own.id, talk.conversation_id)
        refuse(NotFound, "of another tenant", talk.conversation_id)
        refuse(Invalid, incomplete, elsewhere)
        start(talk.conversation_id, incomplete)
        refuse(TurnRunning, incomplete, talk.conversation_id)  # the same button, pressed twice


# Stopping


def stop_midway(talk: Talk, *, has_text: bool) -> None:
    """Begin a turn, and cancel it when half of the answer has arrived. `has_text`: by the process that runs it."""

    async def scenario() -> None:
        talk.server.hold()
        task = await talk.begin()
        await talk.until(lambda: "second" in talk.read_streamed_text())
        turn_id = talk.run_row().turn_id or ""
        live_text = talk.headway.live_text if has_text else None
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id, live_text))
        talk.headway.interrupt([talk.run_row().id])
        await asyncio.wait([task])
        await talk.until(lambda: not talk.headway.storing)
        talk.server.release()

    talk.wait(scenario())


@pytest.mark.parametrize("has_text", [True, False], ids=["here", "by another process"])
def test_a_canceled_turn_keeps_what_was_said_once(database_url: str, tmp_path: Path, has_text: bool) -> None:
    written = (
        "The first part.\n/todo add a trap\n\nThe second part is not complete, because a person stops the turn before its end."
    )
    with open_talk(database_url, tmp_path, in_order(pause_midway(text(written)), text("Yes."))) as talk:
        stop_midway(talk, has_text=has_text)
        ((kind, said),) = list_said(talk)
        assert (kind, said) == ("stopped", talk.read_streamed_text())
        assert said.startswith("The first part.")
        assert "/todo" not in said
        assert talk.database.read(lambda tx: tx.all("SELECT id FROM todos")) == []
        kinds = [name for name, _ in talk.events("message", "turn_canceled")]
        assert kinds == (["message", "message", "turn_canceled"] if has_text else ["message", "turn_canceled", "message"])
        run = talk.run_row()
        talk.database.write(lambda tx: run_ends.store_stopped(tx, run, PartialAnswer(1, 1, "of a process that lost the run")))
        assert len(list_said(talk)) == 1
        assert talk.say("Are you there?")["outcome"] == "answered"
        assert list_sent(talk.requests[-1])[-3:] == [
            ("assistant", said),
            ("user", "The user stopped your answer above before it was complete."),
            ("user", "Are you there?"),
        ]


def test_a_process_that_stops_leaves_no_part_of_an_answer_that_another_completes(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(pause_midway(text("Half an answer.")), text("A whole answer."))) as talk:

        async def crash() -> None:
            talk.server.hold()
            task = await talk.begin()
            await talk.until(lambda: bool(talk.headway.streamed))
            await talk.crash(task)
            await talk.until(lambda: not talk.headway.storing)
            talk.server.release()

        talk.wait(crash())
        assert talk.resume_turn()["outcome"] == "answered"
        assert list_said(talk) == [("text", "A whole answer.")]


# Costs


def test_the_end_of_a_turn_says_what_it_used(database_url: str, tmp_path: Path) -> None:
    script = in_order(calls(("now", {}), usage=(1_000, 50)), text("Late.", usage=(1_200, 10)))
    with open_talk(database_url, tmp_path, script, model="openai-chat:gpt-4o") as talk:
        turn = talk.say()
        (event,) = talk.list_event_data("turn_finished")
        assert event["models"] == turn["models"] == ["openai-chat:gpt-4o"]
        assert event["usage"] == turn["usage"]
        assert (event["usage"]["input_tokens"], event["usage"]["output_tokens"]) == (2_200, 60)
        assert event["usage"]["cost_usd"] > 0
        assert event["duration_s"] == turn["duration_s"] > 0
