"""A tenant's requests while a stranger, who can only reach the port, attacks the server.

`python -m bench.strangers URL` runs the attack alone.
"""

import asyncio
import subprocess
import sys
import time
from functools import partial
from http.client import HTTPConnection
from itertools import count
from urllib.parse import urlsplit

from bench.harness import Measurements, Workshop, at_most, benchmark, in_turns
from bench.http import Served, served, stop

REQUESTS = 3_000
ROUNDS = 9
BODY = b'{"threadId": "a", "runId": "b", "messages": [' + b",".join([b"[]"] * 330_000) + b"]}"
CONNECTIONS = {"body": 3, "token": 16, "page": 16, "trailers": 8, "idle": 200}


class Stranger:
    """Sends requests on one connection without end, and opens another one when it is closed."""

    def __init__(self, url: str, kind: str, number: int) -> None:
        address = urlsplit(url)
        self.host, self.port = address.hostname or "", address.port or 80
        self.kind = kind
        self.numbers = count(number * 1_000_000_000)

    async def attack(self) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(self.host, self.port)
                while True:
                    writer.write(self.build_request())
                    await writer.drain()
                    if self.kind == "idle":
                        await reader.read()
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                    await reader.readexactly(int(length or 0))
                    if self.kind == "trailers":
                        writer.write(b"0\r\n" + b"X: y\r\n" * 10_000)
            except (OSError, EOFError):
                await asyncio.sleep(0.01)
            finally:
                writer.close()

    def build_request(self) -> bytes:
        token = f"Host: x\r\nAuthorization: Bearer hw_{next(self.numbers):043}\r\n".encode()
        match self.kind:
            case "body":
                head = b"POST /v1/ag-ui HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                return head % (token, len(BODY)) + BODY
            case "token":
                return b"GET /v1/todos HTTP/1.1\r\n%s\r\n" % token
            case "trailers":
                return b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            case "idle":
                return b"GET /"
        return b"GET /login HTTP/1.1\r\nHost: x\r\n\r\n"


async def attack(url: str) -> None:
    kinds = [kind for kind, number in CONNECTIONS.items() for _ in range(number)]
    await asyncio.gather(*(Stranger(url, kind, number).attack() for number, kind in enumerate(kinds)))


def measure_p99(url: str, tokens: list[str]) -> float:
    """Return the time, in ms, within which 99 of 100 requests are answered. They use several tokens, as each has a rate limit."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port)
    times = []
    for number in range(REQUESTS):
        start = time.perf_counter()
        headers = {"Authorization": f"Bearer {tokens[number % len(tokens)]}"}
        connection.request("GET", "/v1/todos?limit=20", headers=headers)
        with connection.getresponse() as answer:
            answer.read()
        assert answer.status == 200, answer.status
        times.append((time.perf_counter() - start) * 1000)
    connection.close()
    return sorted(times)[REQUESTS * 99 // 100]


WORKLOAD = "p99 of a tenant's list while a stranger attacks: 1 MB bodies, tokens, trailers, the page, idle connections"


@benchmark("http.stranger", WORKLOAD, "no attack; the stranger uses the same two cores", at_most(1.1))
def stranger(shop: Workshop) -> Measurements:
    at = shop.once(served)
    return in_turns(partial(measure_under_attack, at), partial(measure_p99, at.url, at.tokens), ROUNDS, "ms")


def measure_under_attack(at: Served) -> float:
    attacker = subprocess.Popen([sys.executable, "-m", "bench.strangers", at.url], text=True)
    try:
        time.sleep(1.5)  # until all of its connections are open
        return measure_p99(at.url, at.tokens)
    finally:
        stop(attacker)


if __name__ == "__main__":
    asyncio.run(attack(sys.argv[1]))
