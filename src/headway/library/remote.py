"""The transport to a Headway on a server: requests over HTTP, streams of events, and problems as errors."""

import asyncio
import base64
import json
import random
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx2

from headway.ledger import errors
from headway.ledger.errors import (
    CheckFailed,
    Closed,
    CommitUncertain,
    Conflict,
    Forbidden,
    Halted,
    HeadwayError,
    Invalid,
    KeyBusy,
    NotFound,
    QuotaExceeded,
    ServerFailed,
    ServerUnreachable,
    Unauthorized,
    WrongCell,
)
from headway.ledger.events import TURN_ENDS
from headway.library.client import Client
from headway.library.namespaces.conversations import Conversations
from headway.library.transport import (
    AskedMessage,
    Document,
    RequestTransport,
    drop_none,
    encode_body,
    encode_path,
    encode_query,
    read_files,
)
from headway.values.turns import Event

if TYPE_CHECKING:
    from headway.values.events import TypedEvent


async def read_events(chunks: AsyncIterable[bytes]) -> AsyncIterator["TypedEvent"]:
    """Read the events of a stream. Only line feeds end a line, because JSON may contain every other line break."""
    rest = b""
    async for chunk in chunks:
        *frames, rest = (rest + chunk.replace(b"\r\n", b"\n")).split(b"\n\n")
        for frame in frames:
            if event := parse_frame(frame):
                yield event


def parse_frame(frame: bytes) -> "TypedEvent | None":
    """Parse a frame. Comments and frames without data are no events."""
    fields: dict[bytes, list[bytes]] = {}
    for line in frame.split(b"\n"):
        name, _, value = line.partition(b":")
        fields.setdefault(name, []).append(value.removeprefix(b" "))
    if b"data" not in fields:
        return None
    kind, numbers = fields.get(b"event", [b"message"])[-1].decode(), fields.get(b"id")
    data = json.loads(b"\n".join(fields[b"data"]))
    if kind == "tenant_moved":
        raise WrongCell.from_event(data)
    return cast("TypedEvent", Event(cast("Any", kind), data, int(numbers[-1]) if numbers else None))


# Turns the error responses of a server into the exceptions that the same call raises inside a program.


# For codes without a class: from a newer server, and for problems of the HTTP exchange itself.
BY_STATUS: Final[dict[int, type[HeadwayError]]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: QuotaExceeded,
}
PASSING: Final = (408, 429, 502, 503, 504)  # statuses of failures that may pass
LONGEST_SENTENCE: Final = 500


