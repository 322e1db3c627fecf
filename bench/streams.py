"""A thousand readers of one event stream, driven from this process. The servers run in their own processes."""

import asyncio
import resource
import time
from functools import partial
from urllib.parse import urlsplit
from uuid import uuid4

from bench import bare
from bench.harness import Measurements, Workshop, at_least, at_most, benchmark, growing, in_turns
from bench.http import bare_app, served
from headway.actions.access import tokens
from headway.actions.installation import tenants
from headway.storage.direct import DirectDatabase

READERS = 1_000
SIZES = (10, 100, READERS)
EVENT = b"event: todo_changed"
EVENTS = 30
ROUNDS = 5
PACED = 20
PACE_S = 0.5


class Reader(asyncio.Protocol):
    """Counts the frames of one stream."""

    def __init__(self, crowd: "Crowd", head: bytes) -> None:
        self.crowd = crowd
        self.head = head
        self.seen = 0
        self.tail = b""
        self.connected = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.head)

    def data_received(self, data: bytes) -> None:
        data = self.tail + data  # a frame may arrive in two pieces
        self.tail = data[1 - len(EVENT) :]
        frames = data.count(EVENT)
        if not self.connected and b"event: ping" in data:
            self.connected = True
            self.crowd.arrived()
        if frames:
            self.seen += frames
            self.crowd.received(frames)


class Crowd:
    """The readers of one URL, and a connection that triggers events."""

    def __init__(self, url: str, stream: str, fire: str, tokens: list[str], body: bytes, size: int = READERS) -> None:
        self.size = size
        address = urlsplit(url)
        self.host, self.port = address.hostname or "", address.port or 80
        host = f"Host: {address.netloc}\r\nAuthorization: Bearer "
        # Many tokens, because so many readers would exceed the rate limit of one.
        self.gets = [f"GET {stream} HTTP/1.1\r\n{host}{token}\r\n\r\n".encode() for token in tokens]
        self.post = (
            f"POST {fire} HTTP/1.1\r\n{host}{tokens[0]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        self.connected = 0
        self.count = 0
        self.expected = 0
        self.changed = asyncio.Event()
        self.times: list[float] = []

    def arrived(self) -> None:
        self.connected += 1
        self.changed.set()

    def received(self, frames: int) -> None:
        self.count += frames
        self.times.append(time.perf_counter())
        if self.count >= self.expected:
            self.changed.set()

    async def gather(self) -> None:
        loop = asyncio.get_running_loop()
        self.readers = [
            (await loop.create_connection(partial(Reader, self, self.gets[n % len(self.gets)]), self.host, self.port))[1]
            for n in range(self.size)
        ]
        while self.connected < self.size:
            self.changed.clear()
            await self.changed.wait()
        self.input, self.output = await asyncio.open_connection(self.host, self.port)

    async def disperse(self) -> None:
        for reader in self.readers:
            reader.transport.close()
        self.output.close()

    async def fire(self) -> None:
        self.output.write(self.post)
        head = await self.input.readuntil(b"\r\n\r\n")
        assert b" 201 " in head.split(b"\r\n")[0], head
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await self.input.readexactly(length)

    async def all_received(self, frames: int) -> None:
        self.expected = frames
        while self.count < frames:
            self.changed.clear()
            await self.changed.wait()

    async def burst(self) -> float:
        """Return deliveries per second, when events follow each other as fast as they are accepted."""
        before, start = self.count, time.perf_counter()
        for _ in range(EVENTS):
            await self.fire()
        await asyncio.wait_for(self.all_received(before + EVENTS * self.size), 60)
        incomplete = [reader for reader in self.readers if reader.seen != self.readers[0].seen]
        assert not incomplete, f"{len(incomplete)} readers missed events"
        return EVENTS * self.size / (time.perf_counter() - start)

    async def paced(self) -> float:
        """Return the 99th percentile of delivery times at two events per second, in milliseconds."""
        waits: list[float] = []
        for _ in range(PACED):
            await asyncio.sleep(PACE_S)
            self.times.clear()
            before, start = self.count, time.perf_counter()
            await self.fire()
            await asyncio.wait_for(self.all_received(before + self.size), 60)
            waits += [moment - start for moment in self.times]
        return sorted(waits)[int(len(waits) * 0.99)] * 1000


BODY = f'{{"subject": "{bare.SUBJECT}"}}'.encode()


def our_crowd(shop: Workshop, size: int = READERS) -> Crowd:
    """Return readers of a new tenant, because every reader gets all events of its tenant."""
    at = shop.once(served)
    with DirectDatabase(f"sqlite:///{at.path}") as database:
        tenant_id = database.write(partial(tenants.add_tenant, name=f"crowd {uuid4()}")).id
        secrets = [database.write(partial(tokens.create_token, tenant_id=tenant_id)).secret for _ in at.tokens]
    return Crowd(at.url, "/v1/events", "/v1/todos", secrets, BODY, size)


def raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@benchmark("sse.1000", "deliveries a second to 1,000 readers, durable commits", "raw ASGI, frames encoded before", at_least(0.6))
def deliveries(shop: Workshop) -> Measurements:
    raise_file_limit()
    with asyncio.Runner() as runner:
        ours, reference = our_crowd(shop), Crowd(bare_app(shop, "stream"), "/", "/", ["none"], b"")
        runner.run(ours.gather())
        runner.run(reference.gather())
        measurements = in_turns(lambda: runner.run(ours.burst()), lambda: runner.run(reference.burst()), ROUNDS)
        runner.run(ours.disperse())
        runner.run(reference.disperse())
        return measurements


@benchmark("sse.growth", "deliveries a second to 1,000 readers", "to 10", at_least(0.85))
def growth_of_readers(shop: Workshop) -> Measurements:
    raise_file_limit()
    with asyncio.Runner() as runner:
        crowds = {size: our_crowd(shop, size) for size in SIZES}
        for crowd in crowds.values():
            runner.run(crowd.gather())
        measurements = growing({size: partial(one_burst, runner, crowd) for size, crowd in crowds.items()}, ROUNDS)
        for crowd in crowds.values():
            runner.run(crowd.disperse())
        return measurements


def one_burst(runner: asyncio.Runner, crowd: Crowd) -> float:
    return runner.run(crowd.burst())


@benchmark("sse.1000.p99", "1,000 readers, 2 events a second: p99 of delivery", "100 ms", at_most(1.0))
def latency(shop: Workshop) -> Measurements:
    raise_file_limit()
    with asyncio.Runner() as runner:
        ours = our_crowd(shop)
        runner.run(ours.gather())
        measurements = Measurements([runner.run(ours.paced())], [100.0], "ms")
        runner.run(ours.disperse())
        return measurements
