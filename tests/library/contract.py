"""The ways to use the library: inside the program or with a server, on either database. The same tests run with each."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from headway import Client, Headway

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

    def run(self, scenario: Callable[[Client], Awaitable[None]]) -> None:
        async def story() -> None:
            async with self.open() as client:
                await scenario(client)

        asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def build_embedded(url: str, home: Path) -> Variant:
    home.mkdir()
    (home / "policy.toml").write_text(POLICY)

    @asynccontextmanager
    async def open_client() -> AsyncIterator[Client]:
        async with Headway.open(home=home, database_url=url, model="rehearsal") as headway:
            yield headway

    return Variant("embedded", open_client)
