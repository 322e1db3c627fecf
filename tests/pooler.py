"""A pooler for Postgres in transaction mode. It does what PgBouncer before 1.21 does by default: it gives each transaction of a
client to any of its connections to the server, forwards prepared statements without tracking them, refuses unknown startup
parameters, and drops notifications that arrive while a connection has no client."""

import asyncio
import random
import struct
import threading
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict

ENCRYPTION_REQUESTS = (80877103, 80877104)  # SSL, GSSAPI
PROTOCOL = 196608
ALLOWED_PARAMETERS = {"user", "database", "client_encoding", "application_name", "datestyle", "timezone"}


def encode_message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)


class ServerConnection:
    """A connection of the pooler to the server, and the client that it is lent to."""

    def __init__(self, pool: "TransactionPooler", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pool, self.reader, self.writer = pool, reader, writer
        self.client: PooledClient | None = None
        self.unanswered = 0  # Query and Sync messages to which the server has not answered ReadyForQuery

    async def serve(self) -> None:
        try:
            while True:
                self.forward(*await read_message(self.reader))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.pool.remove(self)
        finally:
            self.writer.close()
            if self.client is not None:
                self.client.writer.close()

    def forward(self, kind: bytes, body: bytes) -> None:
        client = self.client
        if client is None:
            return  # for example, a notification: its listener has no connection now
        client.writer.write(encode_message(kind, body))
        if kind == b"Z":
            self.unanswered -= 1
            if body == b"I" and not self.unanswered and not client.is_unsynced:
                self.client = client.server = None
                self.pool.give_back(self)


class PooledClient:
    def __init__(self, pool: "TransactionPooler", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pool, self.reader, self.writer = pool, reader, writer
        self.server: ServerConnection | None = None
        self.is_unsynced = False  # whether messages were sent since the last Sync

    async def serve(self) -> None:
        try:
            if await self.start():
                while (message := await read_message(self.reader))[0] != b"X":
                    await self.forward(*message)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            if self.server is not None:  # it left in the middle of a transaction
                self.server.client = None
                self.server.writer.close()
            self.writer.close()

    async def start(self) -> bool:
        while True:
            size, code = struct.unpack("!II", await self.reader.readexactly(8))
            body = await self.reader.readexactly(size - 8)
            if code not in ENCRYPTION_REQUESTS:
                break
            self.writer.write(b"N")
        names = body.decode().split("\x00")[:-2:2]
        unknown = [name for name in names if name not in ALLOWED_PARAMETERS]
        if unknown or code != PROTOCOL:
            text = f"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: {', '.join(unknown)}\0\0"
            self.writer.write(encode_message(b"E", text.encode()))
            return False
        self.writer.write(encode_message(b"R", bytes(4)) + b"".join(self.pool.parameters))
        self.writer.write(encode_message(b"K", struct.pack("!II", random.getrandbits(31), 0)) + encode_message(b"Z", b"I"))
        return True

    async def forward(self, kind: bytes, body: bytes) -> None:
        if self.server is None:
            self.server = await self.pool.lend()
            self.server.client = self
        is_last = kind in (b"Q", b"S")
        self.is_unsynced = not is_last
        self.server.unanswered += is_last
        self.server.writer.write(encode_message(kind, body))


class TransactionPooler:
    """Lends `size` connections to its clients, one transaction at a time: the last one that was given back or, with `rotates`, the
    first one."""

    def __init__(self, url: str, size: int, *, rotates: bool) -> None:
        self.options = conninfo_to_dict(url)
        self.size, self.rotates = size, rotates
        self.idle: deque[ServerConnection] = deque()
        self.count = 0
        self.available = asyncio.Condition()
        self.parameters: list[bytes] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        path = f"{self.options['host']}/.s.PGSQL.{self.options.get('port', 5432)}"
        reader, writer = await asyncio.open_unix_connection(path)
        body = f"user\0{self.options['user']}\0database\0{self.options['dbname']}\0\0".encode()
        writer.write(struct.pack("!II", len(body) + 8, PROTOCOL) + body)
        parameters = []
        while (message := await read_message(reader))[0] != b"Z":
            if message[0] == b"S":
                parameters.append(encode_message(*message))
            assert message[0] in b"RSKN", message
        self.parameters = parameters
        server = ServerConnection(self, reader, writer)
        self.count += 1
        self.start(server.serve())
        self.give_back(server)

    def start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):  # the pooler was stopped
            await PooledClient(self, reader, writer).serve()

    async def lend(self) -> ServerConnection:
        async with self.available:
            while not self.idle:
                if self.count < self.size:
                    await self.open()
                else:
                    await self.available.wait()
            return self.idle.popleft() if self.rotates else self.idle.pop()

    def give_back(self, server: ServerConnection) -> None:
        self.idle.append(server)
        self.start(self.notify())

    async def notify(self) -> None:
        async with self.available:
            self.available.notify()

    def remove(self, server: ServerConnection) -> None:
        self.count -= 1
        with suppress(ValueError):
            self.idle.remove(server)
        self.start(self.notify())


@contextmanager
def run_pooler(url: str, size: int = 3, *, rotates: bool = True) -> Iterator[str]:
    """Run a pooler for the database at `url`, and return the pooler's URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    servers: list[asyncio.Server] = []

    async def start() -> str:
        pool = TransactionPooler(url, size, rotates=rotates)
        for _ in range(size):
            await pool.open()
        server = await asyncio.start_server(pool.accept, "127.0.0.1", 0)
        servers.append(server)
        port = server.sockets[0].getsockname()[1]
        return f"postgresql://{pool.options['user']}:@127.0.0.1:{port}/{pool.options['dbname']}"

    async def stop() -> None:
        servers[0].close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
