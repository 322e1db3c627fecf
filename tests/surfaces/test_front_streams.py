"""Encoding the events of a turn for AG-UI and the AI SDK: cases that are rare in a complete conversation."""

import json
from typing import Any

from headway.feed import FeedEvent, build_ping
from headway.surfaces.http.ag_ui import AgUiEncoder
from headway.surfaces.http.turn_streams import build_encoder
from headway.surfaces.http.ui_stream import UiStreamEncoder

Event = tuple[str, dict[str, Any]]

STARTED: Event = ("turn_started", {"turn_id": "t", "conversation_id": 7, "run_id": "r", "mode": "plan"})
FINISHED: Event = ("turn_finished", {"turn_id": "t", "outcome": "answered", "incomplete": []})
RESTART: Event = ("text_delta", {"turn_id": "t", "text": "", "restart": True})
REQUEST = {"id": "mine", "role": "user", "content": "hello"}


def text_delta(content: str) -> Event:
    return "text_delta", {"turn_id": "t", "run_id": "r", "text": content}


def message(content: str, role: str = "assistant") -> Event:
    return "message", {"id": 1, "turn_id": "t", "role": role, "content": content}


def tool_call(tool: str, run_id: str = "r", call_id: str = "c") -> Event:
    return "tool_call", {"run_id": run_id, "call_id": call_id, "tool": tool, "arguments": {"city": "Rome"}}


def tool_result(value: Any, run_id: str = "r", is_error: bool = False, call_id: str = "c") -> Event:
    return "tool_result", {"run_id": run_id, "call_id": call_id, "tool": "x", "result": value, "is_error": is_error, "state": "y"}


def todos_updated(*items: str) -> Event:
    state = {"total": len(items), "remaining": len(items), "current": None, "items": list(items)}
    return "todos_updated", {"turn_id": "t", **state}


def decode(encoded: str) -> list[Any]:
    frames = encoded.split("\n\n")
    assert frames.pop() == ""
    return [frame if frame == "data: [DONE]" else json.loads(frame.removeprefix("data: ")) for frame in frames]


def encode_ag_ui(*events: Event, state: Any = None) -> list[Any]:
    ag_ui = AgUiEncoder("thread", "run", [REQUEST], state)
    return decode("".join(ag_ui.encode(kind, data) for kind, data in (STARTED, *events)))[3:]


def encode_ui_stream(*events: Event) -> list[Any]:
    stream = UiStreamEncoder()
    return decode("".join(stream.encode(kind, data) for kind, data in (STARTED, *events)))[2:]


def list_types(frames: list[Any]) -> list[str]:
    return [frame if isinstance(frame, str) else frame["type"] for frame in frames]


def test_a_run_begins_with_an_empty_list_in_the_clients_own_state() -> None:
    ag_ui = AgUiEncoder("thread", "run", [REQUEST], {"theirs": 1, "todos": "of the turn before"})
    started, turn, snapshot = decode(ag_ui.encode(*STARTED))

    assert started == {"type": "RUN_STARTED", "threadId": "thread", "runId": "run"}
    assert turn == {"type": "CUSTOM", "name": "turn_started", "value": {"turn_id": "t", "conversation_id": 7, "mode": "plan"}}
    empty: dict[str, Any] = {"total": 0, "remaining": 0, "current": None, "items": []}
    assert snapshot == {"type": "STATE_SNAPSHOT", "snapshot": {"theirs": 1, "todos": empty}}


def test_state_that_is_no_object_gives_way() -> None:
    snapshot = decode(AgUiEncoder("thread", "run", [REQUEST], "text").encode(*STARTED))[2]
    assert list(snapshot["snapshot"]) == ["todos"]


