"""Clients that send the head of a request too slowly are disconnected and delay no other client."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
import uvicorn

from headway.surfaces.http.bounded_protocol import BoundedProtocol
from tests.surfaces.server_harness import PATIENCE_S, Service, client_options

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
DRIPS = {
    "nothing at all": (b"", b""),
    "half a head": (b"GET / HTTP/1.1\r\nHost: x\r\n", b""),
    "a header that goes on and on": (b"GET / HTTP/1.1\r\nX-Slow: ", b"x"),
    "a path that goes on and on": (b"GET /", b"x"),
    "empty lines": (b"", b"\r\n"),
    "half a head behind a whole one": (REQUEST + b"GET /", b"x"),
    "empty lines behind a whole one": (REQUEST, b"\r\n"),
}


class Impatient(BoundedProtocol):
    patience_s = 0.3


async def app(scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """Respond at once. On `/lasting`, send the rest of the body after a delay."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"at once", "more_body": True})
    if scope["path"] == "/lasting":
        await asyncio.sleep(3 * Impatient.patience_s)
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
    response = asyncio.create_task(reader.read())
    writer.write(first)
    with suppress(OSError):
        while not response.done():
            writer.write(then)
            await asyncio.sleep(0.05)
    writer.close()
    return await response


def test_a_head_that_drips_in_is_given_up() -> None:
    async def run_scenario() -> list[bytes]:
        async with run_impatient_server() as port:
            return await asyncio.wait_for(asyncio.gather(*(drip(port, *parts) for parts in DRIPS.values())), PATIENCE_S)

    for name, response in zip(DRIPS, asyncio.run(run_scenario()), strict=True):
        *whole, last = response.split(b"HTTP/1.1 ")[1:]
        assert last.startswith(b"400 "), (name, response)
        assert b"did not arrive within 0.3 s" in last, name
        assert [reply[:3] for reply in whole] == ([b"200"] if DRIPS[name][0].startswith(REQUEST) else []), (name, response)


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
