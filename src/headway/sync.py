"""Headway for programs without an event loop, and for notebooks: the library's methods without `await`.

from headway import sync

with sync.open() as headway:
    print(headway.ask("Calculate 8*45.").answer)
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from headway.library.blocking_client import SyncClient, SyncTurnStream

if TYPE_CHECKING:
    from headway.settings import SettingArguments

__all__ = ["SyncClient", "SyncTurnStream", "connect", "open"]


def open(
    *,
    tools: Iterable[Callable[..., Any]] = (),
    models: Mapping[str, Any] | None = None,
    mcp: Mapping[str, Any] | None = None,
    alone: bool = False,
    tenant: str | None = None,
    tracer_provider: Any = None,
    **settings: "Unpack[SettingArguments]",
) -> SyncClient:
    """Open a Headway inside the program, as `Headway.open` does. It runs in a separate thread until it is closed."""
    from headway.process.assembly import Headway  # noqa: PLC0415  not needed to connect to a server

    opening = Headway.open(
        tools=tools, models=models, mcp=mcp, alone=alone, tenant=tenant, tracer_provider=tracer_provider, **settings
    )
    return SyncClient(opening)


def connect(url: str, token: str, *, timeout_s: float = 30, retries: int = 3) -> SyncClient:
    """Connect to a Headway that runs at this address, as `headway.connect` does."""
    from headway.library.remote import connect as connect_remote  # noqa: PLC0415  not needed to open one here

    return SyncClient(connect_remote(url, token, timeout_s=timeout_s, retries=retries))
