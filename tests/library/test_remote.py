"""A program and its server, with a network between them that fails."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest

from headway import Client, HeadwayError, Invalid, RemoteHeadway, ServerUnreachable, Unauthorized, connect
from headway.ledger.errors import LeaseLost, ServerFailed
from tests.library.contract import create_token
from tests.surfaces.server_harness import Service

PATIENCE_S = 60


class FlakyNetwork:
    """Forwards connections to a server. It can cut them, and lose responses to requests that the server has processed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.lose_responses = 0
        self.lost = 0
        self.writers: set[asyncio.StreamWriter] = set()

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers |= {writer, there_writer}
        sending = asyncio.create_task(self.pipe(reader, there_writer))
        await self.pipe(there_reader, writer, is_response=True)
        sending.cancel()

    async def pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_response: bool = False) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65536):
                if is_response and self.lose_responses:
                    self.lose_responses -= 1
                    self.lost += 1
                    break
                writer.write(chunk)
                await writer.drain()
        writer.close()

    def cut(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()


@asynccontextmanager
async def open_flaky(service: Service, retries: int = 3) -> AsyncIterator[tuple[RemoteHeadway, FlakyNetwork]]:
    network = FlakyNetwork(urlsplit(service.url).port or 0)
    listener = await asyncio.start_server(network.forward, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with connect(f"http://127.0.0.1:{port}", create_token(service), retries=retries) as headway:
        yield headway, network
    network.cut()
    listener.close()


def run_scenario(scenario: object) -> None:
    asyncio.run(asyncio.wait_for(scenario, PATIENCE_S))  # type: ignore[arg-type]


def test_a_lost_response_does_not_do_the_work_twice(served_sqlite: Service) -> None:
    async def scenario() -> None:
        async with open_flaky(served_sqlite) as (headway, network):
            network.lose_responses = 2
            todo = await headway.todos.add("once")
            assert network.lost == 2
            assert [found.id async for found in headway.todos.iterate()] == [todo.id]
            claim = await headway.todos.claim("ada")
            assert claim
            network.lose_responses = 1
            with pytest.raises(ServerUnreachable):  # a change without a key is not sent twice: the lease would be gone
                await headway.todos.complete(todo.id, lease_token=claim.lease.token)
            assert (await headway.todos.get(todo.id)).status == "completed"
            with pytest.raises(LeaseLost):
                await headway.todos.heartbeat(claim)

    run_scenario(scenario())


def test_a_stream_continues_after_a_cut(served_sqlite: Service) -> None:
    async def scenario() -> None:
        async with open_flaky(served_sqlite) as (headway, network):
            subjects: list[str] = []
            await headway.todos.add("0")
            async for event in headway.events.follow(kinds="todo_changed", after=0):
                assert event.kind == "todo_changed"
                subjects.append(event.data["todo"]["subject"])
                if len(subjects) == 4:
                    break
                network.cut()
                await headway.todos.add(str(len(subjects)))
            assert subjects == ["0", "1", "2", "3"]

    run_scenario(scenario())


def test_an_answer_is_streamed_across_cuts(served_sqlite: Service) -> None:
    async def scenario() -> None:
        async with open_flaky(served_sqlite) as (headway, network):
            numbers = []
            stream = headway.ask_stream("Calculate 12*7, then write the result to notes.txt", "a key")
            network.lose_responses = 1  # of the request that looks for the conversation
            async for event in stream:
                if event.number is not None:
                    numbers.append(event.number)
                    if event.kind in ("turn_started", "tool_result"):
                        network.cut()
            assert numbers == [event.number async for event in headway.turns.stream(stream.turn_id or "")]
            assert "84" in (await stream.report()).answer

    run_scenario(scenario())


def test_a_server_that_does_not_answer_is_named(served_sqlite: Service) -> None:
    async def scenario() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
            async with connect(f"http://127.0.0.1:{port}", "hw_x", retries=0) as headway:
                with pytest.raises(ServerUnreachable, match=rf"The server at http://127\.0\.0\.1:{port} cannot be reached: "):
                    await headway.todos.list()
                with pytest.raises(ServerUnreachable):
                    await anext(aiter(headway.events.follow()))
        async with connect(served_sqlite.url, "hw_wrong") as headway:
            with pytest.raises(Unauthorized, match="not valid here"):
                await headway.todos.list()
            with pytest.raises(Unauthorized):
                await anext(aiter(headway.events.follow()))
            assert "hw_wrong" not in repr(headway)

    run_scenario(scenario())


def test_an_answer_that_is_not_from_headway_is_no_success(served_sqlite: Service) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\nContent-Length: 12\r\nConnection: close\r\n\r\n<p>Oops.</p>")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        async with connect(url, "hw_x", retries=1) as headway:
            with pytest.raises(ServerFailed, match="status 500: <p>Oops"):
                await headway.todos.list()
        listener.close()

    run_scenario(scenario())


@pytest.mark.parametrize(
    ("url", "token"),
    [("ftp://host", "hw_x"), ("host:8484", "hw_x"), ("http://a:b@host", "hw_x"), ("http://host", ""), ("http://host", "hw_\n")],
)
def test_a_wrong_address_or_token_is_refused_at_once(url: str, token: str) -> None:
    with pytest.raises(Invalid):
        connect(url, token)


def test_a_name_cannot_lead_to_another_route(served_sqlite: Service) -> None:
    async def scenario() -> None:
        async with connect(served_sqlite.url, create_token(served_sqlite)) as headway:
            for name in ("..", ".", "", "../todos", "a/b", "a?b#c", "a%2Fb", "ä"):
                with pytest.raises(HeadwayError):
                    await headway.schedules.get(name)
            await headway.schedules.put("a?b #c%20ä", every_s=3600, goal={"description": "tidy"})
            assert (await headway.schedules.get("a?b #c%20ä")).name == "a?b #c%20ä"

    run_scenario(scenario())


def test_both_are_clients() -> None:
    from headway import Headway  # noqa: PLC0415

    assert issubclass(Headway, Client)
    assert issubclass(RemoteHeadway, Client)
