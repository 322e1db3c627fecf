"""The web application, assembled in one place."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from headway import __version__
from headway.assembly import Headway
from headway.ledger.errors import HeadwayError
from headway.surfaces.http import agent_routes, conversation_routes, event_routes, health_routes, session_routes, todo_routes
from headway.surfaces.http.describing import document
from headway.surfaces.http.guard import Buckets, Guard, Measures
from headway.surfaces.http.problems import Problem, problem_of, response_of
from headway.surfaces.http.session_routes import LoginLink
from headway.surfaces.mcp.http_door import HttpDoor

COMPRESS_FROM = 1_000
ROUTES = (todo_routes, conversation_routes, agent_routes, event_routes, health_routes, session_routes)


def web_app(headway: Headway, login_secret: str | None = None) -> FastAPI:
    mcp = HttpDoor(headway)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        headway.start()
        doorkeeper = asyncio.create_task(mcp.keep())
        yield
        doorkeeper.cancel()
        await asyncio.gather(doorkeeper, return_exceptions=True)
        headway.close()

    app = FastAPI(
        title="Headway",
        version=__version__,
        description="The work ledger and the engine room of LLM agents.",
        docs_url=None,  # its pages come from a CDN
        redoc_url=None,
        redirect_slashes=False,  # it would send callers to whatever host they named
        lifespan=lifespan,
        exception_handlers={HeadwayError: refused, Problem: refused, HTTPException: refused},
    )
    app.state.headway = headway
    app.state.measures = Measures()
    app.state.login_link = LoginLink(login_secret)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESS_FROM, compresslevel=5)
    app.add_middleware(Guard, measures=app.state.measures, buckets=Buckets())
    described = [route for one in ROUTES for route in one.routes.routes if isinstance(route, APIRoute)]
    app.router.routes += [PlainRoute(route.path, route.endpoint, route.methods) for route in described]
    app.router.routes.append(PlainRoute("/mcp", mcp, {"GET", "POST", "DELETE"}))
    app.openapi = cache(partial(document, app, described))  # type: ignore[method-assign]
    return app


class PlainRoute(Route):
    """Handlers take the plain request, so they are called without FastAPI's parameter machinery in between.
    Its routes only serve to describe them."""

    def __init__(self, path: str, endpoint: Callable[..., Any], methods: set[str]) -> None:
        super().__init__(path, endpoint)
        self.methods = methods  # exactly these: Starlette would add a HEAD that no document mentions

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        await super().handle(scope, receive, send)


async def refused(request: Request, error: Exception) -> Response:
    if isinstance(error, HeadwayError):
        error = problem_of(error)
    if isinstance(error, HTTPException):  # the router's own: no such path, no such method
        detail = {404: "There is nothing at this path.", 405: "This path does not take that method."}
        code = {404: "no_such_path", 405: "method_not_allowed"}.get(error.status_code, "refused")
        headers = {"Allow": ", ".join(methods_at(request))} if error.status_code == 405 else error.headers
        error = Problem(error.status_code, code, detail.get(error.status_code, error.detail), headers)
    assert isinstance(error, Problem)
    return response_of(error)


def methods_at(request: Request) -> list[str]:
    """Every method this path takes, over all routes that match it."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in route.methods or ()})