@cache
def list_kinds() -> dict[str, type[HeadwayError]]:
    """Return the classes of errors by their codes."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadwayError)]
    return {kind().code: kind for kind in kinds}


def build_error(status: int, body: bytes) -> HeadwayError:
    """Build the error of a response. One that is not from Headway, such as that of a proxy, is a ServerFailed."""
    try:
        document = json.loads(body)
        sentence, code = str(document["detail"]), str(document["code"])
    except (ValueError, KeyError, TypeError):
        text = body[:LONGEST_SENTENCE].decode(errors="replace").strip()
        return BY_STATUS.get(status, ServerFailed)(f"The server answered with status {status}{f': {text}' if text else '.'}")
    return build_known_error(list_kinds().get(code) or BY_STATUS.get(status, ServerFailed), sentence, document)


def build_known_error(kind: type[HeadwayError], sentence: str, document: Mapping[str, Any]) -> HeadwayError:
    if issubclass(kind, CheckFailed):
        return kind(sentence, document.get("failures", ()))
    if issubclass(kind, WrongCell):
        return kind(sentence, document.get("cell") or "", document.get("location") or "")
    return kind(sentence)


def may_pass(status: int, error: HeadwayError) -> bool:
    """Whether the same request may succeed in a moment."""
    if isinstance(error, KeyBusy):
        return True
    return status in PASSING and not isinstance(error, Halted | Closed) and error.code != "quota_exceeded"


def is_certain(error: HeadwayError) -> bool:
    """Whether a request that failed like this has surely changed nothing."""
    return not isinstance(error, CommitUncertain | ServerFailed)


# HTTP requests to a server. A failed request is retried only if repeating it is safe.


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

    async def stream(self, call: RemoteCall, last_number: int | None = None) -> AsyncGenerator["TypedEvent"]:
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


# Carries the library's requests to a server.


class RemoteTransport:
    """The transport to a server. Streams reconnect where they left off."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection

    async def send(
        self,
        route: str,
        *path: int | str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        is_slow: bool = False,
    ) -> Document:
        method, _, template = route.partition(" ")
        return await self.connection.send(build_call(method, fill_path(template, path), query, body), is_slow=is_slow)

    async def download(self, route: str, *path: int | str, query: Mapping[str, Any] | None = None) -> bytes:
        method, _, template = route.partition(" ")
        return await self.connection.fetch(build_call(method, fill_path(template, path), query))

    # Turns

    async def begin_turn(self, message: AskedMessage) -> str:
        body = await encode_message(message)
        if message.conversation is None:  # in one request: if the message is refused, no conversation is left behind
            return str((await self.send("POST /conversations", body={"message": body}))["turn_id"])
        conversation_id = await self._find_conversation_id(message.conversation)
        return str((await self.send("POST /conversations/{}/messages", conversation_id, body=body))["turn_id"])

    async def answer(self, message: AskedMessage) -> str:
        turn_id = await self.begin_turn(message)
        async for _event in self.follow_turn(turn_id, None):
            pass
        return turn_id

    async def stream_answer(self, message: AskedMessage) -> AsyncGenerator["TypedEvent"]:
        body = await encode_message(message)
        if message.conversation is None:
            conversation_id = (await Conversations(self).add()).id
        else:
            conversation_id = await self._find_conversation_id(message.conversation)
        call = build_call("POST", fill_path("/conversations/{}/messages", (conversation_id,)), None, body)
        turn_id, last = None, None
        failures = 0
        while turn_id is None:  # the same request again continues the same turn
            loss: StreamLost | None = None
            try:
                async for event in self.connection.stream(call):
                    turn_id, last = turn_id or event.turn_id, event.number or last
                    yield event
                    if event.kind in TURN_ENDS:
                        return
            except StreamLost as failure:
                loss = failure
            if turn_id is None:
                failures += 1
                await self.connection.wait_to_reconnect(failures, loss)
        async for event in self.follow_turn(turn_id, last):
            yield event

    async def _find_conversation_id(self, conversation: int | str) -> int:
        return conversation if isinstance(conversation, int) else (await Conversations(self).ensure(conversation)).id

    # Events

    async def follow_turn(self, turn_id: str, after: int | None) -> AsyncGenerator["TypedEvent"]:
        call = build_call("GET", fill_path("/turns/{}/events", (turn_id,)))
        async for event in self._follow(call, after, turn_id):
            yield event
            if event.kind in TURN_ENDS:
                return

    async def follow(self, conversation_id: int | None, after: int | None) -> AsyncGenerator["TypedEvent"]:
        path = fill_path("/events", ()) if conversation_id is None else fill_path("/conversations/{}/events", (conversation_id,))
        async for event in self._follow(build_call("GET", path), after):
            yield event

    async def _follow(self, call: RemoteCall, after: int | None, turn_id: str | None = None) -> AsyncGenerator["TypedEvent"]:
        """Yield events, and reconnect after the last one when the connection is lost or the server restarts."""
        failures = 0
        while True:
            loss: StreamLost | None = None
            try:
                async for event in self.connection.stream(call, after):
                    failures, after = 0, event.number or after
                    yield event
            except StreamLost as failure:
                loss = failure
            failures += 1
            await self.connection.wait_to_reconnect(failures, loss)
            if turn_id and not loss and (await self.send("GET /turns/{}", turn_id))["turn"]["ended_at"]:
                return  # the server has nothing more to say about it


def fill_path(template: str, parts: tuple[int | str, ...]) -> str:
    return "/v1" + template.format(*(quote(text, safe="") for text in encode_path(parts)))


async def encode_message(message: AskedMessage) -> Document:
    attachments = [
        {"name": file.name, "media_type": file.media_type, "data": base64.b64encode(file.data).decode()}
        for file in await read_files(message.attachments)
    ]
    return drop_none(
        content=message.content, mode=message.mode, attachments=attachments or None, continues=message.continues or None
    )


# Connects a program to a Headway that runs elsewhere.


class RemoteHeadway(Client):
    """A Headway on a server, with the methods of one inside the program."""

    def __init__(self, url: str, connection: ServerConnection) -> None:
        self.url = url
        self._connection = connection
        self._transport = RemoteTransport(connection)

    @property
    def transport(self) -> RequestTransport:
        """The transport that carries the requests to the server."""
        return self._transport

    def __repr__(self) -> str:
        return f"RemoteHeadway({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._connection.close()


def connect(url: str, token: str, *, timeout_s: float = 30, retries: int = 3) -> RemoteHeadway:
    """Return the methods of a Headway that runs at this address, for the tenant of the token. Use it with `async with`.

    A request that takes longer than `timeout_s` fails. One that fails for a reason that may pass is sent again up to `retries`
    times; a change is never made twice. The first request connects.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise Invalid("The url must have the form http://HOST:PORT or https://HOST.")
    if not (token.isascii() and token.isprintable() and token.strip()):
        raise Invalid("The token must be one that `headway token add` printed: hw_…")
    address = url.rstrip("/").removesuffix("/v1")
    return RemoteHeadway(address, ServerConnection(address, token.strip(), timeout_s, retries))
