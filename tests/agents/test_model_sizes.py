"""The sizes of a model call: the context window, the longest answer, and what is reserved for it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.agents.models.client import Models
from headway.agents.models.prices import Price, Prices
from headway.agents.transcripts.transcript import build_user_message
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.tiers import TIERS, TierParameters
from tests.agents.provider_server import ProviderServer, redirect, run_providers
from tests.agents.turn_harness import open_talk
from tests.model_server import PATIENCE_S, text
from tests.tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # the libraries warn about retired models and on compilation

NOW = ToolDefinition(name="now", description="The time.", parameters_json_schema={"type": "object", "properties": {}})


@pytest.fixture(scope="module")
def providers() -> Iterator[ProviderServer]:
    with run_providers() as server:
        yield server


def build_models(name: str, parameters: TierParameters | None = None, prices: Prices | None = None) -> Models:
    return Models(dict.fromkeys(TIERS, name), PATIENCE_S, prices, parameters=dict.fromkeys(TIERS, parameters or TierParameters()))


def send(providers: ProviderServer, name: str, parameters: TierParameters | None = None, **options: Any) -> dict[str, Any]:
    """Ask the model, and return the body of the request that it received."""

    async def ask() -> None:
        models = redirect(build_models(name, parameters), providers)
        await models.ask("strong", [build_user_message("hello")], ModelRequestParameters(function_tools=[NOW]), **options)
        await models.close()

    providers.requests.clear()
    asyncio.run(ask())
    (sent,) = providers.requests
    return sent.body


# The context window


@each_row(
    ("name", "window"),
    [
        ("rehearsal", 1_000_000),
        ("openai:gpt-4o", 128_000),
        ("openai-chat:gpt-4o", 128_000),
        ("anthropic:claude-sonnet-4-5", 200_000),
        ("openai-chat:fake-1", 16_384),
        ("openrouter:nobody/nothing", 16_384),
        ("ollama:llama3.2", 4_096),  # the server truncates at its own setting, not at what the model could take
        ("nobody:nothing", 16_384),  # cannot be built; asking it says so
    ],
)
def test_a_window_is_known_or_assumed(providers: ProviderServer, name: str, window: int) -> None:
    info = build_models(name).describe("strong")
    assert (info.name, info.context_tokens, info.supports_tools) == (name, window, True)
    assert info.max_output_tokens == min(8_192, window // 4)


def test_the_setting_wins_over_the_known_window(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hi."), model="openai-chat:gpt-4o", context_tokens="5000") as talk:
        assert talk.headway.runtime.models.describe("cheap").context_tokens == 5_000
        talk.say()
        assert talk.server.requests[0].body["max_tokens"] == 1_250


# The longest answer


@each_row(
    ("name", "path"),
    [
        ("openai-chat:fake-1", ("max_tokens",)),
        ("openai-chat:gpt-5", ("max_completion_tokens",)),  # a reasoning model refuses the older name
        ("ollama:llama3.2", ("max_tokens",)),
        ("openai:gpt-5", ("max_output_tokens",)),
        ("openrouter:openai/gpt-4o", ("max_tokens",)),
        ("anthropic:claude-sonnet-4-5", ("max_tokens",)),
        ("google:gemini-2.5-flash", ("generationConfig", "maxOutputTokens")),
    ],
)
def test_each_provider_is_sent_the_limit_by_the_name_that_it_obeys(
    providers: ProviderServer, name: str, path: tuple[str, ...]
) -> None:
    body = send(providers, name, TierParameters(max_output_tokens=777))
    for key in path[:-1]:
        body = body[key]
    assert body[path[-1]] == 777
    assert len({"max_tokens", "max_completion_tokens"} & set(body)) <= 1


@each_row(
    ("name", "chosen"),
    [
        ("openai-chat:fake-1", {"tool_choice": "none"}),
        ("openai:gpt-5", {"tool_choice": "none"}),
        ("anthropic:claude-sonnet-4-5", {"tool_choice": {"type": "none"}}),
        ("google:gemini-2.5-flash", {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
    ],
)
def test_a_model_that_may_not_call_tools_is_sent_them_all_the_same(
    providers: ProviderServer, name: str, chosen: dict[str, Any]
) -> None:
    free, bound = send(providers, name), send(providers, name, use_tools=False)
    assert {key: bound[key] for key in chosen} == chosen
    assert bound["tools"] == free["tools"]


# Reservations


def test_the_estimate_is_the_input_and_the_longest_answer_at_the_list_price(providers: ProviderServer) -> None:
    models = build_models("openai:gpt-4o", TierParameters(max_output_tokens=4_000))
    price = calc_price(Usage(input_tokens=10_000, output_tokens=4_000), "gpt-4o", provider_id="openai")
    assert models.estimate("strong", lambda: 10_000) == int(price.total_price * NANOS_PER_DOLLAR) > 0


def test_input_that_the_provider_caches_for_more_is_reserved_at_that_price(providers: ProviderServer) -> None:
    models = build_models("anthropic:claude-sonnet-4-5")
    usage = Usage(input_tokens=10_000, cache_write_tokens=10_000, output_tokens=8_192)
    price = calc_price(usage, "claude-sonnet-4-5", provider_id="anthropic")
    assert models.estimate("mid", lambda: 10_000) == int(price.total_price * NANOS_PER_DOLLAR)


def test_an_own_price_is_used_for_the_estimate() -> None:
    models = build_models("nobody:nothing", prices=Prices({"nobody:nothing": Price(2, 10)}))
    assert models.estimate("strong", lambda: 1_000) == (1_000 * 2 + 4_096 * 10) * NANOS_PER_DOLLAR // 1_000_000


def test_tokens_are_not_counted_for_a_model_without_a_price() -> None:
    assert build_models("nobody:nothing").estimate("strong", lambda: pytest.fail("counted")) == 0
