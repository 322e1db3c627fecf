"""The message of a failed model call: the address, the seconds and their setting, the attempt, and no key."""

import time
from pathlib import Path

import pytest

from headway.agents.models.connections import format_address
from headway.agents.models.failures import hide_keys
from headway.ledger.text import Redactor
from tests.agents.job_harness import LONG_S, begin_delayed_turn, make_due, wait_for_end
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import error, flaky, slow, text
from tests.tables import each_row

HELLO = text("Hello.")


def test_a_connection_that_is_refused_names_the_address_and_the_reason(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO, model_retries="1") as talk:
        talk.server.shutdown()
        talk.server.server_close()
        talk.say()
        (event,) = talk.list_event_data("turn_failed")
        address = f"http://127.0.0.1:{talk.server.server_port}/v1"
        assert event["error"] == f"The model openai-chat:fake-1 cannot be reached at {address}: Connection refused."


def test_a_host_that_does_not_exist_is_named(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://ada:secret-word@nowhere.invalid:8080/v1?key=hidden")
    with open_talk(sqlite_url, tmp_path, HELLO, model="ollama:fake", model_retries="1") as talk:
        talk.say()
        (event,) = talk.list_event_data("turn_failed")
        assert event["error"].startswith("The model ollama:fake cannot be reached at http://nowhere.invalid:8080/v1: ")
        assert "secret-word" not in str(talk.events())
        assert "hidden" not in event["error"]


def test_a_timeout_names_the_seconds_and_the_setting(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, slow(2, HELLO), model_timeout_s="0.1", model_retries="1") as talk:
        talk.say()
        (event,) = talk.list_event_data("turn_failed")
        assert event["error"] == (
            f"The model openai-chat:fake-1 at {talk.server.url} did not answer in time: "
            "it sent nothing for 0.1 s (HEADWAY_MODEL_TIMEOUT_S)."
        )


def test_a_delay_says_which_attempt_failed_and_when_the_next_is_made(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, flaky(2, error(503, "busy"), HELLO), retry_delay_s=LONG_S, model_retries="4") as talk:
        talk.wait(begin_delayed_turn(talk))
        make_due(talk)
        talk.wait(talk.until(lambda: len(talk.list_event_data("turn_delayed")) == 2))
        make_due(talk)
        talk.wait(wait_for_end(talk))
        first, second = talk.list_event_data("turn_delayed")
        assert first["reason"] == "The model openai-chat:fake-1 failed (HTTP 503): busy."
        assert (first["attempt"], first["attempts"]) == (2, 4)
        assert 0 < first["delay_s"] < second["delay_s"] <= 200
        assert second["attempt"] == 3
        assert second["retry_at"] <= time.time() + 200


@each_row(
    ("url", "shown"),
    [
        ("http://localhost:11434/v1/", "http://localhost:11434/v1"),
        ("https://user:pass@example.org/v1?key=abc#part", "https://example.org/v1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("https://generativelanguage.googleapis.com", "https://generativelanguage.googleapis.com"),
        ("not a url", ""),
        ("http://[broken", ""),
        ("http://host:99999999/", ""),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert format_address(url) == shown


# Keys

KEYS = [
    "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789",
    "sk-ant-api03-AbCdEfGhIjKlMnOp-QrStUv_wxyz",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "sk-********************************6789",
    "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "gsk_abcdefghijklmnopqrstuvwx",
    "xai-abcdefghijklmnopqrstuvwx",
    "ghp_abcdefghijklmnopqrstuvwxyz",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "AKIAIOSFODNN7EXAMPLE",
    "0123456789abcdef0123456789abcdef",
    "9f8b7c6d5e4f3a2b1c0d",
    "123e4567-e89b-42d3-a456-426614174000",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
]
NAMES = [
    "registry.ollama.ai/library/gemma3",
    "registry.ollama.ai/library/qwen2.5-coder:1.5b-instruct-q4_K_M",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "meta-llama/Meta-Llama-3.1-8B-Instruct",
    "claude-sonnet-4-5-20250929",
    "gpt-4o-mini-2024-07-18",
    "gemini-2.5-flash-preview-05-20",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "/home/ada/.cache/models/SmolLM2-135M-Instruct.gguf",
    "authentication_error",
    "http://localhost:11434/v1/chat/completions",
    "internationalization_failed",
    "maximum context length is 131072 tokens",
    "2026-11-16T12:00:00Z",
]


@each_row("key", KEYS)
def test_what_looks_like_a_key_is_hidden(key: str) -> None:
    shown = hide_keys(f'Incorrect API key provided: "{key}". Find yours at our site.')
    assert shown.startswith('Incorrect API key provided: "…')
    assert key[-8:] not in shown


@each_row("words", ["Bearer canary-of-a-provider", "https://example.org/v1?key=canary-of-a-provider"])
def test_what_stands_where_a_key_stands_is_hidden(words: str) -> None:
    assert "canary" not in hide_keys(words)


def test_a_long_message_is_cut_and_no_part_of_a_key_remains(sqlite_url: str, tmp_path: Path) -> None:
    message = f"No.{' ' * 9_980}sk-4f9a8b7c6d5e4f3a2b1c {'k' * 200_000}"
    with open_talk(sqlite_url, tmp_path, error(400, message), model_retries="1") as talk:
        talk.say()
        (event,) = talk.list_event_data("turn_failed")
        assert event["error"] == "The model openai-chat:fake-1 failed (HTTP 400): No."


@each_row("name", NAMES)
def test_names_and_words_are_kept(name: str) -> None:
    assert hide_keys(f"{name} does not support tools") == f"{name} does not support tools"


def test_names_of_models_survive_a_failure(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "registry.ollama.ai/library/gemma3 does not support this; next: x"
    with open_talk(sqlite_url, tmp_path, in_order(error(400, message))) as talk:
        monkeypatch.setenv("OPENAI_API_KEY", "x")  # the model is built on first use
        talk.headway.runtime.models.by_name.clear()
        talk.say()
        (event,) = talk.list_event_data("turn_failed")
        assert message in event["error"]


def test_a_secret_of_a_few_characters_is_ignored() -> None:
    assert Redactor(("x", "abcde", "abcdef"))("x abcde abcdef") == "x abcde …"
