"""The web application, assembled in one place."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from headway import __version__
from headway.assembly import Headway
from headway.ledger.errors import HeadwayError
from headway.surfaces.http import agent_routes, conversation_routes, event_routes, health_routes, session_routes, todo_routes
from headway.surfaces.http.describing import complete
from headway.surfaces.http.guard import Buckets, Guard, Measures
from headway.surfaces.http.problems import Problem, problem_of, response_of
from headway.surfaces.http.session_routes import LoginLink
from headway.surfaces.mcp.http_door import HttpDoor

COMPRESS_FROM = 1_000


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
    for one in (todo_routes, conversation_routes, agent_routes, event_routes, health_routes, session_routes):
        app.include_router(one.routes)
    app.router.routes.append(Route("/mcp", mcp, include_in_schema=False))
    app.openapi = partial(complete, app)  # type: ignore[method-assign]
    return app


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
    routes = (one for one in iter_route_contexts(request.app.routes) if one.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in routes for method in route.methods or ()})
