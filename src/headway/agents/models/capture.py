"""Capture the HTTP response of a model provider while its client library reads it, so that error messages can quote it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from pydantic_ai.models import Model

BUFFER_LIMIT: Final = 4_096  # bytes kept of the start, and as many of the end
LAST_LINE: Final = b"[DONE]"  # ends an OpenAI-compatible stream


class ReceivedBody:
    """The start and the end of the last response's body. Stays empty for models that make no HTTP requests."""

    def __init__(self) -> None:
        self.has_begun = False
        self.size = 0
        self.head = self.tail = b""

    def begin(self) -> None:
        self.has_begun = True
        self.size = 0
        self.head = self.tail = b""

    def take(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.head += chunk[: BUFFER_LIMIT - len(self.head)]
        self.tail = (self.tail + chunk)[-BUFFER_LIMIT:]

    @property
    def text(self) -> str:
        whole = self.head if self.size <= BUFFER_LIMIT else self.head + b" \xe2\x80\xa6 " + self.tail
        return whole.decode(errors="replace")

    @property
    def is_complete(self) -> bool:
        """Whether the end marker of an OpenAI-compatible stream was received."""
        return LAST_LINE in self.tail

    @property
    def is_from_a_proxy(self) -> bool:
        """Whether the body is empty or HTML, which means that a proxy answered instead of the provider."""
        return self.has_begun and (not self.head.strip() or self.head.lstrip().startswith(b"<"))


CURRENT_BODY: ContextVar[ReceivedBody] = ContextVar("what the current model call received")


@contextmanager
def capture_body(model: Model) -> Iterator[ReceivedBody]:
    """Record the provider's response bodies for the duration of the context."""
    client = getattr(model.provider, "_own_http_client", None)
    if client is not None and capture_response not in client.event_hooks["response"]:
        client.event_hooks["response"].append(capture_response)
    received = ReceivedBody()
    token = CURRENT_BODY.set(received)
    try:
        yield received
    finally:
        CURRENT_BODY.reset(token)


async def capture_response(response: Any) -> None:
    """HTTP client hook, called before the body is read. Records the body after decompression."""
    received = CURRENT_BODY.get(None)
    if received is not None:
        received.begin()
        response.aiter_bytes = wrap_reader(response.aiter_bytes, received)


def wrap_reader(read: Callable[..., AsyncIterator[bytes]], received: ReceivedBody) -> Callable[..., AsyncIterator[bytes]]:
    async def read_and_record(*options: Any) -> AsyncIterator[bytes]:
        async for chunk in read(*options):
            received.take(chunk)
            yield chunk

    return read_and_record
