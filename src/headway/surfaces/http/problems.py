"""Turns errors into `application/problem+json` responses: one table maps the error classes to HTTP statuses."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from starlette.responses import Response

from headway.ledger.errors import (
    CheckFailed,
    Closed,
    CommitUncertain,
    Conflict,
    DatabaseFull,
    Forbidden,
    Halted,
    HeadwayError,
    Invalid,
    KeyBusy,
    MissingExtra,
    NotFound,
    QuotaExceeded,
    StorageError,
    TenantMoving,
    Unauthorized,
    WrongCell,
)
from headway.operations.requests import LISTED_MISTAKES, describe_mistakes, format_path

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
MOVING_RETRY_AFTER_S = 1  # a tenant is moved within seconds
CELL_HEADER = "Headway-Cell"  # the cell that has the tenant, for proxies
# Their errors have the form of OpenAI's API. Clients also try the last two, which are not offered.
OPENAI_PATHS = ("/v1/chat/completions", "/v1/models", "/v1/responses", "/v1/embeddings", "/v1/completions")
OPENAI_ERRORS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

# The first class that matches decides.
ERROR_STATUSES: tuple[tuple[type[HeadwayError], int], ...] = (
    (Invalid, 422),
    (Unauthorized, 401),
    (Forbidden, 403),
    (WrongCell, 421),
    (NotFound, 404),
    (Conflict, 409),
    (QuotaExceeded, 429),
    (Halted, 503),
    (Closed, 503),
    (MissingExtra, 501),
    (DatabaseFull, 507),
    (CommitUncertain, 503),
    (StorageError, 503),
)

STATUS_TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timed out",
    409: "Conflict",
    413: "Content too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Validation failed",
    429: "Too many requests",
    500: "Internal error",
    501: "Not installed",
    503: "Unavailable",
    507: "Insufficient storage",
}


class Problem(Exception):
    """A failure of the HTTP exchange itself, outside any action."""

    failures: Sequence[Mapping[str, str]] = ()  # the checks that failed
    param: str | None = None  # the part of the request that is wrong, if it is known

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})


def get_http_status(error: HeadwayError) -> int:
    return next((status for kind, status in ERROR_STATUSES if isinstance(error, kind)), 500)


def to_problem(error: HeadwayError) -> Problem:
    status = get_http_status(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status == 503 or isinstance(error, KeyBusy):
        headers = {"Retry-After": str(MOVING_RETRY_AFTER_S if isinstance(error, TenantMoving) else RETRY_AFTER_S)}
    if isinstance(error, WrongCell):
        headers = {CELL_HEADER: error.cell, **({"Location": error.location} if error.location else {})}
    problem = Problem(status, error.code, str(error), headers)
    if isinstance(error, CheckFailed):
        problem.failures = error.failures
    return problem


def to_validation_problem(error: ValidationError) -> Problem:
    if error.error_count() > LISTED_MISTAKES:
        return Problem(422, "invalid", describe_mistakes(error))
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return Problem(400, "malformed_json", f"{first['msg']}.")
    problem = Problem(422, "invalid", describe_mistakes(error))
    problem.param = format_path(first["loc"])
    return problem


def encode_problem(problem: Problem) -> str:
    title = STATUS_TITLES.get(problem.status, "Error")
    document = {"title": title, "status": problem.status, "detail": problem.detail, "code": problem.code}
    if problem.status == 421:
        document |= {"cell": problem.headers[CELL_HEADER], "location": problem.headers.get("Location")}
    return json.dumps({**document, "failures": problem.failures} if problem.failures else document)


def to_problem_response(problem: Problem, path: str = "") -> Response:
    """Return the response for a problem, in the form that clients of the path expect."""
    if is_openai_path(path):
        error = build_openai_error(problem.status, problem.detail, problem.code, problem.param)
        return Response(json.dumps(error), problem.status, problem.headers, "application/json")
    return Response(encode_problem(problem), problem.status, problem.headers, MEDIA_TYPE)


def to_stored_problem_response(encoded: str, path: str) -> Response:
    """Return the response for a problem that is stored for an Idempotency-Key."""
    document = json.loads(encoded)
    if is_openai_path(path):
        return to_problem_response(Problem(document["status"], document["code"], document["detail"]), path)
    return Response(encoded, document["status"], media_type=MEDIA_TYPE)


def is_openai_path(path: str) -> bool:
    return any(path == known or path.startswith(f"{known}/") for known in OPENAI_PATHS)


def build_openai_error(status: int, message: str, code: str, param: str | None = None) -> dict[str, Any]:
    """Build an error in the form of OpenAI's API."""
    kind = "server_error" if status >= 500 else OPENAI_ERRORS.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}
