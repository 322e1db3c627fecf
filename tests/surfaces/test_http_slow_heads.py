"""Clients that are too slow or send too much, in any part of a request, are disconnected and delay no other client."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from headway.surfaces.http.server import BoundedProtocol
from tests.surfaces.server_harness import PATIENCE_S, Service, client_options, run_server

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
DRIPS = {
    "half a head": (b"GET / HTTP/1.1\r\nHost: x\r\n", b""),
    "a header that goes on and on": (b"GET / HTTP/1.1\r\nX-Slow: ", b"x"),
    "a path that goes on and on": (b"GET /", b"x"),
    "empty lines": (b"", b"\r\n"),
    "half a head behind a whole one": (REQUEST + b"GET /", b"x"),
    "empty lines behind a whole one": (REQUEST, b"\r\n"),
}


ANSWERED_BODIES = {
    "a body that never ends": (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n", b"x"),
    "a body that never comes": (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", b""),
    "trailers that never end": (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
    "chunks that never end": (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}
CHUNKED = b"GET %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOODS = {
    "trailers": (CHUNKED % b"/lasting", b"0\r\n", b"X: y\r\n" * 10_000),
    "one long trailer": (CHUNKED % b"/lasting", b"0\r\nX: ", b"y" * 60_000),
    "trailers after the answer": (CHUNKED % b"/", b"0\r\n", b"X: y\r\n" * 10_000),
    "an extension of a chunk": (CHUNKED % b"/lasting", b"1;", b"y" * 60_000),
    "tiny chunks": (CHUNKED % b"/lasting", b"", b"1\r\nx\r\n" * 10_000),
    "a body after the answer": (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n", b"", b"x" * 60_000),
    "headers": (b"GET / HTTP/1.1\r\n", b"", b"X: y\r\n" * 300),
}
FLOOD_LIMIT = 16 * 2**20  # more than fits into the buffers between the two


class Impatient(BoundedProtocol):
    patience_s = 0.3
    grace_s = 0.1
    linger_s = 0.3
    stall_s = 0.3


async def app(scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """Respond at once. On `/lasting`, send the rest of the body after a delay."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"at once", "more_body": True})
    if scope["path"] == "/lasting":
        await asyncio.sleep(3 * Impatient.patience_s)
    if scope["path"] == "/large":
        await send({"type": "http.response.body", "body": bytes(FLOOD_LIMIT), "more_body": True})
    await send({"type": "http.response.body", "body": b" and at last"})


@asynccontextmanager
async def run_impatient_server() -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=Impatient, log_config=None, lifespan="off", timeout_keep_alive=PATIENCE_S)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await serving


async def drip(port: int, first: bytes, then: bytes) -> bytes:
    """Send bytes slowly without ever finishing a request. Return everything received."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    response = asyncio.create_task(read_until_closed(reader))
    writer.write(first)
    with suppress(OSError):
        while not response.done():
            writer.write(then)
            await asyncio.sleep(0.05)
    writer.close()
    return await response


async def read_until_closed(reader: asyncio.StreamReader) -> bytes:
    """Read everything. A server that closes the connection while bytes arrive resets it."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := await reader.read(65_536):
            received += piece
    return received


def test_a_head_that_drips_in_is_given_up() -> None:
    async def run_scenario() -> list[bytes]:
        async with run_impatient_server() as port:
            return await asyncio.wait_for(asyncio.gather(*(drip(port, *parts) for parts in DRIPS.values())), PATIENCE_S)

    for name, response in zip(DRIPS, asyncio.run(run_scenario()), strict=True):
        *whole, last = response.split(b"HTTP/1.1 ")[1:]
        assert last.startswith(b"400 "), (name, response)
        assert b"did not arrive within 0.3 s" in last, name
        assert [reply[:3] for reply in whole] == ([b"200"] if DRIPS[name][0].startswith(REQUEST) else []), (name, response)


def test_a_connection_without_a_request_is_closed_without_an_answer() -> None:
    """A browser that sends its request at that moment connects again. It would show an answer as that to its request."""

    async def run_scenario() -> bytes:
        async with run_impatient_server() as port:
            return await asyncio.wait_for(drip(port, b"", b""), PATIENCE_S)

    assert asyncio.run(run_scenario()) == b""


