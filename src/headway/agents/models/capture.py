"""Capture the HTTP response of a model provider while its client library reads it, so that error messages can quote it.

An event of a stream that would take too long to parse is not passed on.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final
from weakref import ref

from pydantic_ai.models import Model

from headway.ledger.parsing.json_values import ValueCounter

BUFFER_LIMIT: Final = 4_096  # bytes kept of the start, and as many of the end
LINE_VALUES_LIMIT: Final = 10_000  # JSON values in one line of a stream; the libraries take about ten microseconds for each
LAST_LINE: Final = b"[DONE]"  # ends an OpenAI-compatible stream


class MalformedAnswer(Exception):
    """Its response is not an answer in the provider's protocol"""


class ReceivedBody:
    """The start and the end of the last response's body. Stays empty for models that make no HTTP requests."""

    def __init__(self) -> None:
        self.has_begun = False
        self.size = 0
        self.head = self.tail = b""
        self.line = ValueCounter(LINE_VALUES_LIMIT)

    def begin(self) -> None:
        self.has_begun = True
        self.size = 0
        self.head = self.tail = b""
        self.line.start_over()

    def take(self, chunk: bytes) -> None:
        """Record a part of the body. Raises MalformedAnswer if a line has far too many values."""
        self.size += len(chunk)
        self.head += chunk[: BUFFER_LIMIT - len(self.head)]
        self.tail = (self.tail + chunk)[-BUFFER_LIMIT:]
        for number, part in enumerate(chunk.split(b"\n")):
            if number:
                self.line.start_over()
            self.line.feed(part)
            if self.line.has_exceeded:
                raise MalformedAnswer(f"One event of its answer has more than {LINE_VALUES_LIMIT:,} values")

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
        response.aiter_bytes = wrap_reader(ref(response), type(response).aiter_bytes, received)


def wrap_reader(
    find_response: Callable[[], Any], read: Callable[..., AsyncIterator[bytes]], received: ReceivedBody
) -> Callable[..., AsyncIterator[bytes]]:
    """Return a method of the response that records what it reads. It does not keep the response: a response that kept itself would
    stay, together with its request, until the garbage collector finds it."""

    async def record(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            received.take(chunk)
            yield chunk

    return lambda *options: record(read(find_response(), *options))
