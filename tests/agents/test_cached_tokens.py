"""Prompt caches: the tokens that a provider read from its cache or wrote to it are recorded and priced with each call."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.usage import RequestUsage

from headway.actions.access import spending
from headway.agents.models.prices import Price, Prices, load_prices
from headway.ledger.errors import SettingsError
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.storage.stores.spending import ModelCall
from tests.agents.scripted_provider import google_event
from tests.agents.test_garbled_providers import BLOCK, DELTA, OVER, STOP, Handler, Provider, anthropic_stream
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import chunk, encode_stream, raw
from tests.tables import each_row

OPENAI, RESPONSES = "openai-chat:gpt-4o", "openai-responses:gpt-5"
ANTHROPIC, GOOGLE = "anthropic:claude-sonnet-4-6", "google:gemini-2.5-flash"
MILLION = 1_000_000


def dollars(amount: float) -> int:
    return round(amount * NANOS_PER_DOLLAR)


def use(**tokens: Any) -> RequestUsage:
    return RequestUsage(**{f"{name}_tokens": count for name, count in tokens.items()})


# Prices


@each_row(
    ("model", "tokens", "cost"),
    [
        # Claude Sonnet 4.6, per million tokens: 3 in, 0.30 from the cache, 3.75 into it, 15 out.
        (ANTHROPIC, {"input": 100_000, "output": 1_000}, 0.3 + 0.015),
        (ANTHROPIC, {"input": 100_000, "cache_read": 100_000}, 0.03),
        (ANTHROPIC, {"input": 100_000, "cache_write": 100_000}, 0.375),
        (ANTHROPIC, {"input": 100_000, "cache_read": 80_000, "cache_write": 10_000}, 0.024 + 0.0375 + 0.03),
        # GPT-4o: 2.50 in, 1.25 from the cache, 10 out. Writing costs nothing extra.
        (OPENAI, {"input": 100_000, "cache_read": 100_000}, 0.125),
        (OPENAI, {"input": 100_000, "cache_read": 60_000, "output": 1_000}, 0.075 + 0.1 + 0.01),
        (RESPONSES, {"input": 100_000, "cache_read": 100_000}, 0.0125),
    ],
)
def test_the_price_list_knows_what_the_cache_costs(model: str, tokens: dict[str, int], cost: float) -> None:
    assert Prices().cost(model, use(**tokens)) == dollars(cost)


def test_prices_of_ones_own_may_include_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('["a:b"]\ninput = 2\noutput = 10\ncached_input = 0.2\ncache_write = 2.5\n["a:plain"]\ninput = 2\noutput = 10\n')
    prices = Prices(load_prices(path))
    usage = use(input=MILLION, cache_read=600_000, cache_write=100_000, output=MILLION)

    assert prices.cost("a:b", usage) == dollars(0.3 * 2 + 0.6 * 0.2 + 0.1 * 2.5 + 10)
    assert prices.cost("a:plain", usage) == dollars(2 + 10)  # without prices for the cache, its tokens cost as much as others


def test_cached_tokens_can_be_free() -> None:
    assert Prices({"a:b": Price(2, 10, cached_input=0)}).cost("a:b", use(input=MILLION, cache_read=MILLION)) == 0


@each_row("price", ["input = -1", "input = nan", "input = 1\ncached_input = inf", "input = 1\ncache_write = -1"])
def test_a_price_that_is_no_price_is_refused(tmp_path: Path, price: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(f'["a:b"]\noutput = 1\n{price}\n')
    with pytest.raises(SettingsError, match="0 or more"):
        load_prices(path)


IMPOSSIBLE: list[dict[str, Any]] = [
    {"cache_read": 5_000},
    {"cache_write": 5_000},
    {"cache_read": 800, "cache_write": 800},
    {"cache_read": -1},
    {"cache_write": -5_000},
    {"cache_read": 3.5},
    {"cache_read": None},
]


@each_row("counts", IMPOSSIBLE)
@each_row("model", [OPENAI, ANTHROPIC, "a:b"])
def test_impossible_counts_cost_the_full_price(model: str, counts: dict[str, Any]) -> None:
    prices = Prices({"a:b": Price(2, 10, 0.2, 2.5)})
    full = prices.cost(model, use(input=1_000, output=10))
    assert prices.cost(model, use(input=1_000, output=10, **counts)) == full > 0


def test_models_without_a_price_are_listed_once() -> None:
    names = ["rehearsal", "openai-chat:fake-1", OPENAI, "openai-chat:fake-1", "a:b", "a:free"]
    assert Prices({"a:b": Price(1, 1), "a:free": Price(0, 0)}).list_unpriced(names) == ["openai-chat:fake-1"]


# Reports of providers, over HTTP


def chat_stream(**usage: Any) -> str:
    """An answer of OpenAI's chat API. Its last event has the usage."""
    return encode_stream(chunk({"content": "Hi"}), chunk({}, "stop"), chunk({}, choices=[], usage=usage))