def test_only_the_changed_parts_of_the_list_are_sent() -> None:
    first, second = encode_ag_ui(todos_updated("milk"), todos_updated("milk"), todos_updated("milk", "bread"))

    assert [operation["path"] for operation in first["delta"]] == ["/todos/total", "/todos/remaining", "/todos/items"]
    assert second == {
        "type": "STATE_DELTA",
        "delta": [
            {"op": "replace", "path": "/todos/total", "value": 2},
            {"op": "replace", "path": "/todos/remaining", "value": 2},
            {"op": "replace", "path": "/todos/items", "value": ["milk", "bread"]},
        ],
    }


def test_words_that_became_the_message_are_not_said_twice() -> None:
    assert encode_ag_ui(text_delta("It is"), text_delta(" late.\n"), message("It is late.")) == [
        {"type": "TEXT_MESSAGE_START", "messageId": "t:0.1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "t:0.1", "delta": "It is"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "t:0.1", "delta": " late.\n"},
        {"type": "TEXT_MESSAGE_END", "messageId": "t:0.1"},
    ]


def test_a_client_that_missed_the_text_gets_the_whole_message() -> None:
    """A stream requested again with the same Idempotency-Key has no live text, only the final message."""
    start, content, end = encode_ui_stream(message("hello", "user"), message("It is late."))

    assert start == {"type": "text-start", "id": "t:0.1"}
    assert content == {"type": "text-delta", "id": "t:0.1", "delta": "It is late."}
    assert end == {"type": "text-end", "id": "t:0.1"}


def test_a_client_that_missed_the_last_text_gets_it() -> None:
    frames = encode_ui_stream(text_delta("It is"), message("It is late."))
    assert [frame.get("delta") for frame in frames] == [None, "It is", " late.", None]


def test_words_that_are_not_the_message_are_withdrawn() -> None:
    frames = encode_ui_stream(text_delta("It was"), message("It is late."))

    assert list_types(frames) == [
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
    ]
    assert frames[2]["providerMetadata"] == {"headway": {"withdrawn": True}}
    assert frames[6] == {"type": "text-delta", "id": "t:0.2", "delta": "It is late."}


def test_a_restart_takes_the_message_back_and_keeps_all_others() -> None:
    frames = encode_ag_ui(
        text_delta("Let me look."), message("Let me look."), tool_call("now"), tool_result({"at": 3}), text_delta("It w"), RESTART
    )

    assert list_types(frames)[-2:] == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT"]
    mine, looked, called, answered = frames[-1]["messages"]
    assert mine == REQUEST
    assert looked == {"id": "t:0.1", "role": "assistant", "content": "Let me look."}
    function = {"name": "now", "arguments": '{"city":"Rome"}'}
    assert called == {"id": "t:1", "role": "assistant", "toolCalls": [{"id": "t:1", "type": "function", "function": function}]}
    assert answered == {"id": "t:1:result", "role": "tool", "toolCallId": "t:1", "content": '{"at":3}'}


def test_a_restart_of_nothing_says_nothing() -> None:
    assert encode_ag_ui(RESTART) == encode_ui_stream(RESTART) == []


def test_a_refusal_is_sent_and_the_refused_text_is_withdrawn() -> None:
    refused: Event = ("refused", {"turn_id": "t", "remaining": 2, "reason": "2 items are still open."})

    assert list_types(encode_ag_ui(text_delta("Done!"), refused))[-2:] == ["MESSAGES_SNAPSHOT", "CUSTOM"]
    ended, note = encode_ui_stream(text_delta("Done!"), refused)[-2:]
    assert ended["providerMetadata"] == {"headway": {"withdrawn": True}}
    assert note == {
        "type": "data-refused",
        "data": {"turn_id": "t", "remaining": 2, "reason": "2 items are still open."},
        "transient": True,
    }


def test_the_assessors_decision_is_sent_beside_the_conversation() -> None:
    assessed: Event = ("todos_assessed", {"turn_id": "t", "ok": True, "reason": "fine"})

    assert encode_ag_ui(assessed) == [{"type": "CUSTOM", "name": "todos_assessed", "value": assessed[1]}]
    assert encode_ui_stream(assessed) == [{"type": "data-todos-assessed", "data": assessed[1], "transient": True}]


def test_a_call_that_reuses_an_id_is_a_call_of_its_own() -> None:
    frames = encode_ui_stream(tool_call("now"), tool_result("one"), tool_call("now"), tool_result("two", is_error=True))

    assert [(frame["toolCallId"], frame["output"]) for frame in frames if frame["type"] == "tool-output-available"] == [
        ("t:1", "one")
    ]
    assert [(frame["toolCallId"], frame["errorText"]) for frame in frames if frame["type"] == "tool-output-error"] == [
        ("t:2", "two")
    ]


def test_calls_of_sub_agents_are_their_own_business() -> None:
    changed: Event = ("agent_changed", {"run": {"id": "sub"}})
    frames = encode_ag_ui(tool_call("delegate"), changed, tool_call("now", "sub"), tool_result("late", "sub"), tool_result("done"))

    assert list_types(frames) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "CUSTOM", "TOOL_CALL_RESULT"]
    assert frames[3] == {"type": "CUSTOM", "name": "agent_changed", "value": {"run": {"id": "sub"}}}
    assert frames[4]["content"] == "done"


