"""HTTP exchanges with a server. A request is sent again if that cannot have it done twice."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2

from headway.ledger.errors import HeadwayError, ServerUnreachable, WrongCell
from headway.library.door import encode_body, encode_query
from headway.library.remote.frames import read_events
from headway.library.remote.problems import build_error, is_certain, may_pass
from headway.values.turns import Event

FIRST_DELAY_S: Final = 0.2
LONGEST_DELAY_S: Final = 10.0
SLOW_TIMEOUT_S: Final = 900.0  # for requests that run checks
SILENCE_S: Final = 45.0  # a stream has a heartbeat every 15 seconds
CELLS_LIMIT: Final = 2  # answers in a row that name another cell: the one of the token's prefix, and the present one
NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class StreamLost(Exception):
    """A stream failed for a reason that may pass."""

    def __init__(self, error: HeadwayError) -> None:
        super().__init__(str(error))
        self.error = error


class RemoteCall(NamedTuple):
    """A request, with the key that lets the server recognise it when it is sent again."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    body: bytes | None
    key: str

    @property
    def headers(self) -> dict[str, str]:
        described = {} if self.body is None else {"Content-Type": "application/json"}
        return {**described, "Idempotency-Key": self.key} if self.method == "POST" else described

    @property
    def is_repeatable(self) -> bool:
        """Whether the server does it once, however often it is sent."""
        return self.method in ("GET", "POST")


def build_call(method: str, path: str, query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None) -> RemoteCall:
    return RemoteCall(method, path, encode_query(query or {}), None if body is None else encode_body(body), uuid4().hex)


class ServerConnection:
    """The connection to one server, or to the cell that has the tenant: it follows answers that name another cell."""

    def __init__(self, url: str, token: str, timeout_s: float, retries: int) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self.retries = retries
        self.client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}", "User-Agent": "headway"}, timeout=timeout_s)

    async def close(self) -> None:
        await self.client.aclose()

    async def send(self, call: RemoteCall, *, is_slow: bool = False) -> dict[str, Any]:
        """Send a request and return the answer; empty if it has none."""
        content = await self.fetch(call, is_slow=is_slow)
        answer: dict[str, Any] = json.loads(content) if content else {}
        return answer

    async def fetch(self, call: RemoteCall, *, is_slow: bool = False) -> bytes:
        """Send a request and return the body of the answer."""
        timeout = httpx2.Timeout(self.timeout_s, read=SLOW_TIMEOUT_S if is_slow else self.timeout_s)
        failures = moves = 0
        while True:
            wait_s = compute_delay(failures)
            try:
                url = self.url + call.path
                response = await self.client.request(
                    call.method, url, params=call.query, content=call.body, headers=call.headers, timeout=timeout
                )
            except httpx2.TransportError as failure:
                if failures >= self.retries or not (call.is_repeatable or isinstance(failure, NOT_SENT)):
                    raise self.build_unreachable(failure) from failure
            else:
                if response.status_code < 400:
                    return bytes(response.content)
                error = build_error(response.status_code, response.content)
                if isinstance(error, WrongCell) and moves < CELLS_LIMIT and self.go_to(error):
                    moves += 1  # nothing was changed, so any request can be sent again
                    continue
                is_safe = call.is_repeatable or is_certain(error)
                if failures >= self.retries or not (is_safe and may_pass(response.status_code, error)):
                    raise error
                wait_s = max(wait_s, parse_delay(response))
            failures += 1
            await asyncio.sleep(wait_s)

    async def stream(self, call: RemoteCall, last_number: int | None = None) -> AsyncGenerator[Event]:
        """Yield the events of one response. Raises StreamLost if the connection fails or falls silent, or the tenant moves to
        another cell, where the stream continues."""
        headers = {**call.headers, "Accept": "text/event-stream"}
        if last_number is not None:
            headers["Last-Event-ID"] = str(last_number)
        timeout = httpx2.Timeout(self.timeout_s, read=SILENCE_S)
        try:
            async with self.client.stream(
                call.method, self.url + call.path, params=call.query, content=call.body, headers=headers, timeout=timeout
            ) as response:
                if response.status_code != 200:
                    error = build_error(response.status_code, await response.aread())
                    has_moved = isinstance(error, WrongCell) and self.go_to(error)
                    raise StreamLost(error) if has_moved or may_pass(response.status_code, error) else error
                try:
                    async for event in read_events(response.aiter_bytes()):
                        yield event
                except WrongCell as moved:
                    self.go_to(moved)  # without an address, a proxy may know the cell
                    raise StreamLost(moved) from moved
        except httpx2.TransportError as failure:
            raise StreamLost(self.build_unreachable(failure)) from failure

    def go_to(self, error: WrongCell) -> bool:
        """Send all further requests to the cell that an answer names. Returns whether it names one. The token is never sent
        without TLS if it was sent with it before."""
        parts = urlsplit(error.location)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and not self.url.startswith("https:"))
        if is_safe and parts.hostname:
            self.url = error.location.rstrip("/")
            return True
        return False

    async def wait_to_reconnect(self, failures: int, loss: StreamLost | None) -> None:
        """Wait before the next attempt to stream, or raise the error if there were too many."""
        limit = CELLS_LIMIT + 1 if loss and isinstance(loss.error, WrongCell) else self.retries
        if loss and failures > limit:
            raise loss.error
        await asyncio.sleep(compute_delay(failures))

    def build_unreachable(self, failure: Exception) -> ServerUnreachable:
        reason = str(failure) or type(failure).__name__
        return ServerUnreachable(f"The server at {self.url} cannot be reached: {reason.rstrip('.')}.")


def compute_delay(failures: int) -> float:
    """Return how long to wait after so many failures. Chance keeps clients from returning all at once."""
    return min(FIRST_DELAY_S * 2.0**failures, LONGEST_DELAY_S) * random.uniform(0.5, 1)  # noqa: S311  no secret


def parse_delay(response: httpx2.Response) -> float:
    """Return for how long the server asks to wait."""
    text = str(response.headers.get("retry-after", ""))
    return min(float(text), LONGEST_DELAY_S) if text.isascii() and text.isdigit() else 0.0
