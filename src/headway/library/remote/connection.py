"""Connects a program to a Headway that runs elsewhere."""

from typing import Self
from urllib.parse import urlsplit

from headway.ledger.errors import Invalid
from headway.library.client import Client
from headway.library.door import Door
from headway.library.remote.door import RemoteDoor
from headway.library.remote.exchange import ServerConnection


class RemoteHeadway(Client):
    """A Headway on a server, with the methods of one inside the program."""

    def __init__(self, url: str, exchange: ServerConnection) -> None:
        self.url = url
        self._exchange = exchange
        self._door = RemoteDoor(exchange)

    @property
    def door(self) -> Door:
        """Where the requests go: to the server."""
        return self._door

    def __repr__(self) -> str:
        return f"RemoteHeadway({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._exchange.close()


def connect(url: str, token: str, *, timeout_s: float = 30, retries: int = 3) -> RemoteHeadway:
    """Return the methods of a Headway that runs at this address, for the tenant of the token. Use it with `async with`.

    A request that takes longer than `timeout_s` fails. One that fails for a reason that may pass is sent again up to `retries`
    times; a change is never made twice. The first request connects.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise Invalid("The url must have the form http://HOST:PORT or https://HOST.")
    if not (token.isascii() and token.isprintable() and token.strip()):
        raise Invalid("The token must be that of `headway token add`: hw_…")
    address = url.rstrip("/").removesuffix("/v1")
    return RemoteHeadway(address, ServerConnection(address, token.strip(), timeout_s, retries))
