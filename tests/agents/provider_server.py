"""A fake of several providers' HTTP APIs on one port. It records each request byte for byte and answers in the same protocol."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from pydantic_ai.models.openrouter import OpenRouterModel

from headway.agents.models.client import Models
from tests.certificates import skip_certificates
from tests.model_server import Document, Reply, chunk, encode_stream, raw

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
ADDRESSES = {
    "OPENAI_BASE_URL": "/v1",
    "ANTHROPIC_BASE_URL": "",
    "GOOGLE_GEMINI_BASE_URL": "",
    "OLLAMA_BASE_URL": "/v1",
}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY")


class Sent(NamedTuple):
    """A request that was received."""

    path: str
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.raw)
        return document


Answer = Callable[[Sent], Reply | None]  # None: the usual answer of the protocol


class ProviderServer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ProviderHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[Sent] = []
        self.answer: Answer = lambda _: None


class ProviderHandler(BaseHTTPRequestHandler):
    server: ProviderServer

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        sent = Sent(self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        self.server.requests.append(sent)
        reply = self.server.answer(sent) or raw(build_answer(sent))
        self.wfile.write(reply.raw or b"")
        self.close_connection = True


def build_answer(sent: Sent) -> str:
    """Return the stream of an answer that says "Hi"."""
    if sent.path.endswith("/chat/completions"):
        return encode_stream(chunk({"content": "Hi"}), chunk({}, "stop"), chunk({}, choices=[], usage=USAGE))
    if sent.path.endswith("/responses"):
        return build_responses_stream()
    if "generateContent" in sent.path or "streamGenerateContent" in sent.path:
        candidate = {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "index": 0, "finishReason": "STOP"}
        return f"data: {json.dumps({'candidates': [candidate]})}\n\n"
    return build_anthropic_stream()


def build_anthropic_stream() -> str:
    message: Document = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "stop_reason": None}
    events: list[Document] = [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def build_responses_stream() -> str:
    part: Document = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}
    item = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    usage: Document = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [], "tools": [], "tool_choice": "auto"}
    response |= {"parallel_tool_calls": True, "status": "in_progress"}
    where = {"item_id": "i", "output_index": 0, "content_index": 0}
    events: list[Document] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **where, "delta": "Hi", "logprobs": []},
        {"type": "response.output_text.done", **where, "text": "Hi", "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [item], "usage": usage}},
    ]
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
        for number, event in enumerate(events)
    )


def redirect(models: Models, server: ProviderServer) -> Models:
    """Point a model at the server whose provider has no environment variable for the address."""
    for model in (models.find(tier) for tier in models.names):
        if isinstance(model, OpenRouterModel):
            model.client.base_url = f"{server.url}/api/v1"
    return models


@contextmanager
def run_providers() -> Iterator[ProviderServer]:
    """Run the server and point the providers' environment variables at it."""
    with pytest.MonkeyPatch.context() as environment, ProviderServer() as server:
        for variable, path in ADDRESSES.items():
            environment.setenv(variable, server.url + path)
        for variable in KEYS:
            environment.setenv(variable, "test-key")
        skip_certificates(environment)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
