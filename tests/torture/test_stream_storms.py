"""Thousands of clients connect to the event stream and leave, fifty never read, and the server restarts: its memory does not grow,
and the other readers miss no event."""

import asyncio
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from tests.proofs import Proof
from tests.surfaces.event_stream import list_logged_ids
from tests.surfaces.server_harness import PATIENCE_S, Client, Service, run_server
from tests.torture.stream_storm import ResumingReader, StalledReader, connect_and_leave

STALLED = 50
READERS = 3
GROWTH_LIMIT = 12 * 2**20  # 1,000 streams that leaked only 12 KiB each would exceed this


class ServerLoad:
    """One server process and its stream readers."""

    def __init__(self, service: Service, client: Client, readers: list[ResumingReader], connects: int) -> None:
        self.service = service
        self.connects = connects
        self.client = client
        self.readers = readers
        self.process = psutil.Process(service.process.pid)

    async def run_rounds(self, rounds: int) -> None:
        url, secret = self.service.url, self.client.secret
        followers = [asyncio.create_task(reader.follow(url)) for reader in self.readers]
        with ExitStack() as stack:
            for _ in range(STALLED):
                stack.enter_context(closing(StalledReader(url, secret)))
            await self.run_round()  # after this round, modules are loaded and caches are full
            before = self.process.memory_info().rss
            for _ in range(rounds - 1):
                await self.run_round()
            grown = self.process.memory_info().rss - before
            assert grown < GROWTH_LIMIT, f"{grown / 2**20:.1f} MiB in {rounds - 1} rounds"
        await asyncio.to_thread(self.service.end)
        await asyncio.gather(*followers)

    async def run_round(self) -> None:
        """A wave of connections, with new events while it lasts."""
        connects = asyncio.create_task(connect_and_leave(self.service.url, self.client.secret, self.connects))
        while not connects.done():
            await asyncio.to_thread(self.client.desk.add, "news", description="x" * 2_000)
            await asyncio.sleep(0.05)
        await connects
        last = list_logged_ids(self.client)[-1]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(reader.has_seen(last) for reader in self.readers))


@pytest.mark.proof
def test_storms_of_readers_leak_nothing_and_do_not_disturb_other_readers(tmp_path: Path, proof: Proof) -> None:
    connects = 1_000 if proof.whole else 300
    rounds = proof.trials(f"event streams: rounds of {connects:,} connects", share=4, whole=20)
    servers = 4 if proof.whole else 2  # server processes, one after the other
    database_url = f"sqlite:///{tmp_path / 'headway.db'}"
    readers: list[ResumingReader] = []
    with run_server(database_url, tmp_path) as service, service.tenant() as client:
        readers += [ResumingReader(client.secret) for _ in range(READERS)]
        asyncio.run(ServerLoad(service, client, readers, connects).run_rounds(rounds // servers))
        for _ in range(servers - 1):
            with run_server(database_url, tmp_path) as next_service:
                asyncio.run(ServerLoad(next_service, client, readers, connects).run_rounds(rounds // servers))
        log = list_logged_ids(client)

    assert [reader.seen for reader in readers] == [log] * READERS
