"""Wraps every request: admission, timeout, request id, security headers, metrics and one log line."""

import asyncio
import logging
import re
import time
from collections.abc import Hashable, Sequence
from contextlib import suppress
from random import getrandbits
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.actions.access import tokens
from headway.ledger.errors import HeadwayError, Unauthorized, WrongCell
from headway.ledger.tenancy import Token, find_issuer
from headway.storage.fair_queue import UNKNOWN_CALLER, current_tenant
from headway.surfaces.http.admission import Admission, find_address, find_header
from headway.surfaces.http.problems import Problem, to_problem, to_problem_response
from headway.surfaces.http.request_context import get_secret

log = logging.getLogger("headway.http")

REQUEST_TIMEOUT_S = 30.0
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
UNLOGGED_ROUTES = ("/healthz", "/readyz", "/metrics")
HEALTH_PATHS = ("/healthz", "/readyz")

SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
API_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
NO_STORE = (b"cache-control", b"no-store")
# They refer to the scope: after the request, it would wait for the garbage collector, with the body and the answer.
BACK_REFERENCES = ("headway.request", "headway.send", "headway.deadline")


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


class RequestResponse:
    """One request and its response."""

    def __init__(self, scope: Scope, send: Send, routes: Sequence[Route], metrics: HttpMetrics, admission: Admission) -> None:
        self.scope = scope
        scope["headway.request"] = self
        self.forward = scope["headway.send"] = send
        self.routes = routes
        self.metrics = metrics
        self.admission = admission
        self.address = find_address(scope)
        self.counts_as_stranger = False
        self.digest: str | None = None
        self.issuer = ""  # the database that the token's prefix names
        self.token: Token | None = None
        self.began_at = self.answered_at = time.perf_counter()
        self.status = 0
        self.remaining: int | None = None
        request_id = find_header(scope["headers"], b"x-request-id")
        self.request_id = request_id if request_id and REQUEST_ID.fullmatch(request_id) else b"%016x" % getrandbits(64)

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S) as deadline:
                self.scope["headway.deadline"] = deadline
                await self.admit_stranger()
                await app(self.scope, receive, self.send)
        except Exception as error:  # noqa: BLE001  every caller gets a response, whatever failed
            await self.refuse(self.explain_error(error), receive)
        finally:
            self.finish()

    def explain_error(self, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, Unauthorized | WrongCell):
            self.admission.forget(self.digest)
        if isinstance(error, HeadwayError):
            return to_problem(error)
        if isinstance(error, HTTPException):  # raised by the router: unknown path or method
            return build_routing_problem(error, self.scope, self.routes)
        if isinstance(error, TimeoutError):
            return build_timeout_problem(self.scope)
        name = self.request_id.decode()
        log.error("request failed", exc_info=error, extra={"fields": {"request_id": name}})
        return Problem(500, "internal", f"Internal error. The server's log has the details of request {name}.")

    async def admit_stranger(self) -> None:
        """Refuse a caller whose token is not known, if its address has sent too many such requests. Health checks may come from the
        same address, and have their own limit."""
        with suppress(HeadwayError):  # the reason is given if the route needs a token
            secret = get_secret(Request(self.scope))
            self.digest, self.issuer = tokens.hash_secret(secret), find_issuer(secret)
        self.counts_as_stranger = not self.admission.is_known(self.digest)
        if not self.counts_as_stranger or self.admission.take_as_stranger(self.address):
            return
        if self.scope["path"] in HEALTH_PATHS and self.admission.health_checks.take(self.address) >= 0:
            return
        await self.admission.delay_refusal()
        detail = "Too many requests without a valid token from this address. Wait a few seconds."
        raise Problem(429, "rate_limited", detail, {"Retry-After": "5", "Connection": "close"})

    async def admit(self) -> None:
        """Check the caller's token and its rate, before anything of the request is parsed."""
        if self.digest is None:
            get_secret(Request(self.scope))  # raises the reason
            raise Unauthorized
        current_tenant.set(UNKNOWN_CALLER)
        try:
            self.token = await self.admission.authenticate(self.digest, self.issuer)
        except WrongCell as error:
            if error.has_moved:  # a proxy sends all requests of such a token here first
                self.take_rate(self.digest)
            raise
        current_tenant.set(self.token.tenant_id)
        if connection := self.scope.get("headway.connection"):
            connection.keep()
        self.take_rate(self.token.session_of if self.token.session_of > 0 else self.token.id)

    def take_rate(self, caller: Hashable) -> None:
        """Count the request of a caller who is not a stranger."""
        if self.counts_as_stranger:
            self.admission.give_back(self.address)
        self.remaining = self.admission.tokens.take(caller)
        if self.remaining < 0:
            self.remaining = 0
            detail = f"Rate limit exceeded: {self.admission.tokens.rate} requests a second."
            raise Problem(429, "rate_limited", detail, {"Retry-After": "1"})

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.answered_at = time.perf_counter()
            headers = message["headers"] = list(message.get("headers", ()))
            headers += SECURITY_HEADERS
            headers.append((b"x-request-id", self.request_id))
            if self.remaining is not None:
                headers += (
                    (b"ratelimit-limit", b"%d" % self.admission.tokens.rate),
                    (b"ratelimit-remaining", b"%d" % self.remaining),
                    (b"ratelimit-reset", b"1"),
                )
            if find_header(headers, API_POLICY[0]) is None:
                headers.append(API_POLICY)
            if find_header(headers, NO_STORE[0]) is None:
                headers.append(NO_STORE)
        await self.forward(message)

    async def refuse(self, problem: Problem, receive: Receive) -> None:
        if not self.status:  # a response that has started cannot be replaced
            await to_problem_response(problem, self.scope["path"])(self.scope, receive, self.send)

    def finish(self) -> None:
        self.note()
        for name in BACK_REFERENCES:
            self.scope.pop(name, None)

    def note(self) -> None:
        method, route = self.scope["method"], get_route_template(self.scope)
        self.metrics.note(method, route, self.status, self.answered_at - self.began_at)  # a long stream is not a slow response
        if route not in UNLOGGED_ROUTES and log.isEnabledFor(logging.INFO):
            fields = {
                "method": method,
                "route": route,
                "status": self.status,
                "ms": round((time.perf_counter() - self.began_at) * 1000, 1),
                "request_id": self.request_id.decode(),
            }
            if self.token:
                fields |= {"tenant_id": self.token.tenant_id, "token_id": self.token.id}
            log.info("request", extra={"fields": fields})


def build_routing_problem(error: HTTPException, scope: Scope, routes: Sequence[Route]) -> Problem:
    if error.status_code != 405:
        return Problem(error.status_code, "no_such_path", "No route matches this path. `/openapi.json` lists all of them.")
    at_path = (route for route in routes if route.matches(scope)[0] is not Match.NONE)
    methods = sorted({method for route in at_path for method in route.methods or ()})
    return Problem(405, "method_not_allowed", "This path does not support that method.", {"Allow": ", ".join(methods)})


def build_timeout_problem(scope: Scope) -> Problem:
    if scope.get("headway.reading"):
        return Problem(408, "slow_body", f"The body did not arrive within {REQUEST_TIMEOUT_S:.0f} s.")
    detail = f"No answer within {REQUEST_TIMEOUT_S:.0f} s. The request may still have taken effect. Check before you repeat it."
    return Problem(503, "timeout", detail, {"Retry-After": "5"})


def get_route_template(scope: Scope) -> str:
    """Return the template of the matched route. The path itself could contain anything and is never logged."""
    route = scope.get("route")
    return str(route.path_format) if route is not None else "unmatched"
