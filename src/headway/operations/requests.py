"""Parses the parts of a request. Each mistake is described in one sentence, without repeating the input."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from headway.ledger.errors import Invalid
from headway.ledger.text import MAX_INTEGER
from headway.operations.operation import Operation

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

BODY_LIMIT: Final = 1024 * 1024  # bytes
VALUES_LIMIT: Final = 30_000
DIGITS_LIMIT: Final = 100  # of one number: Python takes quadratic time to convert them
SMALL_BODY: Final = 16 * 1024  # too small to reach either limit by much
DIGITS_ONLY: Final = bytes(byte if byte in b"0123456789" else ord(" ") for byte in range(256))
LISTED_MISTAKES: Final = 1_000  # describing one takes microseconds, and a body can have many thousands
DESCRIBED_MISTAKES: Final = 5

T = TypeVar("T")


def parse_arguments(operation: Operation, path: tuple[str, ...], query: Iterable[tuple[str, str]], body: bytes) -> dict[str, Any]:
    """Return the arguments of an operation's function, or raise Invalid."""
    arguments: dict[str, Any] = {
        name: parse_id(name, text) if kind is int else text
        for (name, kind), text in zip(operation.path_types.items(), path, strict=True)
    }
    try:
        if operation.query is not None:
            arguments["query"] = operation.query.parse(query)
    except ValidationError as error:
        raise Invalid(describe_mistakes(error)) from None
    if operation.body is not None:
        if len(body) > BODY_LIMIT:
            raise Invalid(describe_limit(BODY_LIMIT))
        arguments["body"] = parse_document(operation.body_adapter, body)
    return arguments


def describe_limit(limit: int) -> str:
    return f"The body may have at most {limit:,} bytes."


def check_body(raw: bytes, values_limit: int = VALUES_LIMIT) -> None:
    """Refuse JSON with more values or longer numbers than any real request has. Looks at the characters outside of strings only."""
    if len(raw) <= SMALL_BODY:
        return
    too_many = Invalid(f"The body may have at most {values_limit:,} values.")
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    if unescaped.count(b'"') > 4 * values_limit:  # a name and a string for each value
        raise too_many
    outside = b"".join(unescaped.split(b'"')[::2])
    if sum(map(outside.count, (b",", b"[", b"{"))) > values_limit:
        raise too_many
    if max(map(len, outside.translate(DIGITS_ONLY).split()), default=0) > DIGITS_LIMIT:
        raise Invalid(f"A number may have at most {DIGITS_LIMIT} digits.")


def parse_document(shape: TypeAdapter[T], body: bytes) -> T:
    check_body(body)
    try:
        return shape.validate_json(body)
    except ValidationError as error:
        raise Invalid(describe_mistakes(error)) from None


def parse_id(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_INTEGER))) or not 1 <= int(text) <= MAX_INTEGER:
        raise Invalid(f"{name} must be a whole number from 1 to {MAX_INTEGER}.")
    return int(text)


def describe_mistakes(error: ValidationError) -> str:
    """Join the mistakes in one sentence."""
    count = error.error_count()
    if count > LISTED_MISTAKES:
        return f"The body has {count:,} mistakes, which are too many to describe."
    mistakes = error.errors(include_url=False, include_input=False)
    listed = "; ".join(map(describe_mistake, mistakes[:DESCRIBED_MISTAKES]))
    more = f" (and {count - DESCRIBED_MISTAKES} more)" if count > DESCRIBED_MISTAKES else ""
    return f"{listed}{more}"


def describe_mistake(mistake: "ErrorDetails") -> str:
    """Describe one mistake. A value that selects no kind of object is described by the kinds that there are."""
    path = format_path(mistake["loc"])
    if mistake["type"] != "union_tag_invalid":
        return f"{path}: {mistake['msg']}"
    context = mistake["ctx"]
    member, kinds = context["discriminator"].strip("'"), context["expected_tags"].replace("'", "")
    return f"{path}.{member}: must be one of {kinds}"


def format_path(path: tuple[str | int, ...]) -> str:
    """Format the location of a mistake in the body. Names come from the caller and are cut; our own tags are left out."""
    return ".".join(str(part)[:60] for part in path if not str(part).startswith("(")) or "body"
