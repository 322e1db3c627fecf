"""Money: a call that breaks off after its answer has begun is paid for, and one that fails before that is not."""

import asyncio
from pathlib import Path

import pytest

from headway.ledger.money import NANOS_PER_DOLLAR
from tests.agents.test_turn_cancel import cancel
from tests.agents.turn_harness import CHEAP_TIER, Talk, open_talk
from tests.model_server import Reply, Request, chunk, drop, encode_stream, error, flaky, pause_midway, raw, text

PRICES = '["openai-chat:fake-1"]\ninput = 3\noutput = 30\n'
HELLO = text("Hello.", usage=(7, 1))
QUESTION = "What is it? " * 2_000
INPUT_TOKENS = len(QUESTION) // 4
THINKING = raw(encode_stream(*[chunk({"reasoning_content": "Let me think about it. " * 50})] * 20, done=False))
GARBLED = raw(encode_stream(chunk({"content": "A part. " * 100}), done=False) + "data: {]\n\n")


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)


def check_bill(talk: Talk, broken: int) -> None:
    """The first calls broke off, and were billed for the whole request and for what arrived."""
    model_calls = talk.model_calls()
    assert len(model_calls) > broken
    for call in model_calls[:broken]:
        assert call.input_tokens >= INPUT_TOKENS
        assert call.output_tokens > 0
        assert call.cost == (call.input_tokens * 3 + call.output_tokens * 30) * NANOS_PER_DOLLAR // 1_000_000
    assert talk.pool().spent == sum(call.cost for call in model_calls) == talk.run_row().cost
    assert talk.pool().reserved == 0


@pytest.mark.parametrize("broken", [drop("A sentence that breaks off in the middle of the stream."), THINKING, GARBLED])
def test_an_answer_that_breaks_off_is_billed_by_estimate(sqlite_url: str, tmp_path: Path, broken: Reply) -> None:
    with open_talk(sqlite_url, tmp_path, flaky(1, broken, HELLO)) as talk:
        assert talk.say(QUESTION)["outcome"] == "answered"
        check_bill(talk, 1)
        assert len(talk.model_calls()) == 2


@pytest.mark.parametrize("failure", [error(500), error(429), error(400), raw("<html>Bad gateway</html>"), raw("")])
def test_a_call_that_fails_before_the_answer_begins_costs_nothing(sqlite_url: str, tmp_path: Path, failure: Reply) -> None:
    with open_talk(sqlite_url, tmp_path, flaky(1, failure, HELLO)) as talk:
        talk.say(QUESTION)
        assert [call.input_tokens for call in talk.model_calls()] in ([7], [])
        assert talk.pool().reserved == 0


def test_a_turn_that_is_canceled_in_the_middle_of_an_answer_is_billed(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, pause_midway(text("A long answer."))) as talk:

        async def scenario() -> None:
            talk.server.hold()
            task = await talk.begin(QUESTION)
            await talk.until(lambda: bool(talk.read_streamed_text()))
            cancel(talk)
            await asyncio.wait([task])

        talk.wait(scenario())
        talk.server.release()
        (call,) = talk.model_calls()
        assert call.input_tokens >= INPUT_TOKENS
        assert talk.pool().spent == call.cost > 0
        assert talk.pool().reserved == 0


def test_an_answer_that_breaks_off_before_a_fallback_answers_is_billed(sqlite_url: str, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return HELLO if request.model == CHEAP_TIER.removeprefix("openai-chat:") else drop("Half of it.")

    (tmp_path / "models.toml").write_text(f'[strong]\nmodel = "openai-chat:fake-1"\nfallback = ["{CHEAP_TIER}"]\n')
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say(QUESTION)["outcome"] == "answered"
        check_bill(talk, 1)
