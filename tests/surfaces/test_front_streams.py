"""Encoding the events of a turn for AG-UI and the AI SDK: cases that are rare in a complete conversation."""

import json
from typing import Any

from headway.cells.redirects import Departure
from headway.feed import FeedEvent, build_moved, build_ping
from headway.surfaces.http import ag_ui, ui_stream
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


def message(content: str, role: str = "assistant", kind: str = "text") -> Event:
    return "message", {"id": 1, "turn_id": "t", "role": role, "content": content, "kind": kind}


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
    encoder = AgUiEncoder("thread", "run", [REQUEST], state)
    return decode("".join(encoder.encode(kind, data) for kind, data in (STARTED, *events)))[3:]


def encode_ui_stream(*events: Event) -> list[Any]:
    stream = UiStreamEncoder()
    return decode("".join(stream.encode(kind, data) for kind, data in (STARTED, *events)))[2:]


def list_types(frames: list[Any]) -> list[str]:
    return [frame if isinstance(frame, str) else frame["type"] for frame in frames]


def test_a_run_begins_with_an_empty_list_in_the_clients_own_state() -> None:
    encoder = AgUiEncoder("thread", "run", [REQUEST], {"theirs": 1, "todos": "of the turn before"})
    started, turn, snapshot = decode(encoder.encode(*STARTED))

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


def test_decisions_of_the_assessor_and_results_of_checks_are_sent_beside_the_conversation() -> None:
    assessed: Event = ("todos_assessed", {"turn_id": "t", "ok": True, "reason": "fine"})
    checked: Event = ("checks_ran", {"receipt_id": 3, "todo_id": 8, "ok": False, "override": None, "failures": []})

    assert encode_ag_ui(assessed, checked) == [
        {"type": "CUSTOM", "name": "todos_assessed", "value": assessed[1]},
        {"type": "CUSTOM", "name": "checks_ran", "value": checked[1]},
    ]
    assert encode_ui_stream(assessed, checked) == [
        {"type": "data-todos-assessed", "data": assessed[1], "transient": True},
        {"type": "data-checks-ran", "data": checked[1], "transient": True},
    ]


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


def test_the_runtimes_closing_words_are_marked_and_a_refused_answer_is_withdrawn() -> None:
    refused: Event = ("refused", {"turn_id": "t", "remaining": 2, "reason": "2 items are still open."})
    events = (text_delta("All done!"), refused, message("The agent was stopped.", kind="closing"), FINISHED)

    ui = encode_ui_stream(*events)
    ends = [frame for frame in ui if isinstance(frame, dict) and frame["type"] == "text-end"]
    assert [frame["providerMetadata"]["headway"] for frame in ends] == [{"withdrawn": True}, {"kind": "closing"}]
    frames = encode_ag_ui(*events)
    (snapshot,) = (frame for frame in frames if frame["type"] == "MESSAGES_SNAPSHOT")
    assert snapshot["messages"] == [REQUEST]
    (mark,) = (frame["value"] for frame in frames if frame.get("name") == "message_kind")
    (content,) = (frame for frame in frames if frame["type"] == "TEXT_MESSAGE_CONTENT" and frame["messageId"] == mark["messageId"])
    assert (mark["kind"], content["delta"]) == ("closing", "The agent was stopped.")


def test_a_canceled_turn_keeps_what_was_streamed() -> None:
    canceled: Event = ("turn_canceled", {"turn_id": "t", "incomplete": []})
    for events in ((text_delta("It is"), canceled), (text_delta("It is"), message("It is", kind="stopped"), canceled)):
        assert list_types(encode_ag_ui(*events)) == [
            *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "CUSTOM", "RUN_ERROR")
        ]
        assert list_types(encode_ui_stream(*events)) == ["text-start", "text-delta", "text-end", "abort", "data: [DONE]"]


def test_an_end_leaves_no_text_open() -> None:
    assert list_types(encode_ag_ui(text_delta("It is"), FINISHED))[-3:] == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


def test_events_unknown_to_front_ends_are_left_out() -> None:
    events: list[Event] = [("todo_changed", {"todo": {}}), ("todos_current", {"current": None}), ("of the future", {})]
    assert encode_ag_ui(*events) == encode_ui_stream(*events) == []


def test_heartbeats_become_comments_and_events_are_passed_on_whole() -> None:
    content = "event: x \u2028 \n\n data: y"
    kind, data = text_delta(content)
    event = FeedEvent(3, 7, "t", kind, json.dumps(data, ensure_ascii=False), is_broadcast=True)

    comment, _, encoded = build_encoder(UiStreamEncoder())([build_ping(3), event]).decode().partition("\n\n")
    assert comment == ": ping"
    assert [frame["delta"] for frame in decode(encoded) if frame["type"] == "text-delta"] == [content]


