"""Thousands of event-stream clients over plain sockets: some connect and leave, some never read, and some read everything."""

import asyncio
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

AT_ONCE = 100
CONNECTS_PER_SECOND = 500  # the server refuses more than 600 per token
SMALLEST_BUFFER = 4096


def build_request(url: str, secret: str, after: int | None) -> bytes:
    query = "" if after is None else f"?after={after}"
    return f"GET /v1/events{query} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nAuthorization: Bearer {secret}\r\n\r\n".encode()


@asynccontextmanager
async def connect(url: str, secret: str, after: int | None = None) -> AsyncIterator[StreamReader]:
    """Open a stream and read the response headers; the next bytes are the first frame."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(build_request(url, secret, after))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        yield reader
    finally:
        await close_writer(writer)


async def close_writer(writer: StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def connect_and_leave(url: str, secret: str, connects: int) -> None:
    """Connect this many clients; each reads one frame and leaves."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def visit(number: int) -> None:
        await asyncio.sleep(number / CONNECTS_PER_SECOND)
        async with slots, connect(url, secret) as reader:
            await reader.readuntil(b"\n\n")

    await asyncio.gather(*map(visit, range(connects)))


class StalledReader:
    """Connects, sends a request, and never reads a byte."""

    def __init__(self, url: str, secret: str) -> None:
        address = urlsplit(url)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALLEST_BUFFER)
        self.socket.connect((address.hostname, address.port))
        self.socket.sendall(build_request(url, secret, 0))

    def close(self) -> None:
        self.socket.close()


class ResumingReader:
    """Reads everything, and resumes after the last event when it is disconnected."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.seen: list[int] = []

    async def follow(self, url: str) -> None:
        """Read until the server closes the connection."""
        after = self.seen[-1] if self.seen else 0
        with suppress(ConnectionError):
            async with connect(url, self.secret, after) as reader:
                number = 0
                while line := await reader.readline():
                    if line.startswith(b"id: "):
                        number = int(line[4:])
                    elif line.startswith(b"event: ") and line != b"event: ping\n":
                        self.seen.append(number)

    async def has_seen(self, number: int) -> None:
        while not self.seen or self.seen[-1] < number:
            await asyncio.sleep(0.02)
