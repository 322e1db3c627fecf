"""Malformed responses in each provider's own protocol, over real HTTP: the call fails or returns an answer that can be stored."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.agents.models.client import ModelFailed, ModelReply, Models
from headway.agents.transcripts import transcript
from headway.agents.transcripts.transcript import build_user_message
from tests.agents.scripted_provider import google_event
from tests.certificates import skip_certificates
from tests.model_server import PATIENCE_S, chunk, encode_stream, raw
from tests.tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # the libraries warn about odd values and retired models

OPENAI, ANTHROPIC, GOOGLE = "openai-chat:fake-1", "anthropic:claude-sonnet-4-5", "google:gemini-2.5-flash"
NOW = ToolDefinition(name="now", description="The time.", parameters_json_schema={"type": "object", "properties": {}})
JSON = "application/json"


class Provider(ThreadingHTTPServer):
    """A stub provider that sends the same bytes in response to every request."""

    sent = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.wfile.write(self.server.sent)
        self.close_connection = True


class ProviderModels:
    """Calls one model of each provider, one request at a time."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.models = {
            name: Models(dict.fromkeys(("strong", "mid", "cheap"), name), PATIENCE_S) for name in (OPENAI, ANTHROPIC, GOOGLE)
        }
        self.loop = asyncio.Runner()

    def ask(self, name: str, body: str | bytes, status: int = 200, kind: str = "text/event-stream", **headers: str) -> ModelReply:
        self.provider.sent = raw(body, status, kind, **headers).raw or b""
        parameters = ModelRequestParameters(function_tools=[NOW])
        return self.loop.run(self.models[name].ask("strong", [build_user_message("hello")], parameters))

    def close(self) -> None:
        for models in self.models.values():
            self.loop.run(models.close())
        self.loop.close()


@pytest.fixture(scope="module")
def asking() -> Iterator[ProviderModels]:
    with pytest.MonkeyPatch.context() as environment, Provider(("127.0.0.1", 0), Handler) as provider:
        thread = threading.Thread(target=provider.serve_forever, args=(0.01,))
        thread.start()
        for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            environment.setenv(variable, provider.url)
        for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            environment.setenv(variable, "test-key")
        skip_certificates(environment)
        models = ProviderModels(provider)
        yield models
        models.close()
        provider.shutdown()
        thread.join()


def anthropic_stream(*documents: Any) -> str:
    """Return a stream in Anthropic's format."""
    return "".join(f"event: {document['type']}\ndata: {json.dumps(document)}\n\n" for document in documents)


START = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "stop_reason": None}
    | {"usage": {"input_tokens": 3, "output_tokens": 1}},
}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
STOP = {"type": "content_block_stop", "index": 0}
REASON = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
OVER = {"type": "message_stop"}
NAMELESS = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x", "input": {}}}
HUGE = {"type": "message_start", "message": {**START["message"], "usage": {"input_tokens": 10**30, "output_tokens": 1}}}  # type: ignore[dict-item]


@each_row(
    ("name", "body"),
    [
        (OPENAI, encode_stream(chunk({"content": "Hi"}), chunk({}, "stop"))),
        (ANTHROPIC, anthropic_stream(START, BLOCK, DELTA, STOP, REASON, OVER)),
        (GOOGLE, google_event([{"text": "Hi"}])),
    ],
)
def test_each_answers_when_it_speaks_its_protocol(asking: ProviderModels, name: str, body: str) -> None:
    reply = asking.ask(name, body)
    assert (reply.response.text, reply.response.finish_reason) == ("Hi", "stop")


@each_row("name", [OPENAI, ANTHROPIC, GOOGLE])
@each_row(
    ("status", "kind", "body", "passes"),
    [
        (200, "text/event-stream", "", True),
        (200, "text/html", "<html>Sign in</html>", True),
        (502, "text/html", "<html>Bad gateway</html>", True),
        (500, JSON, "[1]", True),
        (429, JSON, '{"error": {"message": [], "code": {}, "type": 5}}', True),
        (400, JSON, '"no"', False),
        (200, "text/event-stream", "data: 5\n\n", False),
    ],
)
def test_an_answer_of_no_known_protocol_is_a_failure(
    asking: ProviderModels, name: str, status: int, kind: str, body: str, *, passes: bool
) -> None:
    event = "event: message_start\n" if name == ANTHROPIC and body.startswith("data") else ""
    with pytest.raises(ModelFailed) as failed:
        asking.ask(name, event + body, status, kind)
    assert failed.value.is_transient == passes
    assert "\n" not in str(failed.value)


@each_row(
    ("name", "body", "passes"),
    [
        (ANTHROPIC, anthropic_stream(START, BLOCK, DELTA), True),
        (ANTHROPIC, anthropic_stream(START, BLOCK) + "event: content_block_delta\ndata: {nope\n\n", True),
        (ANTHROPIC, anthropic_stream(START, NAMELESS, STOP, {**REASON, "delta": {"stop_reason": "tool_use"}}, OVER), False),
        (
            ANTHROPIC,
            anthropic_stream(START, BLOCK, {**DELTA, "delta": {"type": "text_delta", "text": 5}}, STOP, REASON, OVER),
            False,
        ),
        (ANTHROPIC, anthropic_stream(HUGE, BLOCK, DELTA, STOP, REASON, OVER), False),
        (GOOGLE, google_event([{"text": "Hi"}], None), True),
        (GOOGLE, "data: {nope\n\n", True),
        (GOOGLE, google_event("abc"), False),
        (GOOGLE, google_event([None]), False),
        (GOOGLE, google_event([{"functionCall": {"name": "now", "args": "{}"}}]), False),
        (GOOGLE, google_event([{"text": "Hi"}], 5), False),
        (GOOGLE, google_event([{"text": "Hi"}], usageMetadata={"promptTokenCount": 10**12}), False),
        (GOOGLE, google_event([{"text": "Hi"}], usageMetadata=[1]), False),
    ],
)
def test_an_answer_outside_its_own_protocol_is_a_failure(asking: ProviderModels, name: str, body: str, *, passes: bool) -> None:
    with pytest.raises(ModelFailed, match="It sent ") as failed:
        asking.ask(name, body)
    assert failed.value.is_transient == passes


