"""Limits on one answer: tool calls, size, duration and goals. Usage that a provider does not report is estimated."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse

from headway.ledger.money import NANOS_PER_DOLLAR
from tests.agents.person_harness import write_policy
from tests.agents.scripted_provider import CHAT, Body, run_provider
from tests.agents.turn_harness import CHEAP_TIER, in_order, open_talk, tiers
from tests.model_server import calls, chunk, encode_stream, raw, text

HELLO = text("Hello.")
END = encode_stream(chunk({"content": "Hello."}), chunk({}, "stop"))
PRICES = '["openai-chat:fake-1"]\ninput = 3\noutput = 30\n'


def test_at_most_64_calls_of_an_answer_are_made_and_the_model_is_told(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(calls(*[("now", {})] * 70), HELLO)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(talk.effects()) == len(talk.requests[1].tool_results) == 64
        assert talk.requests[1].last.startswith("6 calls of your answer were not made: one answer may make 64 calls.")


def test_an_answer_of_thousands_of_calls_is_not_read_to_its_end(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(calls(*[("now", {})] * 1_000), HELLO)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(talk.effects()) == 64
        assert talk.requests[1].last.startswith("At least 65 calls of your answer were not made: one answer may make 64 calls.")


def test_one_event_with_thousands_of_calls_is_not_parsed(sqlite_url: str, tmp_path: Path) -> None:
    made = [{"index": n, "id": f"c{n}", "type": "function", "function": {"name": "now", "arguments": "{}"}} for n in range(2_000)]
    body = raw(encode_stream(chunk({"tool_calls": made}), chunk({}, "tool_calls")))
    (tmp_path / "prices.toml").write_text(PRICES)
    with open_talk(sqlite_url, tmp_path, in_order(body, HELLO)) as talk:
        assert talk.say()["status"] == "failed"
        assert talk.pool().spent >= 2_000 * NANOS_PER_DOLLAR * 30 // 1_000_000
        assert "One event of its answer has more than 10,000 values" in str(talk.run_row().result)
        assert talk.effects() == []


def test_64_calls_are_made_without_a_word(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(calls(*[("now", {})] * 64), HELLO)) as talk:
        talk.say()
        assert len(talk.requests[1].tool_results) == 64
        assert "not made" not in str(talk.requests[1].texts)


def test_dropped_calls_are_mentioned_after_a_crash_too(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(calls(*[("now", {})] * 65), HELLO, HELLO)) as talk:

        async def scenario() -> None:
            task = await talk.begin()
            await talk.wait_for_requests(1)
            talk.server.hold()
            await talk.until(lambda: len(talk.entries()) == 3)
            await talk.crash(task)

        talk.wait(scenario())
        talk.server.release()
        assert talk.resume_turn()["outcome"] == "answered"
        assert "1 call of your answer was not made" in str(talk.requests[-1].texts)


@pytest.mark.parametrize(("tool", "more"), [("set_goal", {}), ("discover_goal", {"evidence": "It helps."})])
def test_an_answer_sets_at_most_8_goals(sqlite_url: str, tmp_path: Path, tool: str, more: dict[str, str]) -> None:
    write_policy(tmp_path, 'tool = "set_goal"\ndecision = "allow"')
    made = [(tool, {"description": f"Goal {number}", **more}) for number in range(10)]
    with open_talk(sqlite_url, tmp_path, in_order(calls(*made), HELLO)) as talk:
        talk.say()
        assert [effect.state for effect in talk.effects()] == ["succeeded"] * 8 + ["failed"] * 2
        assert "One answer may set or propose 8 goals" in talk.effects()[-1].result
        rows = talk.database.read(lambda tx: tx.all("SELECT id FROM goals WHERE tenant_id = ?", talk.tenant_id))
        assert len(rows) == 8


def test_an_answer_of_more_than_a_megabyte_is_cut_off(sqlite_url: str, tmp_path: Path) -> None:
    words = "".join(f"{number} " for number in range(17_000))
    endless = raw(encode_stream(*[chunk({"content": words})] * 30, chunk({}, "stop")))
    script = tiers(in_order(endless, HELLO), text("It repeated a word."))
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        assert talk.say()["outcome"] == "answered"
        cut, rest = [entry.message for entry in talk.entries() if isinstance(entry.message, ModelResponse) and not entry.sent]
        assert cut.finish_reason == "length"
        assert 1_000_000 < len(cut.text or "") <= 1_100_000
        assert rest.text == "Hello."
        assert talk.answers()[-1] == f"{cut.text}Hello."


def test_arguments_count_towards_the_megabyte(sqlite_url: str, tmp_path: Path) -> None:
    part = {"tool_calls": [{"index": 0, "function": {"arguments": "word " * 20_000}}]}
    start = {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "remember", "arguments": '{"text": "'}}]}
    endless = raw(encode_stream(chunk(start), *[chunk(part)] * 30, chunk({}, "tool_calls")))
    script = tiers(in_order(endless, HELLO), text("It repeated a word."))
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.effects() == []


def drip(piece: str) -> Iterator[str]:
    """Send a piece of an answer now and then, without an end."""
    for _ in range(2_000):
        yield piece
        time.sleep(0.1)  # the pace of a slow server


def test_an_answer_that_never_ends_is_cut_off(sqlite_url: str, tmp_path: Path) -> None:
    def choose(request: dict[str, Any]) -> Body:
        has_begun = "word word" in str(request["messages"])
        return END if has_begun else drip(encode_stream(chunk({"content": "word "}), done=False))

    with run_provider(choose), open_talk(sqlite_url, tmp_path, HELLO, model=CHAT, model_timeout_s="1") as talk:
        assert talk.say()["outcome"] == "answered"
        assert re.fullmatch(r"(word )+Hello\.", talk.answers()[-1])


def test_thinking_that_never_ends_is_a_failure_and_asked_for_again(sqlite_url: str, tmp_path: Path) -> None:
    def choose(_: dict[str, Any]) -> Body:
        has_failed = f"{CHAT} at {provider.url} did not end its answer in time: the limit is 5 s, 5 times" in talk.job().errors
        return END if has_failed else drip(encode_stream(chunk({"reasoning_content": "hm "}), done=False))

    with run_provider(choose) as provider, open_talk(sqlite_url, tmp_path, HELLO, model=CHAT, model_timeout_s="1") as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(provider.requests) > 1
        assert talk.answers() == ["Hello."]


def test_an_answer_that_repeats_itself_is_stopped_and_asked_for_again(sqlite_url: str, tmp_path: Path) -> None:
    repeating = raw(encode_stream(*[chunk({"content": "The sum is 4. " * 20})] * 250, chunk({}, "stop")))
    with open_talk(sqlite_url, tmp_path, in_order(repeating, HELLO)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.answers() == ["Hello."]
        assert talk.requests[-1].last.startswith("Your answer repeated itself and was stopped.")
        (stopped,) = [entry.message for entry in talk.entries() if isinstance(entry.message, ModelResponse) and not entry.sent]
        assert len(stopped.text or "") < 10_000


def test_an_endless_list_of_calls_is_stopped_and_made(sqlite_url: str, tmp_path: Path) -> None:
    """A small model writes such a list until the length limit. Its first calls are made, and it gets their results."""
    lines = "".join(f'{{"name": "calculate", "arguments": {{"expression": "{n} + 1"}}}}\n' for n in range(2_000))
    endless = raw(encode_stream(*[chunk({"content": lines[place : place + 50]}) for place in range(0, len(lines), 50)]))
    with open_talk(sqlite_url, tmp_path, in_order(endless, HELLO)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert 8 <= len(talk.effects()) <= 20
        assert [effect.result for effect in talk.effects()[:2]] == ['{"result": 1}', '{"result": 2}']


def test_a_model_that_only_repeats_itself_ends_the_turn(sqlite_url: str, tmp_path: Path) -> None:
    repeating = raw(encode_stream(*[chunk({"content": "and " * 20})] * 250, chunk({}, "stop")))
    with open_talk(sqlite_url, tmp_path, repeating) as talk:
        assert talk.say()["outcome"] == "incomplete"
        assert len(talk.requests) == 3
        assert talk.answers() == ["The agent was stopped, because the model's answers repeated themselves."]


@pytest.mark.parametrize("answer", ["| 0 | 0 |\n" * 100, "".join(f"{n} squared is {n * n}. " for n in range(500))])
def test_long_and_regular_answers_are_not_repetition(sqlite_url: str, tmp_path: Path, answer: str) -> None:
    with open_talk(sqlite_url, tmp_path, text(answer)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.answers() == [answer]


# Usage


def test_missing_usage_of_a_priced_model_is_billed_at_the_estimate(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    answer = "A long answer. " * 100
    with open_talk(sqlite_url, tmp_path, raw(encode_stream(chunk({"content": answer}), chunk({}, "stop")))) as talk:
        talk.say("What is it? " * 500)
        (call,) = talk.model_calls()
        (request,) = talk.requests
        sent = sum(len(said) for said in request.texts)
        assert len(answer) // 4 < call.output_tokens < len(answer) // 2
        assert call.input_tokens >= sent // 3 > 2_000
        assert call.cost == (call.input_tokens * 3 + call.output_tokens * 30) * NANOS_PER_DOLLAR // 1_000_000
        assert talk.pool().spent == call.cost


def test_the_input_of_an_answer_that_was_cut_off_is_billed(sqlite_url: str, tmp_path: Path) -> None:
    """The provider reports usage at the end of the stream, which is closed before that."""
    (tmp_path / "prices.toml").write_text(PRICES)
    repeating = raw(encode_stream(*[chunk({"content": "hello " * 100})] * 50, chunk({}, "stop")))
    question = "Repeat hello. " * 5_000
    with open_talk(sqlite_url, tmp_path, repeating) as talk:
        talk.say(question)
        model_calls = talk.model_calls()
        assert len(model_calls) == 3
        assert all(call.input_tokens > len(question) // 4 and call.output_tokens > 500 for call in model_calls)
        assert (
            talk.pool().spent == sum(call.cost for call in model_calls) > 3 * len(question) // 4 * 3 * NANOS_PER_DOLLAR // 1_000_000
        )


def test_input_that_is_missing_in_reported_usage_is_estimated(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    with open_talk(sqlite_url, tmp_path, text("Hi.", usage=(0, 1))) as talk:
        talk.say("What is it? " * 500)
        (call,) = talk.model_calls()
        assert (call.input_tokens > 2_000, call.output_tokens) == (True, 1)


def test_output_that_is_missing_in_reported_usage_is_estimated(sqlite_url: str, tmp_path: Path) -> None:
    """Also that of an answer with too many calls. Some providers report the usage so far when the answer begins."""
    (tmp_path / "prices.toml").write_text(PRICES)
    begun = {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}
    first = chunk({"content": ""}, usage=begun)
    arguments = json.dumps({"expression": "1+" * 100 + "1"})
    deltas = [
        {"index": n, "id": f"c{n}", "type": "function", "function": {"name": "calculate", "arguments": arguments}}
        for n in range(200)
    ]
    cut = raw(encode_stream(first, *(chunk({"tool_calls": [delta]}) for delta in deltas), chunk({}, "tool_calls")))
    with open_talk(sqlite_url, tmp_path, in_order(cut, text("Done. " * 20, usage=(7, 0)))) as talk:
        talk.say()
        flood, last = talk.model_calls()
        assert (flood.input_tokens, last.input_tokens) == (7, 7)
        assert flood.output_tokens > 128 * len(arguments) // 4
        assert last.output_tokens > 20


def test_a_model_without_a_price_is_recorded_as_it_reports(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, raw(encode_stream(chunk({"content": "Hi."}), chunk({}, "stop")))) as talk:
        talk.say()
        assert [(call.input_tokens, call.output_tokens, call.cost) for call in talk.model_calls()] == [(0, 0, 0)]


def test_reported_usage_is_believed(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    with open_talk(sqlite_url, tmp_path, text("Hi.", usage=(7, 1))) as talk:
        talk.say()
        assert [(call.input_tokens, call.output_tokens) for call in talk.model_calls()] == [(7, 1)]
