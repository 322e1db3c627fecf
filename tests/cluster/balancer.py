"""A TCP load balancer before the workers: connections go to them in turn, and past those that refuse."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count

CHUNK = 65536


class Balancer:
    def __init__(self, host: str, port: int, targets: Sequence[tuple[str, int]]) -> None:
        self.host, self.port, self.targets = host, port, targets
        self.turns = count()

    async def serve(self, stopped: asyncio.Event, ready: threading.Event) -> None:
        async with await asyncio.start_server(self._connect, self.host, self.port):
            ready.set()
            await stopped.wait()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(self.turns)
        for place in range(len(self.targets)):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    there, back = await asyncio.open_connection(*self.targets[(first + place) % len(self.targets)])
                await self._join(reader, writer, there, back)
                return
        writer.transport.abort()

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        """Pass on bytes in both directions until one side closes; then close the other at once."""
        pumps = [asyncio.create_task(pump(reader, back)), asyncio.create_task(pump(there, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in pumps:
                task.cancel()
            for side in (writer, back):
                side.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()


@contextmanager
def run_balancer(host: str, port: int, targets: Sequence[tuple[str, int]]) -> Iterator[None]:
    loop, stopped, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    thread = threading.Thread(
        target=loop.run_until_complete, args=[Balancer(host, port, targets).serve(stopped, ready)], daemon=True
    )
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