@each_row(
    ("name", "body", "headers", "asked"),
    [
        (OPENAI, {"error": {"message": "slow"}}, {"Retry_After": "7"}, 7),
        (ANTHROPIC, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, {"Retry_After": "8"}, 8),
        (ANTHROPIC, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, {"retry_after_ms": "1500"}, 1.5),
        (GOOGLE, {"error": {"code": 429, "message": "slow", "details": [{"retryDelay": "34.5s"}]}}, {}, 34.5),
        (GOOGLE, {"error": {"code": 429, "message": "slow"}}, {"Retry_After": "9"}, 9),
        (GOOGLE, {"error": {"code": 429, "message": "slow"}}, {}, None),
    ],
)
def test_each_says_in_its_way_how_long_it_wants_to_be_left_alone(
    asking: ProviderModels, name: str, body: dict[str, Any], headers: dict[str, str], asked: float | None
) -> None:
    with pytest.raises(ModelFailed, match="is rate limited") as failed:
        asking.ask(name, json.dumps(body), 429, JSON, **headers)
    assert failed.value.retry_after_s == asked


# Arbitrary values

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["id", "object", "created", "model", "choices", "usage", "service_tier", "error", "moderation"]
DELTAS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("content", "role", "refusal", "tool_calls", "reasoning_content", "annotations"), VALUES)
)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "index": VALUES,
        "id": VALUES,
        "type": VALUES,
        "function": st.fixed_dictionaries({}, optional={"name": VALUES, "arguments": VALUES}),
    },
)
CHUNKS = st.one_of(
    st.builds(chunk, DELTAS, VALUES),
    st.builds(chunk, st.builds(lambda call: {"tool_calls": [call]}, CALLS), st.sampled_from(["tool_calls", "stop", None])),
    st.builds(lambda name, value: chunk({"content": "Hi"}, "stop", **{name: value}), st.sampled_from(FIELDS), VALUES),
    VALUES,
)
PARTS = st.fixed_dictionaries({}, optional=dict.fromkeys(("text", "functionCall", "thought", "inlineData"), VALUES))
BLOCKS = st.one_of(
    st.builds(
        lambda event, name, value: {**event, name: value},
        st.sampled_from([START, BLOCK, DELTA, REASON]),
        st.sampled_from(["message", "index", "content_block", "delta", "usage", "type"]),
        VALUES,
    ),
    st.sampled_from([START, BLOCK, DELTA, STOP, REASON, OVER, NAMELESS, HUGE]),
)
FUZZED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check_that_it_answers_or_fails(asking: ProviderModels, name: str, body: str | bytes, kind: str = "text/event-stream") -> None:
    """Assert that the call fails with ModelFailed, or that its answer can be stored, loaded again and priced."""
    try:
        reply = asking.ask(name, body, kind=kind)
    except ModelFailed:
        return
    stored = transcript.encode(reply.response)
    assert transcript.encode(transcript.decode(stored)) == stored
    assert all(isinstance(number, int) and 0 <= number < 2**62 for number in reply.call[2:])


@FUZZED
@given(st.lists(CHUNKS, max_size=4), st.booleans())
def test_no_stream_of_an_openai_compatible_server_breaks_anything(asking: ProviderModels, chunks: list[Any], done: bool) -> None:
    check_that_it_answers_or_fails(asking, OPENAI, encode_stream(*chunks, done=done))


@FUZZED
@given(
    st.sampled_from([OPENAI, ANTHROPIC, GOOGLE]),
    st.binary(max_size=80) | st.builds(json.dumps, VALUES),
    st.sampled_from([JSON, "text/event-stream"]),
)
def test_no_body_breaks_anything(asking: ProviderModels, name: str, body: str | bytes, kind: str) -> None:
    check_that_it_answers_or_fails(asking, name, body, kind)


@FUZZED
@given(st.lists(BLOCKS, max_size=6))
def test_no_stream_of_anthropics_breaks_anything(asking: ProviderModels, blocks: list[dict[str, Any]]) -> None:
    body = "".join(f"event: message_start\ndata: {json.dumps(block)}\n\n" for block in blocks)
    check_that_it_answers_or_fails(asking, ANTHROPIC, body)


@FUZZED
@given(st.lists(PARTS | VALUES, max_size=3), VALUES | st.just("STOP"), VALUES)
def test_no_stream_of_googles_breaks_anything(asking: ProviderModels, parts: list[Any], finish: Any, usage: Any) -> None:
    check_that_it_answers_or_fails(asking, GOOGLE, google_event(parts, finish, usageMetadata=usage))
