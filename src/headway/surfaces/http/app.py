"""Assembles the web application.

Handlers take the request as it is. Their routes have what the OpenAPI document says of them, because frameworks that derive it from
signatures put layers around the handlers that cost more than the handlers themselves.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from starlette.datastructures import State
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import Receive, Scope, Send

from headway.operations.operation import list_tables
from headway.process.assembly import Headway
from headway.surfaces.http.admission import Admission, find_header
from headway.surfaces.http.middleware import HttpMetrics, RequestResponse
from headway.surfaces.http.mounting import mount
from headway.surfaces.http.openapi import build_openapi
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import to_json_response
from headway.surfaces.http.routes import (
    conversations,
    events,
    files,
    forks,
    front_ends,
    health,
    installation,
    sessions,
    todos,
    tools,
    turns,
    webhooks,
)
from headway.surfaces.http.routes.openai import chat_completions, responses
from headway.surfaces.http.routes.sessions import LoginLink
from headway.surfaces.http.routing import HttpRoute
from headway.surfaces.mcp.http_transport import HttpTransport
from headway.surfaces.metrics import LoopLag
from headway.surfaces.web import page_routes

COMPRESS_MIN_BYTES = 1_000
MAX_PARAMETERS = 100
ROUTERS = (
    todos.routes,
    conversations.routes,
    turns.routes,
    front_ends.routes,
    chat_completions.routes,
    responses.routes,
    tools.routes,
    forks.routes,
    files.routes,
    installation.policy_routes,
    installation.worker_routes,
    webhooks.routes,
    installation.routes,
    sessions.permission_routes,
    events.routes,
    health.routes,
    sessions.routes,
    page_routes.routes,
)


def list_routes() -> list[HttpRoute]:
    return [route for routes in (*map(mount, list_tables()), *ROUTERS) for route in routes.routes]


class PlainRoute(Route):
    def __init__(self, path: str, endpoint: Callable[..., Any], methods: set[str]) -> None:
        super().__init__(path, endpoint)
        self.methods = methods  # exactly these: Starlette would add an undocumented HEAD
        self.is_guarded = path.startswith("/v1/") or path == "/mcp"

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        if self.is_guarded and scope["method"] in (self.methods or ()):
            await scope["headway.request"].admit()
        if scope["query_string"].count(b"&") >= MAX_PARAMETERS:
            raise Problem(422, "invalid", f"A query may have at most {MAX_PARAMETERS} parameters.")
        await super().handle(scope, receive, send)


class SharedRoute(PlainRoute):
    """A route with a parameter that could also stand for the last word of another route: /jobs/{job_id} beside /jobs/dead."""

    others: frozenset[str] = frozenset()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if scope["path"] in self.others else super().matches(scope)


def build_route(route: HttpRoute, fixed_paths: Iterable[str]) -> PlainRoute:
    built = PlainRoute(route.path, route.handler, {route.method})
    others = frozenset(path for path in fixed_paths if path != route.path and built.path_regex.match(path))
    if not others:
        return built
    shared = SharedRoute(route.path, route.handler, {route.method})
    shared.others = others
    return shared


class WebApp:
    """The API, the web page and MCP as one ASGI app."""

    def __init__(self, headway: Headway, login_secret: str | None = None) -> None:
        self.headway = headway
        self.metrics = HttpMetrics()
        self.admission = Admission(headway)
        self.loop_lag = LoopLag()
        self.state = State(
            {
                "headway": headway,
                "measures": self.metrics,
                "loop_lag": self.loop_lag,
                "login_link": LoginLink(login_secret),
                "trials": set(),
            }
        )
        self.mcp = HttpTransport(headway)
        routes = list_routes()
        fixed_paths = {route.path for route in routes if "{" not in route.path}
        self.routes = [
            *(build_route(route, fixed_paths) for route in routes),
            PlainRoute("/openapi.json", self.serve_openapi, {"GET"}),
            PlainRoute("/mcp", self.mcp, {"GET", "POST", "DELETE"}),
        ]
        # No redirects for trailing slashes: they would send callers to the host in their own Host header.
        self.router = Router(self.routes, redirect_slashes=False, default=self.serve_unknown_path, lifespan=self.lifespan)
        self.compressed_router = GZipMiddleware(self.router, COMPRESS_MIN_BYTES, compresslevel=5)
        self.openapi = cache(lambda: build_openapi(routes, headway.roles.by_name))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        if scope["type"] != "http":
            await self.router(scope, receive, send)
            return
        compress = b"gzip" in (find_header(scope["headers"], b"accept-encoding") or b"")
        request = RequestResponse(scope, send, self.routes, self.metrics, self.admission)
        await request.run(self.compressed_router if compress else self.router, receive)

    @asynccontextmanager
    async def lifespan(self, _app: Any) -> AsyncIterator[None]:
        self.headway.start()
        self.headway.start_agents()
        mcp_task = asyncio.create_task(self.mcp.keep())
        self.loop_lag.start()
        yield
        self.loop_lag.stop()
        mcp_task.cancel()
        await asyncio.gather(mcp_task, return_exceptions=True)
        await self.headway.stop_agents()
        self.headway.close()

    async def serve_unknown_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show people the page, which says that there is nothing here. Programs get a problem."""
        answer = page_routes.serve_missing_page(Request(scope)) if scope["type"] == "http" else None
        await (answer or self.router.not_found)(scope, receive, send)

    async def serve_openapi(self, _request: Request) -> Response:
        return to_json_response(self.openapi())