def test_calls_of_one_answer_share_a_step() -> None:
    frames = encode_ui_stream(
        tool_call("a", call_id="1"),
        tool_call("b", call_id="2"),
        tool_result(1, call_id="1"),
        tool_result(2, call_id="2"),
        text_delta("x"),
    )
    assert list_types(frames)[-4:] == ["finish-step", "start-step", "text-start", "text-delta"]
    assert list_types(frames).count("start-step") == 1


def test_each_end_is_sent_once() -> None:
    failed: Event = ("turn_failed", {"turn_id": "t", "error": "The model is away.", "code": "model_error"})
    canceled: Event = ("turn_canceled", {"turn_id": "t"})

    assert encode_ag_ui(FINISHED) == [{"type": "RUN_FINISHED", "threadId": "thread", "runId": "run", "result": FINISHED[1]}]
    assert encode_ag_ui(failed) == [{"type": "RUN_ERROR", "message": "The model is away.", "code": "model_error"}]
    assert encode_ag_ui(canceled) == [{"type": "RUN_ERROR", "message": "The turn was canceled.", "code": "canceled"}]
    finish = {"type": "finish", "finishReason": "stop", "messageMetadata": FINISHED[1]}
    assert encode_ui_stream(FINISHED) == [{"type": "finish-step"}, finish, "data: [DONE]"]
    error = {"type": "error", "errorText": "The model is away."}
    assert encode_ui_stream(failed) == [{"type": "finish-step"}, error, "data: [DONE]"]
    assert encode_ui_stream(canceled) == [{"type": "abort"}, "data: [DONE]"]


def test_an_end_leaves_no_text_open() -> None:
    assert list_types(encode_ag_ui(text_delta("It is"), FINISHED))[-3:] == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


def test_events_unknown_to_front_ends_are_left_out() -> None:
    events: list[Event] = [("todo_changed", {"todo": {}}), ("todos_current", {"current": None}), ("of the future", {})]
    assert encode_ag_ui(*events) == encode_ui_stream(*events) == []


def test_heartbeats_become_comments_and_events_are_passed_on_whole() -> None:
    data = {"turn_id": "t", "text": "event: x \u2028 \n\n data: y"}
    event = FeedEvent(3, 7, "t", "text_delta", json.dumps(data, ensure_ascii=False), is_broadcast=True)
    passed_on: list[Event] = []

    def encode(kind: str, data: dict[str, Any]) -> str:
        passed_on.append((kind, data))
        return f"<{kind}>"

    assert build_encoder(encode)([build_ping(3), event]) == b": ping\n\n<text_delta>"
    assert passed_on == [("text_delta", data)]
