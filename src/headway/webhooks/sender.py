"""Requests to webhooks: their bodies, signatures and answers."""

import asyncio
import hashlib
import hmac
import re
import socket
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple
from uuid import uuid4

from headway.ledger.errors import HeadwayError, OutOfReach
from headway.ledger.events import encode_json
from headway.ledger.parsing.addresses import DEFAULT_PORTS, Target
from headway.ledger.text import to_one_line
from headway.ledger.webhook import KEY_PREFIX, DeliveryAttempt, OutgoingEvent, Secrets, Webhook
from headway.outbound import Address, HostResolver, check_addresses, check_receiver, get_address_check, resolve_host

TEST_KIND: Final = "webhook_test"
PRUNED_KIND: Final = "log_pruned"


class WebhookMessage(NamedTuple):
    id: str  # the same whenever the event is sent again, so that receivers can recognize it
    seq: int  # 0: it is not in the log
    kind: str
    body: bytes


def build_message(webhook: Webhook, event: OutgoingEvent) -> WebhookMessage:
    assert event.data is not None
    head = build_head(event.kind, event.at, event.seq)
    origin = {"conversation_id": event.conversation_id or None, "turn_id": event.turn_id}
    return WebhookMessage(f"{webhook.id}_{event.seq}", event.seq, event.kind, encode_json(head | origin, data=event.data).encode())


def build_pruned_message(webhook: Webhook, pruned: int, now: int) -> WebhookMessage:
    """Tell the receiver that events which it has not seen were deleted because of their age."""
    body = encode_json({**build_head(PRUNED_KIND, now, pruned), "data": {"after": webhook.sent_to, "pruned": pruned}})
    return WebhookMessage(f"{webhook.id}_pruned_{webhook.sent_to}_{pruned}", 0, PRUNED_KIND, body.encode())


def build_test_message(webhook: Webhook, now: int) -> WebhookMessage:
    body = encode_json({**build_head(TEST_KIND, now, None), "data": {"webhook_id": webhook.id}})
    return WebhookMessage(f"{webhook.id}_test_{uuid4().hex}", 0, TEST_KIND, body.encode())


def build_head(kind: str, at: int, seq: int | None) -> dict[str, str | int | None]:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return {"type": kind, "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"), "seq": seq}


def build_headers(message: WebhookMessage, secrets: Secrets, now_s: int) -> dict[str, str]:
    """Sign a message. While a secret is being replaced, there is a signature with each."""
    signed = b".".join((message.id.encode(), str(now_s).encode(), message.body))
    return {
        "webhook-id": message.id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": " ".join(f"v1,{sign(secret, signed)}" for secret in secrets.values),
    }


def sign(secret: str, signed: bytes) -> str:
    key = b64decode(secret.removeprefix(KEY_PREFIX))
    return b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


# Sends messages to receivers: one request each, to an address that was checked, without following redirects.


TOTAL_TIMEOUT_S: Final = 15.0
CONNECT_TIMEOUT_S: Final = 5.0
HEAD_LIMIT: Final = 32_768  # bytes of an answer's head; its body is not read
LOOKUP_THREADS: Final = 16
MAX_INTERIM_ANSWERS: Final = 5
ERROR_LENGTH: Final = 200
STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
RETRY_AFTER: Final = re.compile(rb"\r\nretry-after:[ \t]*([0-9]{1,7})[ \t]*\r\n", re.IGNORECASE)


class ReceiverAnswer(NamedTuple):
    status: int
    retry_after_s: float | None


