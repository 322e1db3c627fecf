"""Encoding the events of a turn for AG-UI and the AI SDK: cases that are rare in a complete conversation."""

import json
from typing import Any

from headway.feed import FeedEvent, build_ping
from headway.surfaces.http.ag_ui import AgUiEncoder
from headway.surfaces.http.turn_streams import build_encoder
from headway.surfaces.http.ui_stream import UiStreamEncoder

Told = tuple[str, dict[str, Any]]

STARTED: Told = ("turn_started", {"turn_id": "t", "conversation_id": 7, "run_id": "r", "mode": "plan"})
FINISHED: Told = ("turn_finished", {"turn_id": "t", "outcome": "answered", "incomplete": []})
RESTART: Told = ("text_delta", {"turn_id": "t", "text": "", "restart": True})
REQUEST = {"id": "mine", "role": "user", "content": "hello"}


def words(said: str) -> Told:
    return "text_delta", {"turn_id": "t", "run_id": "r", "text": said}


def message(content: str, role: str = "assistant") -> Told:
    return "message", {"id": 1, "turn_id": "t", "role": role, "content": content}


def call(tool: str, run_id: str = "r", call_id: str = "c") -> Told:
    return "tool_call", {"run_id": run_id, "call_id": call_id, "tool": tool, "arguments": {"city": "Rome"}}


def result(value: Any, run_id: str = "r", is_error: bool = False, call_id: str = "c") -> Told:
    return "tool_result", {"run_id": run_id, "call_id": call_id, "tool": "x", "result": value, "is_error": is_error, "state": "y"}


def listed(*items: str) -> Told:
    state = {"total": len(items), "remaining": len(items), "current": None, "items": list(items)}
    return "todos_updated", {"turn_id": "t", **state}


def decoded(said: str) -> list[Any]:
    frames = said.split("\n\n")
    assert frames.pop() == ""
    return [one if one == "data: [DONE]" else json.loads(one.removeprefix("data: ")) for one in frames]


def in_ag_ui(*told: Told, state: Any = None) -> list[Any]:
    ag_ui = AgUiEncoder("thread", "run", [REQUEST], state)
    return decoded("".join(ag_ui.encode(kind, data) for kind, data in (STARTED, *told)))[3:]


def in_ui_stream(*told: Told) -> list[Any]:
    stream = UiStreamEncoder()
    return decoded("".join(stream.encode(kind, data) for kind, data in (STARTED, *told)))[2:]


def types(frames: list[Any]) -> list[str]:
    return [frame if isinstance(frame, str) else frame["type"] for frame in frames]


def test_a_run_begins_with_an_empty_list_in_the_clients_own_state() -> None:
    ag_ui = AgUiEncoder("thread", "run", [REQUEST], {"theirs": 1, "todos": "of the turn before"})
    started, turn, snapshot = decoded(ag_ui.encode(*STARTED))

    assert started == {"type": "RUN_STARTED", "threadId": "thread", "runId": "run"}
    assert turn == {"type": "CUSTOM", "name": "turn_started", "value": {"turn_id": "t", "conversation_id": 7, "mode": "plan"}}
    empty: dict[str, Any] = {"total": 0, "remaining": 0, "current": None, "items": []}
    assert snapshot == {"type": "STATE_SNAPSHOT", "snapshot": {"theirs": 1, "todos": empty}}


def test_state_that_is_no_object_gives_way() -> None:
    snapshot = decoded(AgUiEncoder("thread", "run", [REQUEST], "text").encode(*STARTED))[2]
    assert list(snapshot["snapshot"]) == ["todos"]


def test_only_the_changed_parts_of_the_list_are_sent() -> None:
    first, second = in_ag_ui(listed("milk"), listed("milk"), listed("milk", "bread"))

    assert [one["path"] for one in first["delta"]] == ["/todos/total", "/todos/remaining", "/todos/items"]
    assert second == {
        "type": "STATE_DELTA",
        "delta": [
            {"op": "replace", "path": "/todos/total", "value": 2},
            {"op": "replace", "path": "/todos/remaining", "value": 2},
            {"op": "replace", "path": "/todos/items", "value": ["milk", "bread"]},
        ],
    }


