"""Answers that a provider broke off: Google's malformed calls are asked for again, and the text of a refusal is shown."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.scripted_provider import GOOGLE, RESPONSES, google_event, run_provider
from tests.agents.turn_harness import in_order, open_talk, plan_call
from tests.model_server import chunk, encode_stream, raw, text

pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # Google's library warns about odd finish reasons

HELLO = google_event([{"text": "Hello."}])
CALL = google_event([{"functionCall": {"name": "now", "args": {}}}])
MALFORMED = google_event([], "MALFORMED_FUNCTION_CALL")
UNEXPECTED = google_event([], "UNEXPECTED_TOOL_CALL")
REFUSAL = "I can't help with that."


def list_texts(request: dict[str, Any]) -> list[str]:
    return [part.get("text", "") for content in request["contents"] for part in content["parts"]]


def count_hints(request: dict[str, Any]) -> int:
    return sum("malformed" in said for said in list_texts(request))


@pytest.mark.parametrize("broken", [MALFORMED, UNEXPECTED, google_event([{"text": "I call"}], "MALFORMED_FUNCTION_CALL")])
def test_a_malformed_call_is_asked_for_again_with_a_hint(sqlite_url: str, tmp_path: Path, broken: str) -> None:
    with run_provider(broken, HELLO) as provider, open_talk(sqlite_url, tmp_path, text(""), model=GOOGLE) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [count_hints(request) for request in provider.requests] == [0, 1]
        assert "I call" not in str(provider.requests[1])
        assert [data["reason"] for data in talk.list_event_data("refused")] == ["The tool call was malformed."]
        assert talk.answers() == ["Hello."]


def test_the_third_malformed_call_in_a_row_fails_the_turn_in_one_sentence(sqlite_url: str, tmp_path: Path) -> None:
    with run_provider(MALFORMED) as provider, open_talk(sqlite_url, tmp_path, text(""), model=GOOGLE) as talk:
        assert talk.say()["status"] == "failed"
        (event,) = talk.list_event_data("turn_failed")
        assert event["error"] == "The model's tool calls were malformed 3 times in a row (MALFORMED_FUNCTION_CALL)."
        assert len(provider.requests) == 3


def test_hints_are_counted_for_each_step(sqlite_url: str, tmp_path: Path) -> None:
    bodies = (MALFORMED, MALFORMED, CALL, MALFORMED, MALFORMED, HELLO)
    with run_provider(*bodies) as provider, open_talk(sqlite_url, tmp_path, text(""), model=GOOGLE) as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(provider.requests) == 6
        assert [effect.tool for effect in talk.effects()] == ["now"]


def test_hints_are_counted_across_a_crash(sqlite_url: str, tmp_path: Path) -> None:
    released = threading.Event()

    def hold_reply() -> Iterator[str]:
        released.wait()
        yield MALFORMED

    with (
        run_provider(MALFORMED, hold_reply(), MALFORMED) as provider,
        open_talk(sqlite_url, tmp_path, text(""), model=GOOGLE) as talk,
    ):

        async def scenario() -> None:
            task = await talk.begin()
            await talk.until(lambda: len(provider.requests) == 2)
            await talk.crash(task)

        try:
            talk.wait(scenario())
        finally:
            released.set()
        assert len(talk.list_event_data("refused")) == 1
        assert talk.resume_turn()["status"] == "failed"
        assert len(talk.list_event_data("refused")) == 2
        assert len(talk.model_calls()) == 3


def test_another_error_is_not_asked_for_again(sqlite_url: str, tmp_path: Path) -> None:
    with run_provider(google_event([], "LANGUAGE")) as provider, open_talk(sqlite_url, tmp_path, text(""), model=GOOGLE) as talk:
        assert talk.say()["status"] == "failed"
        assert len(provider.requests) == 1


# Refusals

CHAT_REFUSAL = raw(encode_stream(chunk({"refusal": "I can't "}), chunk({"refusal": "help with that."}), chunk({}, "stop")))


def test_the_text_of_a_refusal_is_the_answer(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Tell"), CHAT_REFUSAL)) as talk:
        assert talk.say()["outcome"] == "filtered"
        assert talk.answers() == [REFUSAL]
        assert [notice for notice, _ in talk.notices()] == ["content_filter"]


def build_responses_stream(*events: dict[str, Any]) -> str:
    """Return a stream in the format of OpenAI's Responses API."""
    response: dict[str, Any] = {
        **dict.fromkeys(("error", "incomplete_details", "instructions")),
        "id": "resp_1",
        "object": "response",
        "created_at": 1_750_000_000,
        "model": "fake-1",
        "output": [],
        "tools": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "temperature": 1,
        "top_p": 1,
        "metadata": {},
    }
    usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        *events,
        {"type": "response.completed", "response": {**response, "status": "completed", "usage": {**usage, **details}}},
    ]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(whole)]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered)


def test_a_refusal_of_the_responses_api_is_the_answer_too(sqlite_url: str, tmp_path: Path) -> None:
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    body = build_responses_stream(
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {"type": "response.refusal.delta", **place, "delta": "I can't "},
        {"type": "response.refusal.done", **place, "refusal": REFUSAL},
    )
    with run_provider(body), open_talk(sqlite_url, tmp_path, text(""), model=RESPONSES) as talk:
        assert talk.say()["outcome"] == "filtered"
        assert talk.answers() == [REFUSAL]


def test_a_refusal_without_words_gets_ours(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, raw(encode_stream(chunk({"refusal": " "}), chunk({}, "stop")))) as talk:
        assert talk.say()["outcome"] == "filtered"
        closing = talk.messages()[-1]
        assert closing.kind == "closing"
        assert "withheld its answer (content filter)" in closing.content


# Empty answers


def test_empty_answers_end_with_words_about_them(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        assert talk.say()["outcome"] == "incomplete"
        assert talk.answers() == ["The agent was stopped, because the model's answers were empty."]
