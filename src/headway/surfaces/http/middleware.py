"""Wraps every request: rate limit, timeout, request id, security headers, metrics and one log line."""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from random import getrandbits
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.ledger.errors import HeadwayError
from headway.surfaces.http.problems import Problem, to_problem, to_problem_response

log = logging.getLogger("headway.http")

RATE_LIMIT = 600  # requests per second and token: stops abuse, and does not slow down ordinary clients
MAX_CALLERS = 10_000
REQUEST_TIMEOUT_S = 30.0
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
UNLOGGED_ROUTES = ("/healthz", "/readyz", "/metrics")

SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
API_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
NO_STORE = (b"cache-control", b"no-store")


class RateLimiter:
    """A token bucket for each caller, identified by the credentials they send. Only the most recent callers are kept."""

    def __init__(self, rate: int = RATE_LIMIT) -> None:
        self.rate = rate
        self.level: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def take(self, caller: bytes) -> int:
        """Take one request from the caller's bucket and return how many are left. Negative: this one is over the limit."""
        now = time.monotonic()
        level, since = self.level.pop(caller, (float(self.rate), now))
        level = min(float(self.rate), level + (now - since) * self.rate)
        if level >= 1:
            self.level[caller] = (level - 1, now)
        else:
            self.level[caller] = (level, now)
        if len(self.level) > MAX_CALLERS:
            self.level.popitem(last=False)
        return int(level) - 1


class HttpMetrics:
    """Counters for /metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names = ("method", "route", "status")
        self.requests = Counter("headway_http_requests", "Requests answered", names, registry=self.registry)
        self.seconds = Histogram("headway_http_request_seconds", "Time until the answer began", names[:2], registry=self.registry)
        self.children: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        if key not in self.children:
            self.children[key] = (self.requests.labels(method, route, str(status)), self.seconds.labels(method, route))
        count, spent = self.children[key]
        count.inc()
        spent.observe(seconds)


class Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, send: Send, routes: Sequence[Route], measures: HttpMetrics, buckets: RateLimiter) -> None:
        self.scope = scope
        self.forward = scope["headway.send"] = send
        self.routes = routes
        self.measures = measures
        self.rate_limiter = buckets
        self.began = self.answered = time.perf_counter()
        self.status = 0
        self.left: int | None = None
        given = find_header(scope["headers"], b"x-request-id")
        self.request_id = given if given and REQUEST_ID.fullmatch(given) else b"%016x" % getrandbits(64)

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S) as deadline:
                self.scope["headway.deadline"] = deadline
                self.check_rate()
                await app(self.scope, receive, self.send)
        except Exception as error:  # noqa: BLE001  every caller gets a response, whatever failed
            await self.refuse(self.explain_error(error), receive)
        finally:
            self.finish()

    def explain_error(self, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, HeadwayError):
            return to_problem(error)
        if isinstance(error, HTTPException):  # raised by the router: unknown path or method
            return build_routing_problem(error, self.scope, self.routes)
        if isinstance(error, TimeoutError):
            return build_timeout_problem(self.scope)
        name = self.request_id.decode()
        log.error("request failed", exc_info=error, extra={"fields": {"request_id": name}})
        return Problem(500, "internal", f"Internal error. The server's log has the details of request {name}.")

    def check_rate(self) -> None:
        bearer = find_header(self.scope["headers"], b"authorization")
        caller = bearer.partition(b" ")[2].strip() if bearer else find_header(self.scope["headers"], b"cookie")
        if not caller:
            return
        self.left = self.rate_limiter.take(caller)
        if self.left < 0:
            self.left = 0
            raise Problem(
                429, "rate_limited", f"Rate limit exceeded: {self.rate_limiter.rate} requests a second.", {"Retry-After": "1"}
            )

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.answered = time.perf_counter()
            headers = message["headers"] = list(message.get("headers", ()))
            headers += SECURITY_HEADERS
            headers.append((b"x-request-id", self.request_id))
            if self.left is not None:
                headers += (
                    (b"ratelimit-limit", b"%d" % self.rate_limiter.rate),
                    (b"ratelimit-remaining", b"%d" % self.left),
                    (b"ratelimit-reset", b"1"),
                )
            if find_header(headers, API_POLICY[0]) is None:
                headers.append(API_POLICY)
            if find_header(headers, NO_STORE[0]) is None:
                headers.append(NO_STORE)
        await self.forward(message)

    async def refuse(self, problem: Problem, receive: Receive) -> None:
        if not self.status:  # a response that has started cannot be replaced
            await to_problem_response(problem)(self.scope, receive, self.send)

    def finish(self) -> None:
        method, route = self.scope["method"], get_route_template(self.scope)
        self.measures.note(method, route, self.status, self.answered - self.began)  # a long stream is not a slow response
        if route not in UNLOGGED_ROUTES and log.isEnabledFor(logging.INFO):
            fields = {
                "method": method,
                "route": route,
                "status": self.status,
                "ms": round((time.perf_counter() - self.began) * 1000, 1),
                "request_id": self.request_id.decode(),
            }
            log.info("request", extra={"fields": fields})


def build_routing_problem(error: HTTPException, scope: Scope, routes: Sequence[Route]) -> Problem:
    if error.status_code != 405:
        return Problem(error.status_code, "no_such_path", "No route matches this path.")
    at_path = (route for route in routes if route.matches(scope)[0] is not Match.NONE)
    methods = sorted({method for route in at_path for method in route.methods or ()})
    return Problem(405, "method_not_allowed", "This path does not support that method.", {"Allow": ", ".join(methods)})


def build_timeout_problem(scope: Scope) -> Problem:
    if scope.get("headway.reading"):
        return Problem(408, "slow_body", f"The body did not arrive within {REQUEST_TIMEOUT_S:.0f} s.")
    said = f"No answer within {REQUEST_TIMEOUT_S:.0f} s. The request may still have taken effect. Check before you repeat it."
    return Problem(503, "timeout", said, {"Retry-After": "5"})


def find_header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    return next((value for key, value in headers if key == name), None)


def get_route_template(scope: Scope) -> str:
    """Return the template of the matched route. The path itself could contain anything and is never logged."""
    route = scope.get("route")
    return str(route.path_format) if route is not None else "unmatched"
