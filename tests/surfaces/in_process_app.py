"""Runs the app in the test process, for cases that take too long with a separate server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from headway import settings
from headway.actions.access import local_tenant, tokens
from headway.actions.access.tokens import NewToken
from headway.process.assembly import Headway
from headway.storage.transaction import Transaction
from headway.surfaces.http.admission import RateLimiter
from headway.surfaces.http.app import WebApp


class InProcessApp(NamedTuple):
    app: WebApp
    client: httpx.AsyncClient
    token: NewToken


def create_first_token(tx: Transaction) -> NewToken:
    return tokens.create_token(tx, local_tenant.ensure_local(tx).id)


def limit_to(burst: int) -> RateLimiter:
    """Admit so many requests. For this limit no time passes, so a slow machine admits no more."""
    return RateLimiter(1, burst, now=lambda: 0.0)


@asynccontextmanager
async def open_app(
    folder: Path, heartbeat_s: float = 0.02, database_url: str | None = None, **options: str
) -> AsyncIterator[InProcessApp]:
    """Run an app with fast heartbeats, and a client with a token. A stream can only be read after it has ended."""
    headway = Headway(settings.load({"home": str(folder), "database_url": database_url, **options}))
    headway.feed.heartbeat_s = heartbeat_s
    app = WebApp(headway)
    async with app.lifespan(app):
        token = await headway.database.write(create_first_token)
        headers = {"Authorization": f"Bearer {token.secret}"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers=headers, timeout=30
        ) as client:
            yield InProcessApp(app, client, token)
