"""Reads and parses request bodies within limits, so that no body blocks the event loop."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import TypeAdapter
from starlette.requests import ClientDisconnect, Request

from headway.ledger import attachment
from headway.ledger.errors import Invalid
from headway.surfaces.http.problems import Problem

T = TypeVar("T")

BODY_LIMIT = 1024 * 1024
ATTACHMENTS_BODY_LIMIT = BODY_LIMIT + attachment.TOTAL_LIMIT * 4 // 3  # where messages carry files, in base64
VALUES_LIMIT = 30_000
DIGITS_LIMIT = 100  # of one number: Python takes quadratic time to convert them
SMALL_BODY = 16 * 1024  # too small to reach either limit by much
DIGITS_ONLY = bytes(byte if byte in b"0123456789" else ord(" ") for byte in range(256))


async def read_body(request: Request, limit: int = BODY_LIMIT) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise build_too_large_problem(limit)
    request.scope["headway.reading"] = True
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise build_too_large_problem(limit)
            chunks.append(chunk)
    except ClientDisconnect:
        raise Invalid("The connection was closed before the body was complete.") from None
    request.scope["headway.reading"] = False
    return b"".join(chunks)


def build_too_large_problem(limit: int) -> Problem:
    return Problem(413, "too_large", f"The body may have at most {limit:,} bytes.")


def parse_body(shape: TypeAdapter[T], raw: bytes) -> T:
    """Parse a JSON body. Raises Problem if it has too many values to parse them quickly, and ValidationError for other mistakes."""
    check_body(raw)
    with pause_collection():
        return shape.validate_json(raw)


def check_body(raw: bytes, values_limit: int = VALUES_LIMIT) -> None:
    """Refuse JSON with more values or longer numbers than any real request has. Looks at the characters outside of strings only."""
    if len(raw) <= SMALL_BODY:
        return
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    if unescaped.count(b'"') > 4 * values_limit:  # a name and a string for each value
        raise build_values_problem(values_limit)
    outside = b"".join(unescaped.split(b'"')[::2])
    if sum(map(outside.count, (b",", b"[", b"{"))) > values_limit:
        raise build_values_problem(values_limit)
    if max(map(len, outside.translate(DIGITS_ONLY).split()), default=0) > DIGITS_LIMIT:
        raise Problem(422, "invalid", f"A number may have at most {DIGITS_LIMIT} digits.")


def build_values_problem(limit: int) -> Problem:
    return Problem(422, "invalid", f"The body may have at most {limit:,} values.")


@contextmanager
def pause_collection() -> Iterator[None]:
    """Create many objects without the garbage collector, which would examine all of them several times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
