"""A provider over real HTTP that sends scripted bytes, in any protocol: one body for each request, the last one for all others."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

# Providers other than the one that `open_talk` sets up. Ollama uses the protocol of OpenAI Chat, Azure that of OpenAI Responses.
GOOGLE, CHAT, RESPONSES = "google:gemini-2.5-flash", "ollama:fake-1", "azure-responses:fake-1"
ADDRESSES = ("GOOGLE_GEMINI_BASE_URL", "OLLAMA_BASE_URL", "AZURE_OPENAI_ENDPOINT")
KEYS = {"GEMINI_API_KEY": "test-key", "AZURE_OPENAI_API_KEY": "test-key", "OPENAI_API_VERSION": "2025-03-01-preview"}

Body = str | Iterable[str]  # an iterable is sent piece by piece, until the client disconnects
Choice = Callable[[dict[str, Any]], Body]  # the body for a request


class ScriptedProvider(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, *bodies: Body | Choice) -> None:
        super().__init__(("127.0.0.1", 0), ScriptedHandler)
        self.bodies = bodies
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class ScriptedHandler(BaseHTTPRequestHandler):
    server: ScriptedProvider

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        self.server.requests.append(request)
        body = self.server.bodies[min(len(self.server.requests), len(self.server.bodies)) - 1]
        if callable(body):
            body = body(request)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(ConnectionError):
            for piece in [body] if isinstance(body, str) else body:
                self.wfile.write(piece.encode())
                self.wfile.flush()


@contextmanager
def run_provider(*bodies: Body | Choice) -> Iterator[ScriptedProvider]:
    """Run the provider, and point the libraries of all providers to it."""
    with pytest.MonkeyPatch.context() as patch, ScriptedProvider(*bodies) as provider:
        thread = threading.Thread(target=provider.serve_forever, args=(0.01,))
        thread.start()
        for variable, value in {**KEYS, **dict.fromkeys(ADDRESSES, provider.url)}.items():
            patch.setenv(variable, value)
        try:
            yield provider
        finally:
            provider.shutdown()
            thread.join()


def google_event(parts: Any, finish: Any = "STOP", **more: Any) -> str:
    """Return one event of a stream in Google's format."""
    content = {"content": {"role": "model", "parts": parts}, "index": 0} | ({"finishReason": finish} if finish else {})
    return f"data: {json.dumps({'candidates': [content], **more})}\n\n"
