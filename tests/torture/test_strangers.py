"""Strangers, who can only reach the port, attack the server: its memory does not grow, no connection stays, and a tenant's requests
are answered all the same."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.proofs import Proof
from tests.surfaces.server_harness import Service, run_server, wait_until

GROWTH_LIMIT = 48 * 2**20
LIST_BODY = b'{"threadId": "a", "runId": "b", "messages": [' + b",".join([b"[]"] * 330_000) + b"]}"
POST = b"POST /v1/ag-ui HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer hw_%d\r\nContent-Length: %d\r\n\r\n"
UNFINISHED = {
    "content-length": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", b"x"),
    "trailers": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"0\r\nX: y\r\n"),
}
TRAILER_BYTES = 100 * 2**20
PIECE = b"X: " + b"y" * 60_000


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path) as opened:
        yield opened


def count_connections(service: Service) -> int:
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in psutil.Process(service.process.pid).net_connections())


async def open_connection(service: Service) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(service.url)
    return await asyncio.open_connection(address.hostname, address.port)


async def send_until_closed(service: Service, head: bytes, piece: bytes, limit: int) -> int:
    """Send a request and then the piece again and again. Return how many bytes of the pieces were sent."""
    reader, writer = await open_connection(service)
    sent = 0
    try:
        writer.write(head)
        await reader.read(100)
        while sent < limit:
            writer.write(piece)
            sent += len(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return sent


@pytest.mark.torture
def test_connections_with_an_unfinished_request_do_not_stay(service: Service, proof: Proof) -> None:
    connections = 1_000
    proof.tried("strangers: connections that are left unfinished after the answer", connections)

    async def leave_unfinished(head: bytes, tail: bytes) -> asyncio.StreamWriter:
        reader, writer = await open_connection(service)
        writer.write(head)
        await reader.read(100)
        writer.write(tail)
        return writer

    async def attack() -> list[asyncio.StreamWriter]:
        kinds = list(UNFINISHED.values())
        return [await leave_unfinished(*kinds[number % len(kinds)]) for number in range(connections)]

    async def run_scenario() -> None:
        writers = await attack()
        await asyncio.to_thread(wait_until, lambda: count_connections(service) == 0, "every connection is closed")
        for writer in writers:
            writer.close()

    asyncio.run(run_scenario())


@pytest.mark.torture
def test_a_hundred_megabytes_of_trailers_are_not_kept(service: Service, proof: Proof) -> None:
    head = UNFINISHED["trailers"][0]
    process = psutil.Process(service.process.pid)
    asyncio.run(send_until_closed(service, head, b"0\r\n" + PIECE, 2**20))
    before = process.memory_info().rss

    async def attack() -> int:
        return sum([await send_until_closed(service, head, b"0\r\n" + PIECE, TRAILER_BYTES) for _ in range(20)])

    sent = asyncio.run(attack())
    grown = process.memory_info().rss - before
    proof.tried("strangers: connections that send 100 MB of trailers", 20)
    assert sent < TRAILER_BYTES, f"{sent / 2**20:.0f} MiB were taken"
    assert grown < GROWTH_LIMIT, f"{grown / 2**20:.1f} MiB"


@pytest.mark.torture
def test_bodies_of_strangers_do_not_hold_up_a_tenant(service: Service, proof: Proof) -> None:
    """Each body would block the loop for more than half a second if it was parsed."""
    requests = 300
    proof.tried("strangers: a tenant's requests while three connections send 1 MB bodies", requests)

    async def attack(number: int) -> None:
        while True:
            await send_until_closed(service, POST % (number, len(LIST_BODY)), LIST_BODY, 1)

    async def run_scenario() -> list[float]:
        attackers = [asyncio.create_task(attack(number)) for number in range(3)]
        with service.tenant() as client:
            times = []
            for _ in range(requests):
                start = time.perf_counter()
                assert (await asyncio.to_thread(client.get, "/v1/todos")).status_code == 200
                times.append(time.perf_counter() - start)
        for attacker in attackers:
            attacker.cancel()
        await asyncio.gather(*attackers, return_exceptions=True)
        return sorted(times)

    times = asyncio.run(run_scenario())
    assert times[requests // 2] < 0.25, f"p50 {times[requests // 2] * 1000:.0f} ms, p99 {times[requests * 99 // 100] * 1000:.0f} ms"
