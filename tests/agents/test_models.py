"""Model calls: by name and tier. Transient failures are retried, permanent ones are not."""

import asyncio
import json
from pathlib import Path

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.tools import ToolDefinition

from headway.agents.models.client import ModelFailed
from headway.agents.models.providers import build_model
from headway.agents.transcripts.transcript import build_user_message
from headway.ledger.errors import SettingsError
from headway.ledger.job import MAX_DELAY_MS, compute_backoff_ms
from headway.ledger.limits import Limits
from tests.agents.turn_harness import CHEAP, CHEAP_TIER, Talk, in_order, open_talk, tiers
from tests.model_server import MODEL, ModelServer, Reply, calls, drop, environment, error, flaky, pause_midway, slow, text
from tests.tables import each_row

HELLO = text("Hello to you.")
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


def get_failure(talk: Talk) -> dict[str, str]:
    turn = talk.say()
    assert (turn["status"], turn["outcome"]) == ("failed", None)
    (event,) = talk.list_event_data("turn_failed")
    assert event["turn_id"] == turn["id"]
    return event


# Transient failures


@pytest.mark.parametrize("passing", [error(429), error(500), error(502), error(503), error(529), error(408), drop()])
def test_transient_failures_are_retried(sqlite_url: str, tmp_path: Path, passing: Reply) -> None:
    with open_talk(sqlite_url, tmp_path, flaky(2, passing, HELLO)) as talk:
        turn = talk.say()
        assert (turn["outcome"], turn["iterations"]) == ("answered", 1)
        assert len(talk.server.requests) == 3
        assert len(talk.model_calls()) == 1
        assert talk.answers() == ["Hello to you."]


def test_a_model_that_does_not_answer_in_time_is_asked_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, flaky(1, slow(60, HELLO), HELLO), model_timeout_s="1") as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(talk.server.requests) >= 2


def test_a_model_that_falls_silent_in_the_middle_is_asked_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, flaky(1, pause_midway(slow(60, HELLO)), HELLO), model_timeout_s="1") as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.read_streamed_text() == "Hello to you."


@pytest.mark.parametrize("retries", [0, 2])
def test_patience_has_an_end(sqlite_url: str, tmp_path: Path, retries: int) -> None:
    with open_talk(sqlite_url, tmp_path, error(503, "overloaded"), model_retries=str(retries)) as talk:
        event = get_failure(talk)
        assert event["code"] == "model_failed"
        assert "openai-chat:fake-1" in event["error"]
        assert "HTTP 503" in event["error"]
        assert len(talk.server.requests) == max(1, retries)
        assert talk.model_calls() == []


def test_a_timeout_is_reported_as_a_timeout(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, slow(2, HELLO), model_timeout_s="0.1", model_retries="0") as talk:
        assert "in time" in get_failure(talk)["error"]


def test_a_server_that_is_not_there_is_tried_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO, model_retries="1") as talk:
        talk.server.shutdown()
        talk.server.server_close()
        event = get_failure(talk)
        assert event["code"] == "model_failed"
        assert "fake-1" in event["error"]


def test_a_broken_stream_is_withdrawn_and_sent_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(drop("Half a sentence that nobody will end"), HELLO)) as talk:
        talk.say()
        chunks = talk.headway.streamed
        assert chunks[0]["text"].startswith("Half")
        assert [chunk for chunk in chunks if chunk.get("restart")] == [{"text": "", "restart": True}]
        assert talk.read_streamed_text() == "Hello to you."
        assert talk.answers() == ["Hello to you."]


def test_nothing_is_withdrawn_where_nothing_was_said(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(error(503), HELLO)) as talk:
        talk.say()
        assert not any(chunk.get("restart") for chunk in talk.headway.streamed)


def test_a_tool_call_that_broke_off_is_not_made(sqlite_url: str, tmp_path: Path) -> None:
    cut = Reply(calls=calls(("remember", {"text": "half"})).calls, cut=True)
    with open_talk(sqlite_url, tmp_path, in_order(cut, HELLO)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.effects() == []


# Backoff


@each_row("chance", [0.0, 0.5, 1.0])
def test_each_wait_is_twice_as_long_up_to_five_minutes(chance: float) -> None:
    """004, QUEUE-01: "External calls retry with exponential backoff on transient failures"."""
    for attempts, middle in ((1, 1_000), (2, 2_000), (3, 4_000), (8, 128_000), (12, MAX_DELAY_MS), (1_000, MAX_DELAY_MS)):
        assert compute_backoff_ms(attempts, Limits(), chance) == int(middle * (0.75 + 0.5 * chance))


def test_a_provider_that_says_when_is_believed(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, flaky(2, error(429, retry_after=0), HELLO), retry_delay_s="60") as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(talk.server.requests) == 3


@each_row(("asked", "waited"), [(7, 7_000), (1_800, 1_800_000), (100_000, 3_600_000), (-1, 0)])
def test_a_provider_that_wants_to_be_left_alone_is_for_a_while(asked: float, waited: int) -> None:
    assert compute_backoff_ms(1, Limits(), 0.5, asked) == waited


# Permanent failures


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_permanent_failures_are_not_retried(sqlite_url: str, tmp_path: Path, status: int) -> None:
    with open_talk(sqlite_url, tmp_path, error(status, "made up")) as talk:
        event = get_failure(talk)
        assert f"HTTP {status}" in event["error"]
        assert "made up" in event["error"]
        assert len(talk.server.requests) == 1


def test_a_quota_that_is_used_up_is_not_tried_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, error(429, "You exceeded your current quota", code="insufficient_quota")) as talk:
        assert "quota" in get_failure(talk)["error"]
        assert len(talk.server.requests) == 1


