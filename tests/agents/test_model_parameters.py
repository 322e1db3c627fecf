"""models.toml: the model, the parameters and the sizes of each tier."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import ModelRequestParameters

from headway import settings
from headway.agents.models.client import Models
from headway.agents.transcripts.transcript import build_user_message
from headway.ledger.errors import SettingsError
from headway.ledger.tiers import TIERS, TierParameters
from tests.agents.provider_server import ProviderServer, run_providers
from tests.agents.turn_harness import open_talk
from tests.model_server import PATIENCE_S, text
from tests.tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # the libraries warn about retired models and on compilation

FILE = """
[strong]
model = "openai:gpt-5"
fallback = ["anthropic:claude-sonnet-4-5"]
thinking = "high"
max_output_tokens = 32_000

[cheap]
model = "openai-chat:qwen"
temperature = 0
context_tokens = 8192
tools = false
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HEADWAY_MODEL", "HEADWAY_MODEL_MID", "HEADWAY_MODEL_CHEAP"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def providers() -> Iterator[ProviderServer]:
    with run_providers() as server:
        yield server


def load(home: Path, document: str, **flags: str) -> settings.Settings:
    (home / "models.toml").write_text(document)
    return settings.load({"home": str(home), **flags})


def test_each_tier_has_its_table(home: Path) -> None:
    loaded = load(home, FILE)
    assert (loaded.model, loaded.model_mid, loaded.model_cheap) == ("openai:gpt-5", "openai:gpt-5", "openai-chat:qwen")
    strong = TierParameters(None, 32_000, ("anthropic:claude-sonnet-4-5",), None, "high", True)
    cheap = TierParameters(8_192, 8_192, (), 0, None, False)
    assert loaded.model_parameters == {"strong": strong, "mid": strong, "cheap": cheap}


def test_variables_win_over_the_file(home: Path) -> None:
    loaded = load(home, FILE, model="openai:gpt-4o", model_cheap="rehearsal", context_tokens="9000", max_output_tokens="100")
    assert (loaded.model, loaded.model_mid, loaded.model_cheap) == ("openai:gpt-4o", "openai:gpt-4o", "rehearsal")
    for parameters in loaded.model_parameters.values():
        assert (parameters.context_tokens, parameters.max_output_tokens) == (9_000, 100)
    assert loaded.model_parameters["strong"].thinking == "high"
    assert loaded.model_parameters["cheap"].temperature == 0


def test_a_tier_with_another_model_does_not_have_the_strong_tiers_parameters(home: Path) -> None:
    loaded = load(home, '[strong]\nthinking = true\nfallback = ["a:b"]\n', model="c:d", model_mid="e:f")
    assert loaded.model_parameters["mid"] == TierParameters()
    assert loaded.model_parameters["cheap"] == TierParameters(fallback=("a:b",), thinking=True)


@each_row(
    ("document", "complaint"),
    [
        ("[strong", "cannot be read"),
        ("ÿ = 1", "cannot be read"),
        ("[best]\n", "'best' is not a tier. Write tables: [strong], [mid], [cheap]."),
        ('strong = "openai:gpt-5"', "'strong' is not a tier"),
        ("[mid]\ntemprature = 1", "[mid] cannot have 'temprature'. It can have model, fallback, temperature, thinking"),
        ("[mid]\nmodel = 4", '[mid] model must be "provider:name", not 4.'),
        ('[mid]\nmodel = " "', '[mid] model must be "provider:name"'),
        ('[mid]\nfallback = "a:b"', "[mid] fallback must be [\"provider:name\", …], not 'a:b'."),
        ("[mid]\nfallback = [1]", "[mid] fallback must be"),
        ("[mid]\ntemperature = 2.5", "[mid] temperature must be a number from 0 to 2, not 2.5."),
        ("[mid]\ntemperature = true", "[mid] temperature must be a number"),
        ("[mid]\ntemperature = nan", "[mid] temperature must be a number"),
        ('[mid]\nthinking = "much"', "[mid] thinking must be true, false or one of minimal, low, medium, high, xhigh, max"),
        ("[mid]\nthinking = []", "[mid] thinking must be true, false"),
        ("[mid]\nmax_output_tokens = 8", "[mid] max_output_tokens must be a whole number, at least 16, not 8."),
        ("[mid]\nmax_output_tokens = 1e4", "[mid] max_output_tokens must be a whole number"),
        ("[mid]\ncontext_tokens = 1000", "[mid] context_tokens must be a whole number, at least 2048, not 1000."),
        ('[mid]\ntools = "no"', "[mid] tools must be true or false, not 'no'."),
    ],
)
def test_a_file_that_is_wrong_says_what_to_write(home: Path, document: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(home, document)
    assert complaint in str(refused.value)
    assert "models.toml" in str(refused.value)
    assert "\n" not in str(refused.value)


# The requests


def send(providers: ProviderServer, name: str, parameters: TierParameters) -> dict[str, Any]:
    async def ask() -> None:
        models = Models(dict.fromkeys(TIERS, name), PATIENCE_S, parameters=dict.fromkeys(TIERS, parameters))
        await models.ask("strong", [build_user_message("hello")], ModelRequestParameters())
        await models.close()

    providers.requests.clear()
    asyncio.run(ask())
    return providers.requests[0].body


def test_parameters_that_are_not_set_are_not_sent(providers: ProviderServer) -> None:
    body = send(providers, "openai-chat:fake-1", TierParameters())
    assert set(body) == {"messages", "model", "max_tokens", "stream", "stream_options"}
    body = send(providers, "anthropic:claude-sonnet-4-5", TierParameters())
    assert {"temperature", "thinking", "output_config"} & set(body) == set()


@each_row(
    ("name", "parameters", "expected"),
    [
        ("openai-chat:fake-1", TierParameters(temperature=0), {"temperature": 0}),
        ("openai:gpt-5", TierParameters(thinking="low"), {"reasoning": {"effort": "low"}}),
        ("openai-chat:gpt-5", TierParameters(thinking="high"), {"reasoning_effort": "high"}),
        ("anthropic:claude-opus-4-6", TierParameters(thinking="high"), {"thinking": {"type": "adaptive"}}),
        ("anthropic:claude-sonnet-4-5", TierParameters(thinking="high"), {"thinking": {"type": "enabled", "budget_tokens": 4_096}}),
        ("anthropic:claude-sonnet-4-5", TierParameters(thinking="low"), {"thinking": {"type": "enabled", "budget_tokens": 2_048}}),
        ("anthropic:claude-sonnet-4-5", TierParameters(None, 1_000, thinking=True), {"thinking": {"type": "disabled"}}),
    ],
)
def test_parameters_reach_the_provider(
    providers: ProviderServer, name: str, parameters: TierParameters, expected: dict[str, Any]
) -> None:
    body = send(providers, name, parameters)
    assert {key: body.get(key) for key in expected} == expected


# Models without function calling


def test_a_tier_without_tools_says_so(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text("[strong]\ntools = false\n[cheap]\ntools = true\n")
    with open_talk(sqlite_url, tmp_path, text("Hi.")) as talk:
        models = talk.headway.runtime.models
        assert {tier: models.describe(tier).supports_tools for tier in TIERS} == {"strong": False, "mid": False, "cheap": True}


def test_a_profile_without_tools_is_believed(providers: ProviderServer) -> None:
    assert not Models(dict.fromkeys(TIERS, "google:gemini-2.5-flash-image")).describe("strong").supports_tools