def test_a_tenant_that_moves_ends_the_run_with_an_error() -> None:
    moved = build_moved(Departure("eu2", "https://eu2.example.org"))
    (error,) = decode(build_encoder(AgUiEncoder("thread", "run", [REQUEST], None))([moved]).decode())
    assert (error["type"], error["code"]) == ("RUN_ERROR", "wrong_cell")
    assert "moved to another cell" in error["message"]
    assert list_types(decode(build_encoder(UiStreamEncoder())([moved]).decode())) == ["error", "data: [DONE]"]


# Turns that wait for a person

APPROVAL = {"id": 4, "run_id": "r", "call_id": "c", "role": "index", "tool": "x", "arguments": {}, "why": "a rule", "expires_at": 5}
QUESTION = {"id": 7, "run_id": "r", "question": "Which?", "choices": [], "answer": "", "state": "open"}


def requested(**fields: Any) -> Event:
    return "approval_requested", {"turn_id": "t", "approval": {**APPROVAL, "state": "proposed", **fields}}


def decided(state: str = "approved", **fields: Any) -> Event:
    return "approval_decided", {"turn_id": "t", "approval": {**APPROVAL, "state": state, **fields}}


def asked(run_id: str = "r") -> Event:
    return "question_asked", {"turn_id": "t", "question": {**QUESTION, "run_id": run_id}}


def answered(answer: str, state: str = "answered") -> Event:
    return "question_answered", {"turn_id": "t", "question": {**QUESTION, "state": state, "answer": answer}}


def continue_ag_ui(messages: list[dict[str, Any]], *events: Event) -> list[Any]:
    encoder = AgUiEncoder("thread", "run", messages, {"mine": 1}, ag_ui.find_known_parts("t", messages))
    return decode("".join(encoder.encode(kind, data) for kind, data in (STARTED, *events)))[2:]


def continue_ui_stream(parts: list[dict[str, Any]], *events: Event) -> tuple[list[Any], UiStreamEncoder]:
    encoder = UiStreamEncoder(ui_stream.find_known_parts({"parts": parts}))
    return decode("".join(encoder.encode(kind, data) for kind, data in (STARTED, *events)))[1:], encoder


