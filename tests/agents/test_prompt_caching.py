"""Requests that a provider can cache: breakpoints where it wants them, and the same bytes up to what was appended."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.agents.models.client import Models
from headway.agents.models.providers import build_cache_key, build_model
from headway.agents.transcripts.transcript import build_user_message
from headway.ledger.tiers import TIERS
from tests.agents.provider_server import ProviderServer, redirect, run_providers
from tests.model_server import PATIENCE_S
from tests.tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # the libraries warn about retired models and on compilation

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}, "at": {"type": "string"}}}
TOOLS = [ToolDefinition(name=name, description=f"{name}.", parameters_json_schema=SCHEMA) for name in ("calculate", "now")]
PARAMETERS = ModelRequestParameters(function_tools=TOOLS, instruction_parts=[InstructionPart(content="You help.")])
FIRST: list[ModelMessage] = [build_user_message("What time is it?")]
SECOND: list[ModelMessage] = [
    *FIRST,
    ModelResponse([TextPart("I look."), ToolCallPart("now", {"place": "here", "at": "once"}, "call_1")]),
    ModelRequest([ToolReturnPart("now", "Noon.", "call_1")]),
]
BREAKPOINT = {"type": "ephemeral", "ttl": "5m"}


@pytest.fixture(scope="module")
def providers() -> Iterator[ProviderServer]:
    with run_providers() as server:
        yield server


def send(providers: ProviderServer, name: str, *conversations: list[ModelMessage]) -> list[bytes]:
    """Ask the model once for each list of messages, and return the bodies that were received."""

    async def ask() -> None:
        models = redirect(Models(dict.fromkeys(TIERS, name), PATIENCE_S), providers)
        for messages in conversations:
            await models.ask("strong", messages, PARAMETERS)
        await models.close()

    providers.requests.clear()
    asyncio.run(ask())
    return [sent.raw for sent in providers.requests]


def find_breakpoints(document: Any, path: str = "") -> dict[str, Any]:
    """Return the breakpoints of a request, by the place at which they stand."""
    entries = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    found: dict[str, Any] = {}
    for key, value in entries:
        found |= {path: value} if key == "cache_control" else find_breakpoints(value, f"{path}/{key}")
    return found


def test_anthropic_is_asked_to_cache_tools_instructions_and_messages(providers: ProviderServer) -> None:
    (sent,) = send(providers, "anthropic:claude-sonnet-4-5", SECOND)
    assert find_breakpoints(json.loads(sent)) == {"": BREAKPOINT, "/system/0": BREAKPOINT, "/tools/1": BREAKPOINT}


def test_openrouter_is_asked_to_cache_a_model_of_anthropic(providers: ProviderServer) -> None:
    (sent,) = send(providers, "openrouter:anthropic/claude-sonnet-4.5", SECOND)
    body = json.loads(sent)
    last = len(body["messages"]) - 1
    assert set(find_breakpoints(body)) == {"/tools/1", "/messages/0/content/0", f"/messages/{last}/content/0"}


@each_row("name", ["openai-chat:fake-1", "openrouter:openai/gpt-4o", "ollama:llama3.2", "google:gemini-2.5-flash"])
def test_a_provider_that_caches_by_itself_is_sent_no_breakpoints(providers: ProviderServer, name: str) -> None:
    (sent,) = send(providers, name, SECOND)
    assert find_breakpoints(json.loads(sent)) == {}


@each_row(
    "name", ["openai-chat:fake-1", "openai:gpt-5", "anthropic:claude-sonnet-4-5", "google:gemini-2.5-flash", "ollama:llama3.2"]
)
def test_a_later_request_differs_only_by_what_was_appended(providers: ProviderServer, name: str) -> None:
    first, same, second = send(providers, name, FIRST, FIRST, SECOND)
    assert first == same
    equal = next(place for place in range(len(first)) if first[place] != second[place])
    assert first == second[:equal] + second[len(second) - len(first) + equal :]


# The key by which OpenAI routes requests


def test_the_requests_of_a_run_have_one_key_at_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = build_model("openai:gpt-5")
    key = build_cache_key(model, FIRST)
    assert key == build_cache_key(model, SECOND) != build_cache_key(model, [build_user_message("Another.")])
    assert list(key) == ["openai_prompt_cache_key"]


def test_no_other_server_is_sent_the_key(providers: ProviderServer) -> None:
    for name in ("openai-chat:fake-1", "openai:gpt-5", "ollama:llama3.2"):
        (sent,) = send(providers, name, FIRST)
        assert b"prompt_cache_key" not in sent
