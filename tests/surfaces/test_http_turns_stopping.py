"""Stopping turns: canceling one, halting all, stopping the server. Also: changing the plan of a running turn."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import httpx
import pytest

from tests.model_server import ModelServer, Reply, Request, environment, pause_midway, text
from tests.surfaces.conversation_client import (
    get_turn,
    list_kinds,
    list_messages,
    messages_path,
    open_turn_stream,
    plan_and_drain,
    read_turn,
    read_until_turn_ends,
    say,
    wait_for_turn,
)
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import PATIENCE_S, Client, Service, run_server, wait_until
from tests.warm_start import Program


def cancel_path(turn_id: str) -> str:
    return f"/v1/turns/{turn_id}/cancel"


@pytest.mark.parametrize("middle", [False, True])
def test_a_turn_is_canceled_while_the_model_answers(chatter: Client, model: ModelServer, middle: bool) -> None:
    model.script = lambda _: pause_midway(text("one two three four")) if middle else text("too late")
    conversation = chatter.conversation()
    model.hold()
    with chatter.again() as other, open_turn_stream(chatter, conversation) as stream:
        begun = stream.take(3 if middle else 2)
        model.wait_for_requests(1)
        turn_id = begun[0].data["turn_id"]
        began = monotonic()
        canceled = other.ok("POST", cancel_path(turn_id))["turn"]
        rest = list(stream.events())
        took = monotonic() - began

    assert canceled == get_turn(chatter, turn_id)
    assert (canceled["status"], canceled["outcome"]) == ("canceled", None)
    assert canceled["ended_at"] > 0
    logged = [event for event in rest if event.event != "text_delta"]
    assert list_kinds(logged) == (["message", "turn_canceled"] if middle else ["turn_canceled"])
    assert (logged[-1].data["turn_id"], logged[-1].data["incomplete"]) == (turn_id, [])
    assert took < 20
    said = [("assistant", event.data["content"]) for event in logged if event.event == "message"]
    assert list_messages(chatter, conversation) == [("user", "hello"), *said]
    assert [message["kind"] for message in chatter.ok("GET", messages_path(conversation))["messages"][1:]] == ["stopped"] * middle

    model.script = lambda _: text("at your service")
    second = say(chatter, conversation, "and now?")
    model.release()
    assert wait_for_turn(chatter, second)["status"] == "finished"
    assert list_messages(chatter, conversation)[-1] == ("assistant", "at your service")
    assert get_turn(chatter, turn_id) == canceled


def test_a_canceled_turn_leaves_its_plan_open(chatter: Client, model: ModelServer) -> None:
    plan = plan_and_drain("buy milk", "buy bread")

    def script(request: Request) -> Reply:
        if len(request.tool_results) == 2:
            model.hold()
        return plan(request)

    model.script = script
    turn_id = say(chatter, chatter.conversation())
    model.wait_for_requests(3)
    canceled = chatter.ok("POST", cancel_path(turn_id))["turn"]

    assert [(item["title"], item["status"]) for item in canceled["incomplete"]] == [("buy bread", "pending")]


def test_an_ended_turn_cannot_be_canceled(chatter: Client) -> None:
    conversation = chatter.conversation()
    done = say(chatter, conversation)
    wait_for_turn(chatter, done)
    own = chatter.turn(conversation)
    chatter.ok("POST", cancel_path(own))

    for turn_id, status in ((done, "finished"), (own, "canceled")):
        assert status in chatter.refused("POST", cancel_path(turn_id), 409, "turn_ended")
        assert get_turn(chatter, turn_id)["status"] == status


def test_a_turn_driven_by_an_external_loop_is_canceled_too(chatter: Client) -> None:
    conversation = chatter.conversation()
    turn_id = chatter.turn(conversation)
    with open_stream(chatter, f"/v1/conversations/{conversation}/events") as stream:
        canceled = chatter.ok("POST", cancel_path(turn_id))["turn"]
        events = read_until_turn_ends(stream)

    assert canceled["status"] == "canceled"
    assert [(event.event, event.data) for event in events] == [("turn_canceled", {"turn_id": turn_id, "incomplete": []})]


def test_a_cancellation_with_a_key_is_the_same_twice(chatter: Client, model: ModelServer) -> None:
    model.hold()
    turn_id = say(chatter, chatter.conversation())
    first, second = (chatter.post(cancel_path(turn_id), headers={"Idempotency-Key": "stop"}) for _ in range(2))

    assert first.status_code == 200
    assert (first.status_code, first.content) == (second.status_code, second.content)


@contextmanager
def halted(service: Service, folder: Path) -> Iterator[None]:
    """Halt the installation from another process, with the command line."""

    def headway(*arguments: str) -> None:
        with Program(["--database-url", service.database_url, *arguments], folder) as program:
            assert program.wait(PATIENCE_S) == 0

    headway("halt", "--why", "the cat is on the keyboard")
    try:
        yield
    finally:
        headway("unhalt")


def test_while_halted_nothing_begins_and_everything_can_be_read(
    chatter: Client, chat_service: Service, model: ModelServer, tmp_path: Path
) -> None:
    conversation = chatter.conversation()
    before = say(chatter, conversation)
    wait_for_turn(chatter, before)
    headers = {"Idempotency-Key": "once"}
    with halted(chat_service, tmp_path):
        for accept in ("application/json", "text/event-stream"):
            refused = chatter.post(messages_path(conversation), json={"content": "now"}, headers={**headers, "Accept": accept})
            assert (refused.status_code, refused.json()["code"]) == (503, "halted")
            assert "the cat is on the keyboard" in refused.json()["detail"]
            assert int(refused.headers["retry-after"]) > 0
        assert get_turn(chatter, before)["status"] == "finished"
        assert len(list_messages(chatter, conversation)) == 2
        chatter.add("work goes on by hand")
        assert len(model.requests) == 1

    assert wait_for_turn(chatter, say(chatter, conversation, "now", headers=headers))["status"] == "finished"
    assert [content for _, content in list_messages(chatter, conversation)] == ["hello", "hello", "now", "hello"]


def test_a_halted_turn_continues_afterwards(chatter: Client, chat_service: Service, model: ModelServer, tmp_path: Path) -> None:
    model.script = plan_and_drain("buy milk")
    conversation = chatter.conversation()
    model.hold()
    with open_turn_stream(chatter, conversation) as stream:
        model.wait_for_requests(1)
        with halted(chat_service, tmp_path):
            model.release()
            events = stream.take(2)
            assert get_turn(chatter, events[0].data["turn_id"])["status"] == "running"
        rest = list(stream.events())

    assert rest[-1].event == "turn_finished"
    assert rest[-1].data["outcome"] == "drained"
    assert len(model.requests) == 3


def test_a_plan_that_a_person_changes_is_seen_at_the_next_step(chatter: Client, model: ModelServer) -> None:
    plan = plan_and_drain("buy milk", "buy bread", "buy a boat")

    def script(request: Request) -> Reply:
        if "buy eggs" not in request.last and request.tool_results:
            model.hold()
        if len(request.tool_results) < 3:
            return plan(request)
        model.hold()
        return text("No boat.")

    model.script = script
    turn_id = say(chatter, chatter.conversation())
    model.wait_for_requests(2)
    rows = chatter.ok("GET", "/v1/todos", params={"turn_id": turn_id})["todos"]
    chatter.change(next(row for row in rows if row["subject"] == "buy a boat"), status="canceled")
    eggs = chatter.add("buy eggs", turn_id=turn_id)
    model.release()
    requests = model.wait_for_requests(3)
    first, third = requests[0], requests[2]

    assert "[TURN CONTEXT]" not in first.last
    assert "[canceled] buy a boat" in third.last
    assert "[pending] buy eggs" in third.last
    assert "[completed] buy milk" in third.last
    model.wait_for_requests(4)
    chatter.change(eggs, status="completed")
    model.release()
    turn = wait_for_turn(chatter, turn_id)
    assert (turn["outcome"], turn["incomplete"]) == ("drained", [])


def list_owners(client: Client) -> list[tuple[object, ...]]:
    return client.desk.read(lambda tx, _: tx.all("SELECT owner, state FROM jobs"))


def test_a_server_that_is_stopped_hands_its_turns_to_the_next(database_url: str, tmp_path: Path) -> None:
    with ModelServer(text("here I am")) as model:
        model.hold()
        with run_server(database_url, tmp_path, environment=environment(model)) as service, service.tenant() as client:
            conversation = client.conversation()
            with open_turn_stream(client, conversation) as stream:
                turn_id = stream.take(1)[0].data["turn_id"]
                model.wait_for_requests(1)
                stopped = service.end()
                rest = list(stream.events())  # raises an error if the stream was cut off
            assert stopped.code == 0
            assert stopped.seconds < 30
            assert [event.event for event in rest] == ["message"]
            assert service.log.read_text() == ""
            assert list_owners(client) == [("", "queued")]  # released, so the next server need not wait for the lease to expire
            model.release()
            with run_server(database_url, tmp_path, environment=environment(model)) as restarted:
                client.base_url = httpx.URL(restarted.url)
                assert wait_for_turn(client, turn_id)["status"] == "finished"
                assert list_messages(client, conversation) == [("user", "hello"), ("assistant", "here I am")]

    assert len(model.requests) == 2
    assert model.violations == []


def test_a_conversation_remembers_its_messages(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    read_turn(chatter, conversation, "My name is Ada.")
    read_turn(chatter, conversation, "What is my name?")
    wait_until(lambda: len(model.requests) == 2, "both were asked")

    assert [content for content in model.requests[1].texts if content in ("My name is Ada.", "hello", "What is my name?")] == [
        "My name is Ada.",
        "hello",
        "What is my name?",
    ]
