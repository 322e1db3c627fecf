"""Following a turn live: in its own stream, in the conversation's streams, and after a disconnect."""

from itertools import pairwise
from typing import Any

from tests.model_server import ModelServer, Reply, Request, calls, pause_midway, text
from tests.surfaces.conversation_client import (
    TURN_ENDS,
    get_turn,
    join_text,
    list_kinds,
    list_logged,
    list_messages,
    open_turn_stream,
    plan_and_drain,
    read_turn,
    read_until_turn_ends,
    say,
    wait_for_turn,
)
from tests.surfaces.event_stream import Stream, StreamEvent, list_logged_ids, open_stream
from tests.surfaces.server_harness import Client, Service

ANSWER = "This is a long answer, told word by word,\nover several lines, and in the end it is whole."


def events_path(conversation: int) -> str:
    return f"/v1/conversations/{conversation}/events"


def test_a_turns_own_stream_covers_it_from_start_to_end_and_ends(chatter: Client, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk", "buy bread", answer=ANSWER)
    conversation = chatter.conversation()
    with open_turn_stream(chatter, conversation, "Buy milk and bread.") as stream:
        first = stream.first
        events = list(stream.events())
    turn_id = events[0].data["turn_id"]

    assert first.event == "ping"
    assert events[0].event == "turn_started"
    assert events[0].data["conversation_id"] == conversation
    assert events[0].data["mode"] == "plan"
    assert events[0].id > first.id
    assert events[-1].event == "turn_finished"
    end = events[-1].data
    assert (end["turn_id"], end["outcome"], end["incomplete"]) == (turn_id, "drained", [])
    assert end["models"]
    assert end["duration_s"] > 0
    assert sum(event.event in TURN_ENDS for event in events) == 1
    assert [event.id for event in list_logged(events)] == list_logged_ids(chatter, without="conversation_changed")
    assert all(event.id == 0 for event in events if event.event == "text_delta")
    (answer,) = (event.data["content"] for event in events if event.event == "message" and event.data["role"] == "assistant")
    assert join_text(events) == answer == ANSWER
    assert list_kinds(events)[-3:] == ["text_delta", "message", "turn_finished"]


def test_every_change_of_the_list_is_streamed_as_a_pair_in_the_same_order(chatter: Client, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk", "buy bread")
    events = read_turn(chatter, chatter.conversation())
    names = [event.event for event in events]
    lists = [event.data for event in events if event.event == "todos_updated"]

    assert names.count("todos_updated") == names.count("todos_current") == 3
    assert all((name == "todos_updated") == (next_name == "todos_current") for name, next_name in pairwise(names))
    assert [(state["total"], state["remaining"]) for state in lists] == [(2, 2), (2, 1), (2, 0)]
    assert [[item["status"] for item in state["items"]] for state in lists][-1] == ["done", "done"]
    tool_calls = [event.data for event in events if event.event == "tool_call"]
    results = [event.data for event in events if event.event == "tool_result"]
    assert [tool_call["tool"] for tool_call in tool_calls] == ["create_todo", "complete_todo", "complete_todo"]
    assert [tool_call["call_id"] for tool_call in tool_calls] == [tool_result["call_id"] for tool_result in results]
    assert not any(tool_result["is_error"] for tool_result in results)


def test_a_turns_own_stream_has_no_other_events(chatter: Client, chat_service: Service, model: ModelServer) -> None:
    model.script = lambda request: text(f"you said {request.last}")
    ours, beside = chatter.conversation(), chatter.conversation()
    model.hold()
    with chatter.again() as colleague, chat_service.tenant() as stranger, open_turn_stream(chatter, ours, "ours") as stream:
        colleague.add("tenant-wide")
        colleague.add("in the same conversation", conversation_id=ours)
        colleague.turn(ours)
        others = [(colleague, say(colleague, beside, "beside")), (stranger, say(stranger, stranger.conversation(), "strange"))]
        model.wait_for_requests(3)
        model.release()
        events = list(stream.events())
        for client, turn_id in others:
            assert wait_for_turn(client, turn_id)["status"] == "finished"

    assert list_kinds(events) == ["turn_started", "message", "text_delta", "message", "turn_finished"]
    assert join_text(events) == "you said ours"
    assert {event.data["turn_id"] for event in events} == {events[0].data["turn_id"]}


def test_all_streams_of_a_conversation_have_the_same_events(chatter: Client, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk", answer=ANSWER)
    conversation = chatter.conversation()
    with (
        chatter.again() as reader,
        chatter.again() as another,
        open_stream(reader, events_path(conversation)) as first,
        open_stream(another, events_path(conversation)) as second,
    ):
        own = read_turn(chatter, conversation)
        received = [read_until_turn_ends(stream) for stream in (first, second)]

    assert received == [own, own]
    assert join_text(own) == ANSWER


def take_until(stream: Stream, kind: str) -> list[StreamEvent]:
    events = []
    for event in stream.events():
        events.append(event)
        if event.event == kind:
            return events
    raise AssertionError(f"no {kind}: {list_kinds(events)}")


def test_hanging_up_does_not_stop_the_turn_and_a_reader_can_come_back(chatter: Client, model: ModelServer) -> None:
    plan = plan_and_drain("buy milk", "buy bread")

    def script(request: Request) -> Reply:
        if len(request.tool_results) < 3:
            return plan(request)
        model.hold()
        return pause_midway(text(ANSWER))

    model.script = script
    conversation = chatter.conversation()
    with chatter.again() as visitor, open_turn_stream(visitor, conversation) as stream:
        before = take_until(stream, "text_delta")
    turn_id = before[0].data["turn_id"]
    last = list_logged(before)[-1].id
    assert get_turn(chatter, turn_id)["status"] == "running"

    with open_stream(chatter, events_path(conversation), headers={"Last-Event-ID": str(last)}) as stream:
        model.release()
        after = read_until_turn_ends(stream)

    ids = [event.id for event in list_logged(before) + list_logged(after)]
    assert ids == list_logged_ids(chatter, without="conversation_changed")
    assert after[-1].event == "turn_finished"
    assert get_turn(chatter, turn_id)["outcome"] == "drained"
    assert list_messages(chatter, conversation)[-1] == ("assistant", ANSWER)
    assert len(model.requests) == 4


def test_a_turn_continues_without_listeners(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    model.hold()
    with chatter.again() as visitor, open_turn_stream(visitor, conversation) as stream:
        started = stream.take(1)[0]
        model.wait_for_requests(1)
    model.release()

    assert wait_for_turn(chatter, started.data["turn_id"])["status"] == "finished"
    assert list_messages(chatter, conversation) == [("user", "hello"), ("assistant", "hello")]


def test_text_is_streamed_once_and_events_are_kept(chatter: Client, model: ModelServer) -> None:
    """A later reader gets the stored messages, but not the live text."""
    model.script = plan_and_drain("buy milk", answer=ANSWER)
    conversation = chatter.conversation()
    own = read_turn(chatter, conversation)
    with open_stream(chatter, events_path(conversation), params={"after": 0}) as stream:
        again = read_until_turn_ends(stream)

    assert again == list_logged(own)


def test_words_before_a_tool_call_are_a_message(chatter: Client, model: ModelServer) -> None:
    model.script = lambda request: text("It is late.") if request.tool_results else calls(("now", {}), text="Let me look.")
    conversation = chatter.conversation()
    events = read_turn(chatter, conversation, "What time is it?")
    contents: list[Any] = [event.data["content"] for event in events if event.event == "message"]

    assert contents == ["What time is it?", "Let me look.", "It is late."]
    assert join_text(events) == "Let me look.It is late."
    assert [content for _, content in list_messages(chatter, conversation)] == contents
