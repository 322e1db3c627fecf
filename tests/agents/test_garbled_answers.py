"""Answers that violate a provider's protocol: the turn fails and reports what was received, and nothing of the answer is stored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.turn_harness import CHEAP_TIER, Talk, in_order, open_talk, plan_call, queue_call, tiers
from tests.model_server import Reply, calls, chunk, encode_stream, raw, text
from tests.tables import each_row

HELLO = text("Hello.")
HI = chunk({"role": "assistant", "content": "Hi"})
END = chunk({}, "stop")
JSON = "application/json"
HTML = "<html>\n<body>Sign in to the proxy</body>\n</html>"
KEY = "test-key"


def tool_call_delta(**function: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


def stream_with_usage(usage: Any) -> str:
    return encode_stream(HI, END, chunk({}, choices=[], usage=usage))


# Transient failures: the answer was cut off, or a proxy answered instead of the provider.
PASSING: dict[str, tuple[Reply, str]] = {
    "an empty body": (raw(""), "It sent nothing."),
    "no body": (Reply(raw=b"HTTP/1.1 204 No Content\r\n\r\n"), "It sent nothing."),
    "a page": (raw(HTML, kind="text/html"), "<html> <body>Sign in to the proxy</body> </html>"),
    "a page of a broken proxy": (raw(HTML, 502, "text/html"), "Sign in to the proxy"),
    "a stream without an end": (raw(encode_stream(HI, done=False)), '"content": "Hi"'),
    "a body that is cut off": (raw(encode_stream(HI, done=False), Content_Length="9999"), '"content": "Hi"'),
    "a line that is no JSON": (raw(encode_stream(HI, '{"choices": [')), 'data: {"choices": [ data: [DONE]'),
    "a line that is no text": (raw(b"data: \xff\xfe\n\n"), "data: \N{REPLACEMENT CHARACTER}"),
    "an error in the stream": (raw(encode_stream(HI, {"error": "out of memory"})), "out of memory"),
    "no HTTP": (Reply(raw=b"220 mail.example.org ESMTP\r\n\r\n"), "Connection error"),
    "nothing": (Reply(raw=b""), "Connection error"),
}
# Permanent failures: the body is well-formed, but it is not an answer.
STAYING: dict[str, tuple[Reply, str]] = {
    "an array": (raw("[1, 2]", kind=JSON), "[1, 2]"),
    "a string": (raw('"hello"', kind=JSON), '"hello"'),
    "null": (raw("null", kind=JSON), "null"),
    "another object": (raw('{"ok": true}', kind=JSON), '{"ok": true}'),
    "text": (raw("It works!", kind="text/plain"), "It works!"),
    "an array in the stream": (raw(encode_stream([1, 2])), "data: [1, 2]"),
    "null in the stream": (raw(encode_stream(None)), "data: null"),
    "an empty object in the stream": (raw(encode_stream({})), "data: {}"),
    "deep nesting": (raw(encode_stream("[" * 100_000)), "data: [[["),
    "choices that are null": (raw(encode_stream(chunk({}, choices=None))), '"choices": null'),
    "choices that are text": (raw(encode_stream(chunk({}, choices="abc"))), '"choices": "abc"'),
    "a choice that is null": (raw(encode_stream(chunk({}, choices=[None]))), '"choices": [null]'),
    "a delta that is text": (raw(encode_stream(chunk("abc"), END)), '"delta": "abc"'),
    "a finish reason that is a list": (raw(encode_stream(HI, chunk({}, ["stop"]))), '"finish_reason": ["stop"]'),
    "a tool call without a name": (raw(encode_stream(chunk(tool_call_delta(arguments="{}")), chunk({}, "tool_calls"))), "call_1"),
    "a tool call with a number for a name": (
        raw(encode_stream(chunk(tool_call_delta(name=5, arguments="{}")), chunk({}, "tool_calls"))),
        "not an answer",
    ),
    "a tool call with a number for arguments": (
        raw(encode_stream(chunk(tool_call_delta(name="now", arguments=5)), chunk({}, "tool_calls"))),
        "not an answer",
    ),
    "tool calls that are text": (raw(encode_stream(chunk({"tool_calls": "now"}), END)), '"tool_calls": "now"'),
    "tool calls that were announced only": (raw(encode_stream(HI, chunk({}, "tool_calls"))), "none of them has a name"),
    "a usage that is a list": (raw(stream_with_usage([1])), '"usage": [1]'),
    "a usage beyond belief": (raw(stream_with_usage({"prompt_tokens": 10**12, "completion_tokens": 5})), "1000000000000 input"),
    "half a token": (
        raw(stream_with_usage({"prompt_tokens": 1.5, "completion_tokens": 5, "total_tokens": 6})),
        '"prompt_tokens": 1.5',
    ),
    "an id that is a number": (raw(encode_stream(chunk({"content": "Hi"}, id=5), chunk({}, "stop", id=5))), '"id": 5'),
}


def check_that_nothing_is_stored(talk: Talk, quote: str) -> None:
    (event,) = talk.list_event_data("turn_failed")
    assert event["code"] == "model_failed"
    assert "openai-chat:fake-1" in event["error"]
    assert quote in event["error"]
    assert "\n" not in event["error"]
    assert len(event["error"]) < 1_200
    assert len(talk.entries()) == 1, "the request, and no answer"
    assert (talk.answers(), talk.effects(), talk.model_calls()) == ([], [], [])
    assert (talk.pool().spent, talk.read_streamed_text()) == (0, "")


@pytest.fixture
def talk(sqlite_url: str, tmp_path: Path) -> Iterator[Talk]:
    with open_talk(sqlite_url, tmp_path, HELLO) as talk:
        yield talk


@pytest.fixture
def trying_twice(sqlite_url: str, tmp_path: Path) -> Iterator[Talk]:
    with open_talk(sqlite_url, tmp_path, HELLO, model_retries="2") as talk:
        yield talk


@each_row("name", STAYING)
def test_an_invalid_answer_fails_the_turn_and_is_not_retried(talk: Talk, name: str) -> None:
    reply, quote = STAYING[name]
    talk.start_over(reply)
    assert talk.say()["status"] == "failed"
    assert len(talk.server.requests) == 1
    check_that_nothing_is_stored(talk, quote)


@each_row("name", PASSING)
def test_an_answer_broken_in_transit_is_retried(trying_twice: Talk, name: str) -> None:
    """004, QUEUE-01: "External calls retry with exponential backoff on transient failures"."""
    reply, quote = PASSING[name]
    trying_twice.start_over(reply)
    assert trying_twice.say()["status"] == "failed"
    assert len(trying_twice.server.requests) == 2
    check_that_nothing_is_stored(trying_twice, quote)


def test_a_stream_that_broke_off_is_asked_for_again_and_answered(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(raw(encode_stream(HI, done=False)), HELLO)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert (talk.answers(), talk.read_streamed_text(), len(talk.model_calls())) == (["Hello."], "Hello.", 1)


def test_a_failure_names_the_remedy(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, raw('{"ok": true}', kind=JSON)) as talk:
        talk.say()
        (event,) = talk.list_event_data("turn_failed")
        assert event["error"].endswith("Check the provider's address, the model's name and the provider's status, then try again.")


def test_the_quoted_answer_is_shortened_and_contains_no_secret(sqlite_url: str, tmp_path: Path) -> None:
    page = f"<html>{KEY} sk-proj-0123456789abcdefghij {'x ' * 10_000} the last words {KEY}</html>"
    with open_talk(sqlite_url, tmp_path, raw(page, kind="text/html"), model_retries="1") as talk:
        talk.say()
        (event,) = talk.list_event_data("turn_failed")
        assert "the last words" in event["error"]
        assert len(event["error"]) < 1_000
        stored = str(talk.events()) + str(talk.messages()) + str(talk.run_row()) + str(talk.job())
        assert KEY not in stored
        assert "0123456789abcdef" not in stored


# Finish reasons


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [("stop", "answered"), ("eos", "answered"), ("content_filter", "filtered"), ("length", "answered"), (None, "answered")],
)
def test_every_reason_to_stop_is_handled(sqlite_url: str, tmp_path: Path, finish: str | None, outcome: str) -> None:
    """004, pitfall 4: "Explicitly handle all `finish_reason` values". An unknown reason, or none at the end of a complete stream,
    counts as an answer."""
    script = tiers(in_order(raw(encode_stream(HI, chunk({}, finish))), HELLO), text("Hi, said so far."))
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        assert talk.say()["outcome"] == outcome


def test_a_reason_to_call_tools_calls_them(sqlite_url: str, tmp_path: Path) -> None:
    """004, pitfall 4: "Explicitly handle all `finish_reason` values: … `'tool_calls'` (execute tools)"."""
    with open_talk(sqlite_url, tmp_path, in_order(calls(("now", {})), HELLO)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [effect.tool for effect in talk.effects()] == ["now"]


# The assessor


@pytest.mark.parametrize("garbled", [raw(encode_stream([1])), raw(HTML), raw(encode_stream(chunk({}, choices=None)))])
def test_an_assessor_that_sends_anything_else_accepts_nothing(sqlite_url: str, tmp_path: Path, garbled: Reply) -> None:
    strong = in_order(queue_call("dig"), *[text("I dug.")] * 3)
    with open_talk(sqlite_url, tmp_path, tiers(strong, garbled), model_cheap=CHEAP_TIER, model_retries="2") as talk:
        turn = talk.say(mode="queue")
        assert (turn["status"], turn["outcome"]) == ("finished", "incomplete")
        assert [todo.status for todo in talk.plan()] == ["pending"]


@pytest.mark.parametrize("garbled", [raw(encode_stream([1])), raw(HTML)])
def test_a_summary_that_is_none_loses_no_turn(sqlite_url: str, tmp_path: Path, garbled: Reply) -> None:
    script = tiers(in_order(text("Half a", finish="length"), HELLO), garbled)
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER, model_retries="2") as talk:
        assert talk.say()["outcome"] == "answered"


def test_a_turn_that_had_advanced_keeps_its_progress(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(plan_call("dig"), raw("[]", kind=JSON))) as talk:
        turn = talk.say()
        assert (turn["status"], [todo["title"] for todo in turn["incomplete"]]) == ("failed", ["dig"])
        assert len(talk.model_calls()) == 1