def test_no_failure_repeats_the_key(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_talk(sqlite_url, tmp_path, error(401, f"Incorrect API key provided: {KEY}. Find yours at our site.")) as talk:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        event = get_failure(talk)
        assert "Incorrect API key provided" in event["error"]
        stored = str(talk.events()) + str(talk.messages()) + str(talk.run_row())
        assert KEY not in stored
        assert KEY[-8:] not in stored


def test_a_short_key_is_not_repeated_either_and_words_are(sqlite_url: str, tmp_path: Path) -> None:
    message = "authentication_error: test-key is not a key for claude-sonnet-4-5-20250929, internationalization_failed"
    with open_talk(sqlite_url, tmp_path, error(401, message), model="openai-chat:claude-sonnet-4-5-20250929") as talk:
        error_text = get_failure(talk)["error"]
        assert "test-key" not in error_text
        assert "authentication_error" in error_text
        assert "internationalization_failed" in error_text
        assert "claude-sonnet-4-5-20250929" in error_text


# Names


@pytest.mark.parametrize(
    ("name", "said"),
    [("nobody:nothing", "nobody:nothing"), ("gpt", "gpt"), ("rehearsa", "rehearsa"), ("openai-chat:", "provider:name")],
)
def test_a_name_that_means_nothing_fails_the_turn_with_a_clear_sentence(
    sqlite_url: str, tmp_path: Path, name: str, said: str
) -> None:
    with open_talk(sqlite_url, tmp_path, error(404, "no such model"), model=name) as talk:
        event = get_failure(talk)
        assert said in event["error"]
        assert event["code"] in ("settings_error", "model_failed")
        assert "\n" not in event["error"]


def test_a_missing_key_is_named(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO, model="anthropic:claude-sonnet-4-5") as talk:
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        event = get_failure(talk)
        assert event["code"] == "settings_error"
        assert "ANTHROPIC_API_KEY" in event["error"]


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # raised when Google's library is compiled
@pytest.mark.parametrize(
    ("name", "variables", "model_name"),
    [
        ("anthropic:claude-sonnet-4-5", {"ANTHROPIC_API_KEY": KEY}, "claude-sonnet-4-5"),
        ("google:gemini-2.5-flash", {"GOOGLE_API_KEY": KEY}, "gemini-2.5-flash"),
        ("openrouter:openai/gpt-4o", {"OPENROUTER_API_KEY": KEY}, "openai/gpt-4o"),
        ("ollama:llama3.2", {"OLLAMA_BASE_URL": "http://127.0.0.1:11434/v1"}, "llama3.2"),
        ("openai-chat:anything", {"OPENAI_API_KEY": KEY}, "anything"),
        ("rehearsal", {}, "rehearsal"),
    ],
)
def test_every_provider_has_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, variables: dict[str, str], model_name: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert build_model(name).model_name == model_name


# Tiers


def test_tiers_that_are_not_set_are_the_strong_one(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO) as talk:
        assert set(talk.headway.runtime.models.names.values()) == {"openai-chat:fake-1"}


def test_the_cheap_tier_summarises_and_the_strong_one_works(sqlite_url: str, tmp_path: Path) -> None:
    script = tiers(in_order(calls(("remember", {"text": "Half a"}), finish="length"), HELLO), text("Summary."))
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        talk.say()
        assert [request.model for request in talk.server.requests] == ["fake-1", CHEAP, "fake-1"]
        assert [(call.tier, call.model) for call in talk.model_calls()][1] == ("cheap", CHEAP_TIER)


def test_text_comes_as_it_is_said(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO) as talk:
        talk.say()
        assert [chunk["text"] for chunk in talk.headway.streamed] == ["Hello", " to", " you."]


def test_a_model_that_cannot_be_called_raises_an_error_when_used(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, error(400, "no")) as talk:
        with pytest.raises(ModelFailed, match="HTTP 400"):
            talk.wait(talk.headway.runtime.models.ask("strong", [build_user_message("Hello!")], ModelRequestParameters()))
        with pytest.raises(SettingsError):
            build_model("nobody:nothing")


def test_a_model_that_cannot_be_built_fails_only_the_calls_that_use_it(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO, model_cheap="nobody:nothing") as talk:
        models = talk.headway.runtime.models
        assert set(models.by_name) >= {models.names["strong"]}  # loaded in advance, because loading takes a second
        assert talk.say()["outcome"] == "answered"
        with pytest.raises(SettingsError):
            models.find("cheap")


# Requests


async def request_once(model: Model, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
    async with model:
        await model.request(messages, None, parameters)


def test_a_request_is_what_the_library_would_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages and tools bypass the library's conversion of fields."""
    call = ToolCallPart("look", {"at": "the sky"}, tool_call_id="call-1")
    picture = BinaryContent(b"\x89PNG", media_type="image/png")
    messages: list[ModelMessage] = [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart(["What is this?", picture])]),
        ModelResponse([TextPart("I look."), call]),
        ModelRequest([ToolReturnPart("look", {"seen": ["a cloud", None]}, tool_call_id="call-1")]),
    ]
    schema = {"type": "object", "properties": {"at": {"type": ["string", "null"], "format": "date"}}, "required": ["at"]}
    offered = ModelRequestParameters(
        function_tools=[ToolDefinition(name="look", description="Look.", parameters_json_schema=schema)]
    )
    with ModelServer(text("A cloud.")) as server:
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        for parameters in (offered, ModelRequestParameters()):
            for model in (infer_model(f"openai-chat:{MODEL}"), build_model(f"openai-chat:{MODEL}")):
                asyncio.run(request_once(model, messages, parameters))
        bodies = [json.dumps(request.body) for request in server.requests]
    assert bodies[0] == bodies[1] != bodies[2] == bodies[3]
    assert json.loads(bodies[0])["messages"][2]["tool_calls"][0]["id"] == "call-1"
