"""The web application, assembled in one place.

FastAPI's routes describe the handlers, for the OpenAPI document; plain ones run them. Handlers take the request as it is, and
FastAPI's layers around them would cost more than all that they do.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi.routing import APIRoute
from starlette.datastructures import State
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from headway.assembly import Headway
from headway.surfaces.http import (
    agent_routes,
    conversation_routes,
    engine_routes,
    event_routes,
    front_routes,
    goal_routes,
    health_routes,
    operator_routes,
    session_routes,
    todo_routes,
    turn_routes,
)
from headway.surfaces.http.calls import rendered
from headway.surfaces.http.describing import document
from headway.surfaces.http.guard import Buckets, Exchange, Measures, find
from headway.surfaces.http.session_routes import LoginLink
from headway.surfaces.mcp.http_door import HttpDoor
from headway.surfaces.web import page_routes

COMPRESS_FROM = 1_000
ROUTES = (
    todo_routes,
    conversation_routes,
    turn_routes,
    front_routes,
    agent_routes,
    goal_routes,
    engine_routes,
    operator_routes,
    event_routes,
    health_routes,
    session_routes,
    page_routes,
)


def described_routes() -> list[APIRoute]:
    """What the OpenAPI document describes; it knows which of them it leaves out."""
    return [route for one in ROUTES for route in one.routes.routes if isinstance(route, APIRoute)]


class PlainRoute(Route):
    def __init__(self, path: str, endpoint: Callable[..., Any], methods: set[str]) -> None:
        super().__init__(path, endpoint)
        self.methods = methods  # exactly these: Starlette would add a HEAD that no document mentions

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        await super().handle(scope, receive, send)


class WebApp:
    """Everything that is served, as one ASGI app."""

    def __init__(self, headway: Headway, login_secret: str | None = None) -> None:
        self.headway = headway
        self.measures = Measures()
        self.buckets = Buckets()
        self.state = State({"headway": headway, "measures": self.measures, "login_link": LoginLink(login_secret)})
        self.mcp = HttpDoor(headway)
        self.described = described_routes()
        self.routes = [
            *(PlainRoute(route.path, route.endpoint, route.methods or set()) for route in self.described),
            PlainRoute("/openapi.json", self.show_document, {"GET"}),
            PlainRoute("/mcp", self.mcp, {"GET", "POST", "DELETE"}),
        ]
        # Without redirects for a slash too many: they would send callers to whatever host they named.
        self.router = Router(self.routes, redirect_slashes=False, lifespan=self.lifespan)
        self.compressing = GZipMiddleware(self.router, COMPRESS_FROM, compresslevel=5)
        self.openapi = cache(lambda: document(self.described, headway.roles.by_name))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        if scope["type"] != "http":
            await self.router(scope, receive, send)
            return
        compress = b"gzip" in (find(scope["headers"], b"accept-encoding") or b"")
        exchange = Exchange(scope, send, self.routes, self.measures, self.buckets)
        await exchange.run(self.compressing if compress else self.router, receive)

    @asynccontextmanager
    async def lifespan(self, _app: Any) -> AsyncIterator[None]:
        self.headway.start()
        self.headway.start_agents()
        doorkeeper = asyncio.create_task(self.mcp.keep())
        yield
        doorkeeper.cancel()
        await asyncio.gather(doorkeeper, return_exceptions=True)
        await self.headway.stop_agents()
        self.headway.close()

    async def show_document(self, _request: Request) -> Response:
        return rendered(self.openapi())