def responses_stream(**usage: Any) -> str:
    """An answer of OpenAI's Responses API. Its events are framed like Anthropic's."""
    text = {"type": "output_text", "text": "Hi", "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    begun = {"id": "r", "object": "response", "created_at": 1, "model": "gpt-5", "status": "in_progress", "output": [], **settings}
    ended = {**begun, "status": "completed", "output": [message], "usage": usage}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**message, "status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **place, "part": {**text, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": "Hi", "logprobs": []},
        {"type": "response.output_text.done", **place, "text": "Hi", "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": ended},
    ]
    return anthropic_stream(*({**event, "sequence_number": number} for number, event in enumerate(events)))


def messages_stream(**usage: Any) -> str:
    """An answer of Anthropic's API. Its first event has the usage of the input, and a later one that of the output."""
    message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "stop_reason": None}
    start = {"type": "message_start", "message": message | {"usage": {**usage, "output_tokens": 1}}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 50}}
    return anthropic_stream(start, BLOCK, DELTA, STOP, end, OVER)


@contextmanager
def talk_to(url: str, home: Path, model: str, body: str) -> Iterator[Talk]:
    """A conversation with a provider that gives every request this answer."""
    with pytest.MonkeyPatch.context() as patch, Provider(("127.0.0.1", 0), Handler) as provider:
        thread = threading.Thread(target=provider.serve_forever, args=(0.01,))
        thread.start()
        provider.sent = raw(body).raw or b""
        try:
            with open_talk(url, home, raw(body), model=model) as talk:
                for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
                    patch.setenv(variable, provider.url)
                for variable in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
                    patch.setenv(variable, "test-key")
                talk.headway.runtime.models.by_name.clear()  # built from the environment above on first use
                yield talk
        finally:
            provider.shutdown()
            thread.join()


CHAT = chat_stream(prompt_tokens=1_000, completion_tokens=50, total_tokens=1_050, prompt_tokens_details={"cached_tokens": 800})
RESPONSE = responses_stream(
    input_tokens=1_000,
    output_tokens=50,
    total_tokens=1_050,
    input_tokens_details={"cached_tokens": 800},
    output_tokens_details={"reasoning_tokens": 0},
)
CONTENT = google_event(
    [{"text": "Hi"}],
    usageMetadata={"promptTokenCount": 1_000, "cachedContentTokenCount": 800, "candidatesTokenCount": 50, "totalTokenCount": 1_050},
)
MESSAGE = messages_stream(input_tokens=50, cache_read_input_tokens=800, cache_creation_input_tokens=150)


@pytest.mark.filterwarnings("ignore::Warning")  # Google's library causes warnings when it is imported
@pytest.mark.parametrize(
    ("model", "body", "cost", "written"),
    [
        (OPENAI, CHAT, (200 * 2.5 + 800 * 1.25 + 50 * 10) / MILLION, 0),
        (RESPONSES, RESPONSE, (200 * 1.25 + 800 * 0.125 + 50 * 10) / MILLION, 0),
        (GOOGLE, CONTENT, (200 * 0.3 + 800 * 0.03 + 50 * 2.5) / MILLION, 0),
        (ANTHROPIC, MESSAGE, (50 * 3 + 800 * 0.3 + 150 * 3.75 + 50 * 15) / MILLION, 150),
    ],
)
def test_cached_tokens_arrive_in_the_row(
    database_url: str, tmp_path: Path, model: str, body: str, cost: float, written: int
) -> None:
    with talk_to(database_url, tmp_path, model, body) as talk:
        turn = talk.say()
        assert talk.answers() == ["Hi"]
        assert talk.model_calls() == [ModelCall("strong", model, 1_000, 50, dollars(cost), 800, written)]
        assert talk.pool().spent == dollars(cost)
        assert turn["usage"] == {"input_tokens": 1_000, "cached_tokens": 800, "output_tokens": 50, "cost_usd": cost}
        (total,) = talk.database.read(lambda tx: spending.build_costs(tx, talk.tenant_id, 0))["by_model"]
        assert (total["cached_tokens"], total["cache_write_tokens"], total["cost_usd"]) == (800, written, cost)


def test_a_provider_that_miscounts_is_charged_in_full(sqlite_url: str, tmp_path: Path) -> None:
    body = chat_stream(prompt_tokens=100, completion_tokens=10, total_tokens=110, prompt_tokens_details={"cached_tokens": 5_000})
    with talk_to(sqlite_url, tmp_path, OPENAI, body) as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.model_calls() == [ModelCall("strong", OPENAI, 100, 10, dollars((100 * 2.5 + 10 * 10) / MILLION))]