def test_words_that_became_the_message_are_not_said_twice() -> None:
    assert in_ag_ui(words("It is"), words(" late.\n"), message("It is late.")) == [
        {"type": "TEXT_MESSAGE_START", "messageId": "t:1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "t:1", "delta": "It is"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "t:1", "delta": " late.\n"},
        {"type": "TEXT_MESSAGE_END", "messageId": "t:1"},
    ]


def test_a_client_that_missed_the_text_gets_the_whole_message() -> None:
    """A stream requested again with the same Idempotency-Key has no live text, only the final message."""
    start, content, end = in_ui_stream(message("hello", "user"), message("It is late."))

    assert start == {"type": "text-start", "id": "t:1"}
    assert content == {"type": "text-delta", "id": "t:1", "delta": "It is late."}
    assert end == {"type": "text-end", "id": "t:1"}


def test_a_client_that_missed_the_last_text_gets_it() -> None:
    said = in_ui_stream(words("It is"), message("It is late."))
    assert [one.get("delta") for one in said] == [None, "It is", " late.", None]


def test_words_that_are_not_the_message_are_withdrawn() -> None:
    said = in_ui_stream(words("It was"), message("It is late."))

    assert types(said) == [
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
    ]
    assert said[2]["providerMetadata"] == {"headway": {"withdrawn": True}}
    assert said[6] == {"type": "text-delta", "id": "t:2", "delta": "It is late."}


def test_a_restart_takes_the_message_back_and_keeps_all_others() -> None:
    said = in_ag_ui(words("Let me look."), message("Let me look."), call("now"), result({"at": 3}), words("It w"), RESTART)

    assert types(said)[-2:] == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT"]
    mine, looked, called, answered = said[-1]["messages"]
    assert mine == REQUEST
    assert looked == {"id": "t:1", "role": "assistant", "content": "Let me look."}
    function = {"name": "now", "arguments": '{"city":"Rome"}'}
    assert called == {"id": "t:2", "role": "assistant", "toolCalls": [{"id": "t:2", "type": "function", "function": function}]}
    assert answered == {"id": "t:2:result", "role": "tool", "toolCallId": "t:2", "content": '{"at":3}'}


def test_a_restart_of_nothing_says_nothing() -> None:
    assert in_ag_ui(RESTART) == in_ui_stream(RESTART) == []


def test_a_refusal_is_sent_and_the_refused_text_is_withdrawn() -> None:
    refused: Told = ("refused", {"turn_id": "t", "remaining": 2, "reason": "2 items are still open."})

    assert types(in_ag_ui(words("Done!"), refused))[-2:] == ["MESSAGES_SNAPSHOT", "CUSTOM"]
    ended, note = in_ui_stream(words("Done!"), refused)[-2:]
    assert ended["providerMetadata"] == {"headway": {"withdrawn": True}}
    assert note == {
        "type": "data-refused",
        "data": {"turn_id": "t", "remaining": 2, "reason": "2 items are still open."},
        "transient": True,
    }


def test_the_assessors_decision_is_sent_beside_the_conversation() -> None:
    assessed: Told = ("todos_assessed", {"turn_id": "t", "ok": True, "reason": "fine"})

    assert in_ag_ui(assessed) == [{"type": "CUSTOM", "name": "todos_assessed", "value": assessed[1]}]
    assert in_ui_stream(assessed) == [{"type": "data-todos-assessed", "data": assessed[1], "transient": True}]


def test_a_call_that_reuses_an_id_is_a_call_of_its_own() -> None:
    said = in_ui_stream(call("now"), result("one"), call("now"), result("two", is_error=True))

    assert [(one["toolCallId"], one["output"]) for one in said if one["type"] == "tool-output-available"] == [("t:1", "one")]
    assert [(one["toolCallId"], one["errorText"]) for one in said if one["type"] == "tool-output-error"] == [("t:2", "two")]


def test_calls_of_sub_agents_are_their_own_business() -> None:
    changed: Told = ("agent_changed", {"run": {"id": "sub"}})
    said = in_ag_ui(call("delegate"), changed, call("now", "sub"), result("late", "sub"), result("done"))

    assert types(said) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "CUSTOM", "TOOL_CALL_RESULT"]
    assert said[3] == {"type": "CUSTOM", "name": "agent_changed", "value": {"run": {"id": "sub"}}}
    assert said[4]["content"] == "done"


def test_calls_of_one_answer_share_a_step() -> None:
    said = in_ui_stream(call("a", call_id="1"), call("b", call_id="2"), result(1, call_id="1"), result(2, call_id="2"), words("x"))
    assert types(said)[-4:] == ["finish-step", "start-step", "text-start", "text-delta"]
    assert types(said).count("start-step") == 1


def test_each_end_is_sent_once() -> None:
    failed: Told = ("turn_failed", {"turn_id": "t", "error": "The model is away.", "code": "model_error"})
    canceled: Told = ("turn_canceled", {"turn_id": "t"})

    assert in_ag_ui(FINISHED) == [{"type": "RUN_FINISHED", "threadId": "thread", "runId": "run", "result": FINISHED[1]}]
    assert in_ag_ui(failed) == [{"type": "RUN_ERROR", "message": "The model is away.", "code": "model_error"}]
    assert in_ag_ui(canceled) == [{"type": "RUN_ERROR", "message": "The turn was canceled.", "code": "canceled"}]
    finish = {"type": "finish", "finishReason": "stop", "messageMetadata": FINISHED[1]}
    assert in_ui_stream(FINISHED) == [{"type": "finish-step"}, finish, "data: [DONE]"]
    error = {"type": "error", "errorText": "The model is away."}
    assert in_ui_stream(failed) == [{"type": "finish-step"}, error, "data: [DONE]"]
    assert in_ui_stream(canceled) == [{"type": "abort"}, "data: [DONE]"]


def test_an_end_leaves_no_text_open() -> None:
    assert types(in_ag_ui(words("It is"), FINISHED))[-3:] == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


def test_events_unknown_to_front_ends_are_left_out() -> None:
    told: list[Told] = [("todo_changed", {"todo": {}}), ("todos_current", {"current": None}), ("of the future", {})]
    assert in_ag_ui(*told) == in_ui_stream(*told) == []


def test_heartbeats_become_comments_and_events_are_passed_on_whole() -> None:
    data = {"turn_id": "t", "text": "event: x \u2028 \n\n data: y"}
    event = FeedEvent(3, 7, "t", "text_delta", json.dumps(data, ensure_ascii=False), is_broadcast=True)
    heard: list[Told] = []

    def encode(kind: str, data: dict[str, Any]) -> str:
        heard.append((kind, data))
        return f"<{kind}>"

    assert build_encoder(encode)([build_ping(3), event]) == b": ping\n\n<text_delta>"
    assert heard == [("text_delta", data)]
