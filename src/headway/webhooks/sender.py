"""Sends messages to receivers: one request each, to an address that was checked, without following redirects.

A name is resolved once, all its addresses are checked, and the connection uses a checked address, so a DNS change in between has no
effect. Nothing here occupies a thread while it waits, apart from the name lookup, which uses separate threads.
"""

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple

from headway.ledger.errors import HeadwayError, OutOfReach
from headway.ledger.parsing.web_address import DEFAULT_PORTS, Target
from headway.ledger.text import to_one_line
from headway.ledger.webhook import DeliveryAttempt, Secrets
from headway.outbound.addresses import Address, HostResolver, check_addresses, resolve_host
from headway.outbound.receivers import check_receiver, get_address_check
from headway.webhooks.messages import WebhookMessage, build_headers

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
