"""A conversation has one running turn, and a repeated request joins the same turn."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier
from time import monotonic
from uuid import uuid4

import pytest

from tests.model_server import ModelServer, error, text
from tests.surfaces.conversation_client import (
    get_turn,
    list_kinds,
    list_logged,
    list_messages,
    messages_path,
    open_turn_stream,
    read_turn,
    reply_in_order,
    say,
    wait_for_turn,
)
from tests.surfaces.event_stream import list_logged_ids
from tests.surfaces.server_harness import PATIENCE_S, Client, check_problem, wait_until
from tests.tables import each_row

STREAM = {"Accept": "text/event-stream"}


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_second_message_is_refused_while_the_first_is_answered(chatter: Client, model: ModelServer, accept: str) -> None:
    conversation = chatter.conversation()
    model.hold()
    first = say(chatter, conversation, "first")
    model.wait_for_requests(1)
    second = chatter.post(messages_path(conversation), json={"content": "second"}, headers={"Accept": accept})
    elsewhere = say(chatter, chatter.conversation(), "elsewhere")
    model.wait_for_requests(2)
    model.release()

    assert "running" in check_problem(second, 409, "turn_running")
    assert wait_for_turn(chatter, first)["status"] == wait_for_turn(chatter, elsewhere)["status"] == "finished"
    assert list_messages(chatter, conversation) == [("user", "first"), ("assistant", "hello")]
    assert wait_for_turn(chatter, say(chatter, conversation, "second"))["status"] == "finished"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_message_can_wait_for_the_turn_before(chatter: Client, model: ModelServer, streamed: bool) -> None:
    model.script = lambda request: text(f"you said {request.last}")
    conversation = chatter.conversation()
    model.hold()
    first = say(chatter, conversation, "first")
    model.wait_for_requests(1)
    with chatter.again() as patient, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            patient.post,
            messages_path(conversation),
            params={"wait": PATIENCE_S},
            json={"content": "second"},
            headers=STREAM if streamed else {},
        )
        chatter.refused("POST", messages_path(conversation), 409, "turn_running", json={"content": "x"}, params={"wait": 0.3})
        assert not waiting.done()
        model.release()
        answer = waiting.result()
    second = answer.json()["turn_id"] if not streamed else ""

    assert answer.status_code == (200 if streamed else 202)
    assert wait_for_turn(chatter, first)["status"] == "finished"
    wait_until(lambda: len(list_messages(chatter, conversation)) == 4, "the second is answered")
    assert [content for _, content in list_messages(chatter, conversation)] == [
        "first",
        "you said first",
        "second",
        "you said second",
    ]
    if streamed:
        assert answer.text.count("event: turn_started\n") == answer.text.count("event: turn_finished\n") == 1
        assert first not in answer.text
    else:
        assert wait_for_turn(chatter, second)["status"] == "finished"


def test_waiting_ends_when_it_was_said_to(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    model.hold()
    first = say(chatter, conversation)
    began = monotonic()
    chatter.refused("POST", messages_path(conversation), 409, "turn_running", json={"content": "x"}, params={"wait": "0.5"})
    took = monotonic() - began
    model.release()

    assert 0.5 <= took < 30
    assert wait_for_turn(chatter, first)["status"] == "finished"


@each_row("wait", ["-1", "nan", "inf", "301", "soon", ""])
def test_a_wait_that_cannot_be_is_refused(sqlite_chatter: Client, wait: str) -> None:
    path = messages_path(sqlite_chatter.conversation())
    sqlite_chatter.refused("POST", path, 422, "invalid", json={"content": "hello"}, params={"wait": wait})


def test_of_eight_at_once_one_is_taken(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    model.hold()
    gate = Barrier(8, timeout=PATIENCE_S)

    def send(client: Client, number: int) -> int:
        gate.wait()
        return client.post(messages_path(conversation), json={"content": f"number {number}"}).status_code

    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        clients = [stack.enter_context(chatter.again()) for _ in range(8)]
        answers = list(pool.map(send, clients, range(8)))
    model.release()

    assert sorted(answers) == [202] + [409] * 7
    wait_until(lambda: len(list_messages(chatter, conversation)) == 2, "the one is answered")
    assert chatter.desk.count("turns") == chatter.desk.count("runs") == 1
    assert len(model.requests) == 1


def new_key() -> str:
    return uuid4().hex


def test_the_same_key_is_the_same_turn(chatter: Client, model: ModelServer) -> None:
    conversation, headers = chatter.conversation(), {"Idempotency-Key": new_key()}
    model.hold()
    first = say(chatter, conversation, headers=headers)
    while_it_runs = say(chatter, conversation, headers=headers)
    model.release()
    wait_for_turn(chatter, first)
    afterwards = say(chatter, conversation, headers=headers)
    other = chatter.post(messages_path(conversation), json={"content": "something else"}, headers=headers)

    assert first == while_it_runs == afterwards
    check_problem(other, 409, "key_reused")
    assert list_messages(chatter, conversation) == [("user", "hello"), ("assistant", "hello")]
    assert chatter.desk.count("turns") == 1
    assert len(model.requests) == 1


def test_the_same_key_streams_the_same_turn_again_from_its_start(chatter: Client, model: ModelServer) -> None:
    conversation, once = chatter.conversation(), new_key()
    events = read_turn(chatter, conversation, key=once)
    wait_for_turn(chatter, say(chatter, conversation, "another turn"))
    again = read_turn(chatter, conversation, key=once)

    assert again == list_logged(events)
    assert chatter.desk.count("turns") == 2


def test_the_same_key_joins_a_turn_that_still_runs(chatter: Client, model: ModelServer) -> None:
    conversation, once = chatter.conversation(), new_key()
    model.hold()
    with chatter.again() as other, open_turn_stream(chatter, conversation, key=once) as first:
        begun = first.take(2)
        with open_turn_stream(other, conversation, key=once) as second:
            joined = second.take(2)
            model.release()
            rests = [list(stream.events()) for stream in (first, second)]

    assert joined == begun
    assert list_kinds(rests[0]) == ["text_delta", "message", "turn_finished"]
    assert rests[0] == rests[1]
    assert [event.id for event in list_logged(begun + rests[0])] == list_logged_ids(chatter, without="conversation_changed")
    assert len(model.requests) == 1


def test_having_come_too_early_is_not_held_against_a_key(chatter: Client, model: ModelServer) -> None:
    conversation, headers = chatter.conversation(), {"Idempotency-Key": new_key()}
    model.hold()
    first = say(chatter, conversation, "first")
    body = {"content": "second"}
    chatter.refused("POST", messages_path(conversation), 409, "turn_running", json=body, headers=headers)
    model.release()
    wait_for_turn(chatter, first)
    second = say(chatter, conversation, "second", headers=headers)

    assert wait_for_turn(chatter, second)["status"] == "finished"
    assert say(chatter, conversation, "second", headers=headers) == second


def test_a_turn_that_failed_is_the_answer_of_its_key(chatter: Client, model: ModelServer) -> None:
    """The key identifies the turn that the request started, even if that turn failed."""
    conversation, headers = chatter.conversation(), {"Idempotency-Key": new_key()}
    model.script = reply_in_order(error(400, "no"))
    first = say(chatter, conversation, headers=headers)

    assert wait_for_turn(chatter, first)["status"] == "failed"
    assert say(chatter, conversation, headers=headers) == first
    assert get_turn(chatter, first)["status"] == "failed"