def test_a_call_of_a_sub_agent_is_shown_if_a_person_must_approve_it() -> None:
    """Its result is also shown, and no other call of the sub-agent."""
    sub = {"run_id": "sub", "call_id": "s"}
    frames = encode_ag_ui(
        tool_call("delegate"),
        tool_call("x", "sub", "s"),
        requested(**sub),
        tool_call("now", "sub", "n"),
        decided(**sub),
        tool_result("made", "sub", call_id="s"),
        tool_result("late", "sub", call_id="n"),
    )
    assert [frame["toolCallName"] for frame in frames if frame["type"] == "TOOL_CALL_START"] == ["delegate", "x"]
    (result,) = (frame for frame in frames if frame["type"] == "TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["content"]) == ("t:approval-4", "made")


def test_only_open_requests_end_a_stream() -> None:
    encoder = UiStreamEncoder()
    events = (STARTED, tool_call("x"), requested(), decided(), tool_call("ask_person", call_id="q"), asked())
    frames = decode("".join(encoder.encode(kind, data) for kind, data in events) + encoder.encode_wait())

    assert "tool-approval-request" not in list_types(frames)
    assert list_types(frames)[-4:] == ["tool-input-available", "finish-step", "finish", "data: [DONE]"]
    assert (frames[-4]["toolCallId"], frames[-4]["toolName"]) == ("t:question-7", "ask_person")
    assert "providerExecuted" not in frames[-4]


def test_a_question_looks_like_a_call_whoever_asks() -> None:
    """A sub-agent's question is shown like the main agent's, and one that could not be asked has the reason as its result."""
    own = encode_ag_ui(tool_call("ask_person"), asked(), answered("blue"), tool_result({"answer": "blue"}))
    of_sub_agent = encode_ag_ui(asked("sub"), answered("blue"))
    unasked = encode_ag_ui(tool_call("ask_person"), tool_result("no", is_error=True))
    canceled = encode_ag_ui(asked(), answered("", "canceled"))

    called = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert list_types(own) == list_types(of_sub_agent) == [*called, "CUSTOM", "TOOL_CALL_RESULT", "CUSTOM"]
    assert own[4]["content"] == "blue"
    assert list_types(unasked) == [*called, "TOOL_CALL_RESULT"]
    assert canceled[4]["content"] == "The turn ended before anyone answered."


def test_a_question_that_itself_needed_approval_is_two_calls() -> None:
    frames = encode_ag_ui(tool_call("ask_person"), requested(), decided(), asked(), answered("blue"), tool_result("blue"))
    ids = [(frame["type"], frame["toolCallId"]) for frame in frames if frame["type"] in ("TOOL_CALL_START", "TOOL_CALL_RESULT")]
    assert ids == [
        ("TOOL_CALL_START", "t:1"),
        ("TOOL_CALL_START", "t:question-7"),
        ("TOOL_CALL_RESULT", "t:question-7"),
        ("TOOL_CALL_RESULT", "t:1"),
    ]


def test_a_continued_run_repeats_nothing_that_the_client_has() -> None:
    messages: list[dict[str, Any]] = [
        REQUEST,
        {"id": "t:0.1", "role": "assistant", "content": "Let me look."},
        {"id": "t:1", "role": "assistant", "toolCalls": [{"id": "t:1"}]},
        {"id": "t:1:result", "role": "tool", "toolCallId": "t:1", "content": "3"},
        {"id": "t:2", "role": "assistant", "toolCalls": [{"id": "t:2"}]},
    ]
    notice: Event = ("operator_notice", {"text": "An agent asks."})
    before = [message("Let me look."), tool_call("now"), todos_updated("milk"), notice, tool_result(3), tool_call("x", call_id="d")]
    frames = continue_ag_ui(
        messages,
        *before,
        requested(call_id="d"),
        decided(call_id="d"),
        tool_result(8, call_id="d"),
        message("Let me look."),
        FINISHED,
    )
    assert list_types(frames) == [
        "STATE_SNAPSHOT",
        *["CUSTOM"] * 2,
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert frames[0]["snapshot"] == {"mine": 1, "todos": {"total": 1, "remaining": 1, "current": None, "items": ["milk"]}}
    assert frames[3]["toolCallId"] == "t:2"
    assert frames[4]["messageId"] not in {message["id"] for message in messages}


def test_a_rejected_call_is_denied_for_the_client_that_was_asked() -> None:
    events = (tool_call("x"), requested(), decided("rejected"), tool_result("A person rejected this call.", is_error=True))
    part = {"type": "dynamic-tool", "toolCallId": "t:1", "state": "approval-responded", "approval": {"id": "4", "approved": False}}
    known, _ = continue_ui_stream([part], *events)
    new = encode_ui_stream(*events)

    assert known[-1] == {"type": "tool-output-denied", "toolCallId": "t:1"}
    assert new[-1]["type"] == "tool-output-error"


def test_an_ended_message_has_no_call_that_a_client_would_send_again() -> None:
    """A client sends its message again while all calls of the last step have an answer."""
    part = {"type": "dynamic-tool", "toolCallId": "t:question-7", "state": "output-available", "output": "blue"}
    frames, _ = continue_ui_stream([part], tool_call("ask_person"), asked(), answered("blue"), ("turn_canceled", {"turn_id": "t"}))
    assert list_types(frames)[-4:] == ["data-question-answered", "start-step", "abort", "data: [DONE]"]
    assert "tool-output-error" not in list_types(frames)
    open_call = {"type": "dynamic-tool", "toolCallId": "t:1", "state": "approval-responded", "approval": {"id": "4"}}
    frames, _ = continue_ui_stream([open_call], tool_call("x"), requested(), ("turn_canceled", {"turn_id": "t"}))
    assert list_types(frames)[-4:] == ["tool-output-error", "start-step", "abort", "data: [DONE]"]


def test_a_client_is_asked_a_question_once() -> None:
    part = {"type": "dynamic-tool", "toolCallId": "t:question-7", "state": "input-available"}
    _, encoder = continue_ui_stream([part], tool_call("ask_person"), asked())
    assert list_types(decode(encoder.encode_wait())) == ["finish", "data: [DONE]"]


def test_messages_that_nobody_would_send_are_read_without_harm() -> None:
    parts: list[Any] = ["x", {}, {"type": "dynamic-tool", "toolCallId": 3}, {"type": "data-approval", "data": {"tool_call_id": []}}]
    for message_ in ({"parts": parts}, {"parts": "x"}, {}, {"parts": None}):
        assert ui_stream.find_known_parts(message_) == ([], [], [], [])
        assert ui_stream.list_answers(message_) == []
    assert ag_ui.find_known_parts("t", [{"id": 3}, {"id": "t:1", "role": ["tool"], "content": 4}]) == ([], [], [], ())
