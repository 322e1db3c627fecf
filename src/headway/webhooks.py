"""Webhooks: the event log of a tenant, sent to the addresses that it has subscribed."""

import asyncio
import hashlib
import hmac
import re
import socket
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Final, NamedTuple
from uuid import uuid4

from headway.actions.engine import webhooks
from headway.engine.polling import wait_with_timeout
from headway.engine.runner import JobHandler
from headway.ledger.errors import HeadwayError, OutOfReach
from headway.ledger.events import encode_json
from headway.ledger.job import Job
from headway.ledger.limits import Limits
from headway.ledger.parsing.addresses import DEFAULT_PORTS, Target
from headway.ledger.text import to_one_line
from headway.ledger.webhook import JOB_KIND, KEY_PREFIX, DeliveryAttempt, DeliveryProgress, Outbox, OutgoingEvent, Secrets, Webhook
from headway.outbound import Address, HostResolver, check_addresses, check_receiver, get_address_check, resolve_host
from headway.storage.database import Database, DatabaseAccess
from headway.storage.retry import PatientView
from headway.storage.stores import webhooks as webhook_store
from headway.storage.transaction import Transaction

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


# The job that delivers events to one webhook, in order, each at least once. It reads the log in batches, sends event by event,
# and stores how far it has come. After a crash it begins where that was stored.

STORE_AFTER_S: Final = 1.0  # for how long messages are sent before what was delivered is stored
SLICE_S: Final = 10.0  # for how long a job delivers before other webhooks of the tenant get their turn


class Deliverer(NamedTuple):
    """Resources that the deliveries of a process share."""

    database: DatabaseAccess
    sender: Sender
    owner: str  # this process's name among the job owners
    limits: Limits

    def build_handlers(self) -> dict[str, JobHandler]:
        return {JOB_KIND: JobHandler(self.deliver, webhooks.fail)}

    async def deliver(self, job: Job) -> None:
        """Deliver until the end of the log, a failure, or the end of the time slice."""
        database, slice_ends_at = PatientView(self.database.of(job.tenant_id)), time.monotonic() + SLICE_S
        goes_on = True
        while goes_on:
            outbox = await database.read(partial(webhooks.read_outbox, tenant_id=job.tenant_id, webhook_id=job.id))
            if outbox is None:
                await database.write(partial(webhooks.rest, job=job, owner=self.owner))
                return
            progress = await self.send_events(outbox, slice_ends_at)
            goes_on = await database.write(
                partial(webhooks.record_progress, outbox=outbox, progress=progress, owner=self.owner, limits=self.limits)
            )

    async def send_events(self, outbox: Outbox, slice_ends_at: float) -> DeliveryProgress:
        """Send the events of an outbox one after the other, up to a failure or until what was delivered is to be stored."""
        webhook, attempts, sent_to = outbox.webhook, list[DeliveryAttempt](), outbox.webhook.sent_to
        store_at = time.monotonic() + STORE_AFTER_S
        for message, position in list_messages(outbox):
            if message is not None:
                attempts.append(await self.sender.send(webhook.url, message, outbox.secrets))
                if attempts[-1].error:
                    break
            sent_to = position
            if time.monotonic() >= store_at:
                break
        return DeliveryProgress(sent_to, attempts, has_time=time.monotonic() < slice_ends_at)


def list_messages(outbox: Outbox) -> Iterator[tuple[WebhookMessage | None, int]]:
    """Yield each message with the position of the webhook once it is delivered. It is None for an event that the filter omits."""
    webhook = outbox.webhook
    if outbox.pruned:
        yield build_pruned_message(webhook, outbox.pruned, int(time.time() * 1000)), webhook.sent_to
    for event in outbox.events:
        yield None if event.data is None else build_message(webhook, event), event.seq
    yield None, outbox.end


def prepare_test(tx: Transaction, tenant_id: int, webhook_id: str) -> Outbox:
    """Return what a test message needs. A paused webhook can be tested as well."""
    webhook = webhooks.get_webhook(tx, tenant_id, webhook_id).webhook
    return Outbox(webhook, webhooks.load_secrets(tx, webhook), [], webhook.sent_to, is_last=True)


async def send_test(sender: Sender, outbox: Outbox) -> DeliveryAttempt:
    """Send a test message once."""
    return await sender.send(outbox.webhook.url, build_test_message(outbox.webhook, int(time.time() * 1000)), outbox.secrets)


# The watch that wakes a tenant's webhook jobs when its log has new events. A commit costs nothing here unless its tenant has a
# webhook. Commits of other processes that are not announced are found by looking at all webhooks once a second. A job sleeps only
# after it has reached the end of the log, so no event is overlooked.

SWEEP_S: Final = 1.0
PAUSE_S: Final = 0.05  # events that follow each other closely are delivered together


class WebhookWatch:
    def __init__(self, database: Database, nudge: Callable[[], None]) -> None:
        self.database = database.unrestricted
        self.nudge = nudge  # wakes the engine
        self.loop = asyncio.get_running_loop()
        self.tenants: frozenset[int] = frozenset()  # tenants with a webhook that is not paused
        self.busy: frozenset[int] = frozenset()  # the ones with new events
        self.bell = asyncio.Event()
        self.sweep_at = 0.0

    def notify_commit(self, tenants: frozenset[int]) -> None:
        """Announce a commit, from any thread."""
        if not tenants.isdisjoint(self.tenants) and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._ring, tenants)

    def _ring(self, tenants: frozenset[int]) -> None:
        self.busy |= tenants & self.tenants
        self.bell.set()

    async def step(self) -> None:
        """Wait for new events, and wake the jobs that are to deliver them."""
        await wait_with_timeout(self.bell, SWEEP_S)
        self.bell.clear()
        busy, self.busy = self.busy, frozenset()
        if time.monotonic() >= self.sweep_at:
            self.sweep_at = time.monotonic() + SWEEP_S
            busy = self.tenants = await self.database.read(webhook_store.list_subscribed_tenants)
        idle = await self.database.read(partial(webhook_store.list_idle_behind, tenant_ids=busy)) if busy else []
        if idle:
            await self.database.write(partial(webhooks.wake_webhook, idle=idle))
            self.nudge()
        await asyncio.sleep(PAUSE_S)