class Sender:
    """Sends to the hosts that the operator allows."""

    def __init__(self, hosts: tuple[str, ...], look_up: HostResolver = resolve_host, total_s: float = TOTAL_TIMEOUT_S) -> None:
        self.hosts = hosts
        self.look_up = look_up
        self.total_s = total_s

    @cached_property
    def lookups(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="headway-lookup")

    @cached_property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    async def send(
        self, url: str, message: WebhookMessage, secrets: Secrets, clock: Callable[[], float] = time.time
    ) -> DeliveryAttempt:
        """Send a message once, and describe what happened. Nothing that a receiver does raises an error."""
        began, at = time.monotonic(), clock()
        status, error, retry_after_s = 0, "", None
        try:
            target = check_receiver(url, self.hosts)
            head = build_request_head(target, message, build_headers(message, secrets, int(at)))
            status, retry_after_s = await self._exchange(target, head + message.body)
            error = describe_refusal(target.host, status)
        except HeadwayError as refusal:
            error = str(refusal)
        ms = int((time.monotonic() - began) * 1000)
        return DeliveryAttempt(message.id, message.seq, message.kind, int(at * 1000), ms, status, error, retry_after_s)

    async def _exchange(self, target: Target, request: bytes) -> ReceiverAnswer:
        try:
            async with asyncio.timeout(self.total_s):
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(self.lookups, self.look_up, target.host, target.port)
                addresses = check_addresses(target.host, found, get_address_check(target.host, self.hosts))
                return await self._exchange_with(target, await connect_to_any(addresses), request)
        except TimeoutError:
            raise OutOfReach(f"{target.host} took too long to answer.") from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            detail = to_one_line(str(error))[:ERROR_LENGTH] or type(error).__name__
            raise OutOfReach(f"{target.host} could not be reached: {detail}.") from None

    async def _exchange_with(self, target: Target, connected: socket.socket, request: bytes) -> ReceiverAnswer:
        try:
            context = await self._get_tls() if target.scheme == "https" else None
            reader, writer = await asyncio.open_connection(
                sock=connected, limit=HEAD_LIMIT, ssl=context, server_hostname=target.host if context else None
            )
        except BaseException:
            connected.close()
            raise
        try:
            writer.write(request)
            await writer.drain()
            return await read_answer(reader)
        finally:
            writer.transport.abort()  # a receiver that does not close its side cannot keep the connection open
            with suppress(OSError):
                await writer.wait_closed()

    async def _get_tls(self) -> ssl.SSLContext:
        """Return the TLS settings. To load the certificates takes a while, so another thread does it."""
        if "tls" not in vars(self):
            await asyncio.get_running_loop().run_in_executor(self.lookups, lambda: self.tls)
        return self.tls

    def close(self) -> None:
        if "lookups" in vars(self):
            self.lookups.shutdown(wait=False, cancel_futures=True)


async def connect_to_any(addresses: list[Address]) -> socket.socket:
    """Connect to the first address that answers."""
    for address in addresses[:-1]:
        with suppress(OSError):
            return await connect(address)
    return await connect(addresses[-1])


async def connect(address: Address) -> socket.socket:
    line = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        line.setblocking(False)  # noqa: FBT003
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await asyncio.get_running_loop().sock_connect(line, address.sockaddr)
    except BaseException:
        line.close()
        raise
    return line


async def read_answer(reader: asyncio.StreamReader) -> ReceiverAnswer:
    """Read the head of the answer."""
    for _ in range(MAX_INTERIM_ANSWERS):
        head = await reader.readuntil(b"\r\n\r\n")
        line = STATUS_LINE.match(head)
        if line is None:
            raise ValueError("the answer is not HTTP")
        if int(line[1]) >= 200:
            delay = RETRY_AFTER.search(head)
            return ReceiverAnswer(int(line[1]), float(delay[1]) if delay else None)
    raise ValueError("the answer never comes")


def build_request_head(target: Target, message: WebhookMessage, signature: dict[str, str]) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    port = "" if target.port == DEFAULT_PORTS[target.scheme] else f":{target.port}"
    headers = {
        "Host": host + port,
        "User-Agent": "headway",
        "Content-Type": "application/json",
        "Content-Length": str(len(message.body)),
        "Connection": "close",
        **signature,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")


def describe_refusal(host: str, status: int) -> str:
    """Describe an answer that does not accept the message. Empty: it does."""
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"{host} answered with a redirect (status {status}), which is not followed."
    return f"{host} answered with status {status}."
