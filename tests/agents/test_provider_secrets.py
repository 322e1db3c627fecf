"""Every supported provider echoes the API key in its responses, wherever it can. The key must not appear in any error message."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import get_args

import pytest
from pydantic_ai.models import KnownModelName, Model, ModelRequestParameters

from headway import settings
from headway.agents.models.client import ModelFailed, Models
from headway.agents.models.providers import build_model
from headway.agents.transcripts.transcript import build_user_message
from headway.ledger.errors import SettingsError
from headway.settings.redaction import build_redactor
from tests.certificates import skip_certificates
from tests.model_server import PATIENCE_S

KEY = "canary-of-a-provider"  # has no digit, so no pattern for keys matches it
ELSEWHERE = "ELSEWHERE"  # replaced with the address of the stub server
# The environment variables of each provider. If the address cannot be set there, the test changes it in the client.
ENVIRONMENT: dict[str, dict[str, str]] = {
    "alibaba": {"ALIBABA_API_KEY": KEY},
    "anthropic": {"ANTHROPIC_API_KEY": KEY},
    "azure": {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": ELSEWHERE, "OPENAI_API_VERSION": "2024-06-01"},
    "azure-responses": {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": ELSEWHERE, "OPENAI_API_VERSION": "2024-06-01"},
    "bedrock-mantle": {"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_REGION": "us-east-1"},
    "cerebras": {"CEREBRAS_API_KEY": KEY},
    "crusoe": {"CRUSOE_API_KEY": KEY},
    "deepseek": {"DEEPSEEK_API_KEY": KEY},
    "fireworks": {"FIREWORKS_API_KEY": KEY},
    "github-copilot": {"GITHUB_COPILOT_API_KEY": KEY},
    "google": {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": ELSEWHERE},
    "google-cloud": {"GOOGLE_API_KEY": KEY, "GOOGLE_VERTEX_BASE_URL": ELSEWHERE},
    "heroku": {"HEROKU_INFERENCE_KEY": KEY},
    "litellm": {"LITELLM_API_KEY": KEY},
    "meta": {"META_API_KEY": KEY},
    "moonshotai": {"MOONSHOTAI_API_KEY": KEY},
    "nebius": {"NEBIUS_API_KEY": KEY},
    "ollama": {"OLLAMA_API_KEY": KEY, "OLLAMA_BASE_URL": ELSEWHERE},
    "openai": {"OPENAI_API_KEY": KEY},
    "openai-chat": {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": ELSEWHERE},
    "openai-decisions": {"OPENAI_API_KEY": KEY},
    "openai-responses": {"OPENAI_API_KEY": KEY},
    "openrouter": {"OPENROUTER_API_KEY": KEY},
    "ovhcloud": {"OVHCLOUD_API_KEY": KEY},
    "sambanova": {"SAMBANOVA_API_KEY": KEY},
    "snowflake": {"SNOWFLAKE_TOKEN": KEY, "SNOWFLAKE_ACCOUNT": "ada"},
    "system-one": {"SYSTEM_ONE_API_KEY": KEY, "SYSTEM_ONE_BASE_URL": ELSEWHERE},
    "together": {"TOGETHER_API_KEY": KEY},
    "vercel": {"VERCEL_AI_GATEWAY_API_KEY": KEY},
    "vllm": {"VLLM_API_KEY": KEY, "VLLM_BASE_URL": ELSEWHERE},
    "zai": {"ZAI_API_KEY": KEY},
}
NAMES = {"openrouter": "openai/gpt-9", "bedrock-mantle": "openai.gpt-9"}
# These are rejected when the model is built: their library is not installed, or they need a login in a browser.
NEED_A_LIBRARY = ("bedrock", "cohere", "groq", "huggingface", "mistral", "typesafe", "xai")
NEED_A_PERSON = ("openai-codex", "openai-chatgpt")
SHAPES: tuple[Callable[[str], str], ...] = (
    lambda quoted: json.dumps({"error": {"message": f"Incorrect API key provided: {KEY} {quoted}"}}),
    lambda quoted: json.dumps({"detail": [quoted, {KEY: KEY}]}),
    lambda quoted: f"<html>{KEY} {quoted}</html>",
)


class EchoServer(ThreadingHTTPServer):
    """A stub provider that rejects every request with 401 and echoes it, in the current shape."""

    shape: Callable[[str], str]
    asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class EchoHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EchoServer

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked += 1
        body = self.server.shape(json.dumps({"path": self.path, **dict(self.headers.items())})).encode()
        self.send_response(401, f"not with {KEY}")
        for name, value in (
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            ("WWW-Authenticate", KEY),
            ("X-Request-Id", KEY),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def quoting() -> Iterator[EchoServer]:
    with EchoServer(("127.0.0.1", 0), EchoHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def list_failures(quoting: EchoServer, name: str, model: Model) -> list[str]:
    """Return the error messages of the model, one for each shape of response."""
    models = Models(
        {"strong": name, "mid": name, "cheap": name},
        PATIENCE_S,
        known={name: model},
        redact=build_redactor(settings.load({"home": "unused"})),
    )
    messages = []
    for quoting.shape in SHAPES:
        with pytest.raises(ModelFailed) as refused:
            await models.ask("strong", [build_user_message("hello")], ModelRequestParameters())
        messages.append(str(refused.value))
    await models.close()
    return messages


@pytest.mark.filterwarnings("ignore::Warning")  # some providers are deprecated, and some ignore settings
def test_no_provider_can_quote_its_key_to_us(quoting: EchoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = {}
    for provider, variables in ENVIRONMENT.items():
        with monkeypatch.context() as environment:
            for variable, value in variables.items():
                environment.setenv(variable, value.replace(ELSEWHERE, quoting.url))
            skip_certificates(environment)
            name = f"{provider}:{NAMES.get(provider, 'some-model')}"
            model = build_model(name)
            client = getattr(model, "client", None)
            if client is not None and hasattr(client, "base_url"):
                client.base_url = quoting.url
            messages[provider] = asyncio.run(list_failures(quoting, name, model))

    assert {provider: text for provider, texts in messages.items() for text in texts if KEY in text} == {}
    unasked = ("openai-decisions", "system-one")  # these support no chat requests and fail before sending one
    assert [provider for provider, texts in messages.items() if "HTTP 401" not in texts[0]] == list(unasked)
    assert quoting.asked == len(SHAPES) * (len(ENVIRONMENT) - len(unasked))


def test_no_provider_is_left_out() -> None:
    providers = {name.partition(":")[0] for name in get_args(KnownModelName.__value__)}
    through_a_gateway = {name for name in providers if name.startswith("gateway/")}  # the same clients at another address
    assert providers - through_a_gateway - {"test"} <= {*ENVIRONMENT, *NEED_A_LIBRARY, *NEED_A_PERSON}
    for provider in (*NEED_A_LIBRARY, *NEED_A_PERSON):
        with pytest.raises(SettingsError, match=r"needs a library that is not installed: pip install|cannot be used"):
            build_model(f"{provider}:some-model")
