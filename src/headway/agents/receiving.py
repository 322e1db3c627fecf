"""What a provider sends, kept while its library reads it: where that is not an answer, people are told what it was instead."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from pydantic_ai.models import Model

KEPT: Final = 4_096  # bytes of the beginning, and as many of the end
LAST_LINE: Final = b"[DONE]"  # of an OpenAI-compatible stream


class Received:
    """The beginning and the end of the body of the last response. A model that makes no HTTP requests leaves it unused."""

    def __init__(self) -> None:
        self.begun = False
        self.size = 0
        self.head = self.tail = b""

    def begin(self) -> None:
        self.begun = True
        self.size = 0
        self.head = self.tail = b""

    def take(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.head += chunk[: KEPT - len(self.head)]
        self.tail = (self.tail + chunk)[-KEPT:]

    @property
    def text(self) -> str:
        whole = self.head if self.size <= KEPT else self.head + b" \xe2\x80\xa6 " + self.tail
        return whole.decode(errors="replace")

    @property
    def is_complete(self) -> bool:
        """Whether an OpenAI-compatible stream was sent to its end."""
        return LAST_LINE in self.tail

    @property
    def is_from_a_proxy(self) -> bool:
        """Nothing at all, or a page for people: something on the way answered, and not the provider."""
        return self.begun and (not self.head.strip() or self.head.lstrip().startswith(b"<"))


CURRENT: ContextVar[Received] = ContextVar("what the current model call received")


@contextmanager
def receiving(model: Model) -> Iterator[Received]:
    """Record what the model's provider sends while this lasts."""
    client = getattr(model.provider, "_own_http_client", None)
    if client is not None and record not in client.event_hooks["response"]:
        client.event_hooks["response"].append(record)
    received = Received()
    token = CURRENT.set(received)
    try:
        yield received
    finally:
        CURRENT.reset(token)


async def record(response: Any) -> None:
    """A hook of the HTTP client, called before the body is read. The body is recorded as it is after decompression."""
    received = CURRENT.get(None)
    if received is not None:
        received.begin()
        response.aiter_bytes = recorded(response.aiter_bytes, received)


def recorded(read: Callable[..., AsyncIterator[bytes]], received: Received) -> Callable[..., AsyncIterator[bytes]]:
    async def read_and_record(*options: Any) -> AsyncIterator[bytes]:
        async for chunk in read(*options):
            received.take(chunk)
            yield chunk

    return read_and_record
