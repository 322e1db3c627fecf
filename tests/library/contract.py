"""The ways to use the library: inside the program or with a server, on either database. The same tests run with each."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from headway import Client, Headway, connect, sync
from headway.actions.access import tokens
from headway.ledger.tenancy import LOCAL_TENANT
from headway.library.blocking_client import SyncClient
from headway.testing import TenantHarness
from tests.surfaces.server_harness import Service

PATIENCE_S = 60
POLICY = """
[[rule]]
tool = "write_file"
arguments = {path = "secret*"}
decision = "ask"
"""


class Variant(NamedTuple):
    """One way to get a client of an empty tenant."""

    name: str
    open: Callable[[], AbstractAsyncContextManager[Client]]
    open_for_operator: Callable[[], AbstractAsyncContextManager[Client]] | None = None  # None: `open` may do everything

    def as_operator(self) -> "Variant":
        """Return the same way for the installation's operator."""
        return self._replace(open=self.open_for_operator or self.open)

    def run(self, scenario: Callable[[Client], Awaitable[None]]) -> None:
        async def story() -> None:
            async with self.open() as client:
                await scenario(client)

        asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def write_policy(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "policy.toml").write_text(POLICY)


def build_embedded(url: str, home: Path) -> Variant:
    write_policy(home)

    @asynccontextmanager
    async def open_client() -> AsyncIterator[Client]:
        async with Headway.open(home=home, database_url=url, model="rehearsal") as headway:
            yield headway

    return Variant("embedded", open_client)


def create_token(service: Service) -> str:
    """Return the secret of a token of a new tenant. It may set the cost limit."""
    name = f"tenant {service.database.read(lambda tx: tx.now)} {id(object())}"
    return TenantHarness(service.database, name).write(tokens.create_token, "a program", scope="admin").secret


def create_operator_token(service: Service) -> str:
    return TenantHarness(service.database, LOCAL_TENANT).write(tokens.create_token, "a program", scope="operator").secret


def build_remote(service: Service) -> Variant:
    @asynccontextmanager
    async def open_client(create: Callable[[Service], str]) -> AsyncIterator[Client]:
        async with connect(service.url, create(service)) as headway:
            yield headway

    return Variant("remote", partial(open_client, create_token), partial(open_client, create_operator_token))


# The methods without `await`, called from a thread while the event loop of the test runs


def build_sync(url: str, home: Path) -> Variant:
    write_policy(home)
    return adapt(lambda: sync.open(home=home, database_url=url, model="rehearsal"))


def build_sync_remote(service: Service) -> Variant:
    member, operator = (
        adapt(partial(lambda create: sync.connect(service.url, create(service)), create))
        for create in (create_token, create_operator_token)
    )
    return member._replace(open_for_operator=operator.open)


def adapt(open_sync: Callable[[], SyncClient]) -> Variant:
    @asynccontextmanager
    async def open_client() -> AsyncIterator[Client]:
        headway = await asyncio.to_thread(open_sync)
        try:
            yield cast("Client", Awaited(headway))
        finally:
            await asyncio.to_thread(headway.close)

    return Variant("sync", open_client)


END = object()


class Awaited:
    """Calls the methods of an object in threads, so that tests can await them."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.source, name)
        if not callable(value):
            return Awaited(value) if type(value).__name__.startswith("Sync") else value
        if name == "ask_stream" or "Iterator" in str(inspect.signature(value).return_annotation):
            return lambda *given, **named: Awaited(value(*given, **named))
        return lambda *given, **named: asyncio.to_thread(value, *given, **named)

    def __aiter__(self) -> "Awaited":
        return self

    async def __anext__(self) -> Any:
        item = await asyncio.to_thread(next, cast("Iterator[Any]", self.source), END)
        if item is END:
            raise StopAsyncIteration
        return item