def test_a_request_that_is_answered_must_end_soon() -> None:
    async def run_scenario() -> list[bytes]:
        async with run_impatient_server() as port:
            return await asyncio.wait_for(asyncio.gather(*(drip(port, *parts) for parts in ANSWERED_BODIES.values())), PATIENCE_S)

    for name, response in zip(ANSWERED_BODIES, asyncio.run(run_scenario()), strict=True):
        assert response.count(b"HTTP/1.1 ") == 1, (name, response)
        assert b"and at last" in response, (name, response)


def test_what_follows_a_head_is_limited_in_size() -> None:
    async def flood(port: int, head: bytes, first: bytes, then: bytes) -> int:
        """Send until the server closes the connection. Return how many bytes it took."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        if head.endswith(b"\r\n\r\n"):
            await reader.read(10)  # the beginning of the answer
        writer.write(first)
        sent = 0
        with suppress(OSError):
            while sent < FLOOD_LIMIT:
                writer.write(then)
                sent += len(then)
                await writer.drain()
        writer.close()
        return sent

    async def run_scenario() -> list[int]:
        async with run_impatient_server() as port:
            return await asyncio.wait_for(asyncio.gather(*(flood(port, *parts) for parts in FLOODS.values())), PATIENCE_S)

    for name, sent in zip(FLOODS, asyncio.run(run_scenario()), strict=True):
        assert sent < FLOOD_LIMIT, name


def test_a_client_that_does_not_read_is_given_up() -> None:
    async def run_scenario() -> bytes:
        async with run_impatient_server() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST.replace(b"/", b"/large", 1))
            await reader.read(10)
            await asyncio.sleep(3 * Impatient.stall_s)
            received = b""
            with suppress(OSError):
                received = await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()
            return received

    assert len(asyncio.run(run_scenario())) < FLOOD_LIMIT


def test_strangers_displace_strangers_and_nobody_with_a_token(tmp_path: Path) -> None:
    """Of the ten connections that the server allows, an address may have one without a token."""
    environment = {"HEADWAY_MAX_CONNECTIONS": "10"}
    with ExitStack() as stack:
        service = stack.enter_context(run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path, environment=environment))
        client = stack.enter_context(service.tenant())
        url = httpx.URL(service.url)

        def connect() -> HTTPConnection:
            connection = HTTPConnection(url.host, url.port, timeout=PATIENCE_S)
            connection.connect()
            stack.callback(connection.close)
            return connection

        def ask(connection: HTTPConnection) -> int:
            connection.request("GET", "/v1/session", headers={"Authorization": f"Bearer {client.secret}"})
            with connection.getresponse() as answer:
                answer.read()
            return answer.status

        admitted = [connect()]
        assert ask(admitted[0]) == 200
        first, second = connect(), connect()
        assert first.sock.recv(1) == b""  # closed, because the second connection took its place
        for number in range(9):
            admitted.append(connect() if number else second)
            assert ask(admitted[-1]) == 200
        assert connect().sock.recv(65536).startswith(b"HTTP/1.1 503 ")
        assert [ask(connection) for connection in admitted] == [200] * 10


def test_a_long_answer_is_not_cut_short_by_other_traffic() -> None:
    async def run_scenario() -> bytes:
        async with run_impatient_server() as port:
            return await asyncio.wait_for(drip(port, REQUEST.replace(b"/", b"/lasting", 1), b"\r\n"), PATIENCE_S)

    response = asyncio.run(run_scenario())
    assert response.index(b"and at last") < response.index(b"HTTP/1.1 400 ")


def test_a_client_that_drips_its_request_blocks_no_other(sqlite_service: Service) -> None:
    url = httpx.URL(sqlite_service.url)
    held = [socket.create_connection((url.host, url.port or 0), timeout=PATIENCE_S) for _ in range(100)]
    for connection in held:
        connection.sendall(b"POST /v1/todos HTTP/1.1\r\nX-Slow: x")
    with httpx.Client(**client_options(sqlite_service.url)) as client:
        assert [client.get("/healthz").status_code for _ in range(10)] == [200] * 10
    for connection in held:
        connection.close()


@pytest.mark.parametrize("path", ["/v1/events", "/healthz", "/mcp"])
def test_there_are_no_web_sockets(sqlite_service: Service, path: str) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with httpx.Client(**client_options(sqlite_service.url)) as client:
        assert client.get(path, headers=upgrade).status_code in (200, 401, 405)
