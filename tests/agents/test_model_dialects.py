"""Providers' words for "the request is too long" and "this model has no tools"."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import ModelRequestParameters

from headway.agents.models.client import ModelFailed, Models
from headway.agents.models.connections import is_too_long, lacks_tools
from headway.agents.transcripts.transcript import build_user_message
from headway.ledger.tiers import TIERS
from tests.agents.provider_server import run_providers
from tests.agents.turn_harness import open_talk
from tests.model_server import PATIENCE_S, error, raw
from tests.tables import each_row

TOO_LONG = {
    "OpenAI": "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens.",
    "OpenAI (Responses)": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "OpenAI (limit per minute)": "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, "
    "Requested 41034. The input or output tokens must be reduced in order to run successfully.",
    "Anthropic": "prompt is too long: 213464 tokens > 200000 maximum",
    "Anthropic (with the answer)": "input length and `max_tokens` exceed context limit: 197202 + 21333 > 200000, decrease input "
    "length or `max_tokens` and try again",
    "Google": "The input token count (1200123) exceeds the maximum number of tokens allowed (1048576).",
    "llama-server": "request (5012 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "llama-server (older)": "the request exceeds the available context size. try increasing the context size",
    "vLLM": "This model's maximum context length is 4096 tokens. However, you requested 9192 tokens (1000 in the messages, 8192 in "
    "the completion). Please reduce the length of the messages or completion.",
    "vLLM (prompt)": "The decoder prompt (length 5120) is longer than the maximum model length of 4096.",
    "vLLM (newer)": "The prompt (total length 5120) is too long to fit into the model (context length 4096).",
    "vLLM (answer)": "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 "
    "tokens and your request has 612 input tokens (8192 > 4096 - 612).",
    "Ollama": "the input length exceeds the context length",
    "Ollama (cloud)": "prompt too long; exceeded max context length by 2048 tokens",
    "OpenRouter": "This endpoint's maximum context length is 32768 tokens. However, you requested about 50210 tokens (41018 of "
    "text input, 1000 of tool input, 8192 in the output).",
    "Groq": "Please reduce the length of the messages or completion.",
    "Groq (limit per minute)": "Request too large for model `llama-3.3-70b-versatile` in organization `org_1` on tokens per minute "
    "(TPM): Limit 12000, Requested 15321, please reduce your message size and try again.",
    "Mistral": "Prompt contains 40211 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Bedrock": "Input is too long for requested model.",
    "Bedrock (Nova)": "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
    "DeepSeek": "This model's maximum context length is 65536 tokens. However, you requested 70012 tokens.",
    "xAI": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5012",
    "Text Generation Inference": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3999 `inputs` "
    "tokens and 8192 `max_new_tokens`",
    "LM Studio": "Trying to keep the first 5012 tokens when context the overflows. However, the model is loaded with context "
    "length of only 4096 tokens, which is not enough.",
    "Fireworks": "The prompt is too long: 150012, model maximum context length: 131071",
    "Z.AI": "Prompt exceeds max length",
}
LACKS_TOOLS = {
    "Ollama": "registry.ollama.ai/library/gemma3:latest does not support tools",
    "llama-server": "tools param requires --jinja flag",
    "llama-server (older)": "Unsupported param: tools",
    "vLLM": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "OpenRouter": "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs",
    "Groq": "`tool calling` is not supported with this model",
    "Google": "Function calling is not enabled for models/gemma-3-27b-it",
    "Mistral": "Function calling is not enabled for this model",
    "Bedrock": "This model doesn't support tool use.",
    "Bedrock (streaming)": "This model doesn't support tool use in streaming mode.",
    "DeepSeek": "deepseek-reasoner does not support Function Calling",
    "OpenAI": "Unsupported parameter: 'tools' is not supported with this model.",
    "NVIDIA": "Tool use has not been enabled, because it is unsupported by some-model.",
}
OTHER = [
    "Invalid value for 'messages[2].content': expected a string.",
    "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000. Please try again in 2s.",
    "Too many tokens, please wait before trying again.",  # a rate limit of Bedrock
    "Unsupported value: 'temperature' does not support 0.2 with this model.",
    "tool_choice 'required' is not supported by this model.",
    "This model does not support image input.",
    "Invalid schema for function 'now': array schema missing items.",
    "max_tokens must be at least 1, got 0.",
]


def build_error(message: str, status: int = 400) -> ModelHTTPError:
    return ModelHTTPError(status, "some-model", {"error": {"message": message, "type": "invalid_request_error"}})


@each_row("dialect", TOO_LONG)
def test_a_request_that_is_too_long_is_recognised(dialect: str) -> None:
    failure = build_error(TOO_LONG[dialect])
    assert (is_too_long(failure), lacks_tools(failure)) == (True, False)


@each_row("dialect", LACKS_TOOLS)
def test_a_model_without_tools_is_recognised(dialect: str) -> None:
    failure = build_error(LACKS_TOOLS[dialect])
    assert (is_too_long(failure), lacks_tools(failure)) == (False, True)


@each_row("message", OTHER)
def test_other_refusals_are_neither(message: str) -> None:
    assert not is_too_long(build_error(message))
    assert not lacks_tools(build_error(message))


@each_row("body", [{"code": "context_length_exceeded"}, {"type": "exceed_context_size_error", "n_ctx": 4096}, "x"])
def test_a_code_is_enough(body: Any) -> None:
    assert is_too_long(ModelHTTPError(400, "some-model", body)) == (body != "x")
    assert not is_too_long(ValueError("context_length_exceeded"))  # not a provider's answer


# Over HTTP


def openai_error(message: str, **more: Any) -> str:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}})


def anthropic_error(message: str) -> str:
    return json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}})


def google_error(message: str) -> str:
    return json.dumps({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})


def fail(name: str, status: int, body: str) -> tuple[ModelFailed, Models]:
    """Ask a model whose provider answers with this error."""

    async def ask() -> ModelFailed:
        with pytest.raises(ModelFailed) as failed:
            await models.ask("strong", [build_user_message("hello")], ModelRequestParameters())
        await models.close()
        return failed.value

    with run_providers() as server:
        server.answer = lambda _: raw(body, status, "application/json")
        models = Models(dict.fromkeys(TIERS, name), PATIENCE_S)
        return asyncio.run(ask()), models


@pytest.mark.filterwarnings("ignore::Warning")  # the libraries warn about retired models and on compilation
@pytest.mark.parametrize(
    ("name", "status", "body"),
    [
        ("openai-chat:fake-1", 400, openai_error(TOO_LONG["OpenAI"], code="context_length_exceeded")),
        ("openai-chat:fake-1", 429, openai_error(TOO_LONG["OpenAI (limit per minute)"], code="rate_limit_exceeded")),
        ("openai-chat:fake-1", 500, openai_error(TOO_LONG["llama-server (older)"])),
        ("openai-chat:fake-1", 400, json.dumps({"object": "error", "message": TOO_LONG["vLLM (prompt)"], "code": 400})),
        ("openai:gpt-5", 400, openai_error(TOO_LONG["OpenAI (Responses)"], code="context_length_exceeded")),
        ("anthropic:claude-sonnet-4-5", 400, anthropic_error(TOO_LONG["Anthropic"])),
        ("google:gemini-2.5-flash", 400, google_error(TOO_LONG["Google"])),
        ("ollama:llama3.2", 400, openai_error(TOO_LONG["Ollama"])),
    ],
)
def test_a_failed_call_says_that_it_was_too_long(name: str, status: int, body: str) -> None:
    failed, models = fail(name, status, body)
    assert (failed.is_too_long, failed.lacks_tools, failed.is_transient) == (True, False, False)
    assert models.describe("strong").supports_tools


def test_a_model_that_refused_tools_is_remembered() -> None:
    failed, models = fail("ollama:gemma3", 400, openai_error(LACKS_TOOLS["Ollama"]))
    assert (failed.is_too_long, failed.lacks_tools, failed.is_transient) == (False, True, False)
    assert [models.describe(tier).supports_tools for tier in TIERS] == [False] * 3


def test_a_server_without_tools_is_not_asked_again_as_if_it_were_overloaded(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, error(500, LACKS_TOOLS["llama-server"])) as talk:
        talk.say()
        assert [bool(request.tools) for request in talk.server.requests] == [True, False]
