"""Text from strangers: its limits, its clean form, and secrets blotted out of it."""

import json
import re
from math import isfinite
from typing import Any, Final, NamedTuple

from headway.ledger.errors import EmptySubject, Invalid, TextTooLong, UnsafeText

SUBJECT_LIMIT = 1_000
TEXT_LIMIT = 200_000
NAME_LIMIT = 200
MAX_INTEGER = 2**63 - 1
MAX_DEPTH = 200  # the depth that documents sent over HTTP can reach
JOINERS = "\u200c\u200d"  # not printable alone, but Persian words and many emoji need them


# The rules below as regular expressions for API documents. Spaces are listed one by one, because \s means different things in the
# languages that read these.
SPACES = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
CONTROLS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
TEXT_PATTERN = r"^[^\u0000]*$"
SUBJECT_PATTERN = rf"^[^\u0000]*[^\u0000{SPACES}][^\u0000]*$"
NAME_PATTERN = rf"^[^{CONTROLS}]*[^{CONTROLS}{SPACES}][^{CONTROLS}]*$"


def check_text(text: str, field: str, limit: int = TEXT_LIMIT) -> str:
    """Return the text unchanged, or raise an error that names the field."""
    if len(text) > limit:
        raise TextTooLong(f"{field} has {len(text):,} characters; at most {limit:,} are allowed.")
    if "\0" in text:
        raise UnsafeText(f"{field} contains a NUL character, which cannot be stored.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnsafeText(f"{field} contains a lone surrogate, which is not valid text.") from None
    return text


def check_subject(text: str, field: str = "subject") -> str:
    text = check_text(text, field, SUBJECT_LIMIT).strip()
    if not text:
        raise EmptySubject
    return text


def check_name(text: str, field: str) -> str:
    """Check a short label that people type: a tenant, an agent, a conversation's key."""
    name = check_text(text, field, NAME_LIMIT).strip()
    # Printable text has no control characters, so most names skip the slower pattern.
    if not name or not (text.isprintable() or re.fullmatch(NAME_PATTERN, text)):
        raise Invalid(f"{field} must not be blank and must not contain control characters.")
    return name


def to_one_line(text: str) -> str:
    """Return the text as one safe line, without line breaks, terminal escapes or characters that reverse the reading order."""
    return text if text.isprintable() else "".join(map(escape_character, text))


def escape_character(character: str) -> str:
    if character.isprintable() or character in JOINERS:
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def cut_at_word(line: str, limit: int) -> str:
    """Shorten a line to a number of characters, after the last word that fits. A word that takes more than half is cut."""
    if len(line) <= limit:
        return line
    kept = line[: limit - 1]
    at_word = kept if line[limit - 1].isspace() else kept.rpartition(" ")[0]
    return f"{(at_word if len(at_word) >= limit // 2 else kept).rstrip(' ,;:.')}…"


def to_lines(text: str) -> list[str]:
    """Split the text into safe lines, each as from `to_one_line`."""
    return [to_one_line(line.replace("\t", "    ")) for line in text.splitlines()]


def cut_json_object(text: str) -> str:
    """Return the text from the first brace to the last one; empty if there are none. It need not be JSON."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else ""


def format_json(data: Any) -> str:
    """Format readable JSON whose control characters are escaped, so that it is safe to print to a terminal."""
    lines = json.dumps(data, ensure_ascii=False, indent=2).split("\n")
    return "\n".join(line if line.isprintable() else escape_line(line) for line in lines)


def escape_line(line: str) -> str:
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)


# Tool arguments


def check_numbers(value: Any, path: tuple[str | int, ...] = ()) -> None:
    """Reject numbers outside 64 bits, NaN and infinity, and nesting deeper than MAX_DEPTH, anywhere in the arguments."""
    if len(path) > MAX_DEPTH:
        raise Invalid(f"Invalid arguments: {format_path(path[:3])}…: nested too deeply")
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            check_numbers(item, (*path, name))
    elif isinstance(value, int) and not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
        raise Invalid(f"Invalid arguments: {format_path(path)}: the number does not fit in 64 bits")
    elif isinstance(value, float) and not isfinite(value):
        raise Invalid(f"Invalid arguments: {format_path(path)}: NaN and infinity are not allowed")


def check_texts(value: Any, path: tuple[str | int, ...] = ()) -> None:
    """Check every text anywhere in the arguments, including names, as `check_text` does."""
    if isinstance(value, str):
        check_text(value, format_path(path))
    elif isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            check_texts(name, path)
            check_texts(item, (*path, name))


def format_path(path: tuple[str | int, ...]) -> str:
    """Format a location in the arguments as `items[0].title`. Names come from the model and may contain anything."""
    steps = (f"[{part}]" if isinstance(part, int) else f".{to_one_line(part[:60])}" for part in path)
    return "".join(steps).removeprefix(".") or "arguments"


def count_bytes(*texts: str | None) -> int:
    """Count the bytes of texts as the database stores them."""
    return sum(len(text) if text.isascii() else len(text.encode()) for text in texts if text)


def to_storable(text: str) -> str:
    """Replace characters that cannot be stored with U+FFFD. Surrogate halves that belong together are joined."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def to_storable_value(value: Any) -> Any:
    """Clean all strings in a JSON value, because escapes in JSON can hide characters that cannot be stored."""
    match value:
        case str():
            return to_storable(value)
        case list():
            return [to_storable_value(item) for item in value]
        case dict():
            return {to_storable(key): to_storable_value(item) for key, item in value.items()}
    return value


# Removes secrets from text, because libraries, providers and custom tools tend to quote their input.


MIN_SECRET_LENGTH: Final = 6  # shorter ones are often ordinary words, and redacting those would make texts unreadable
ENCODING_ERRORS = "surrogateescape"  # how the environment represents bytes that are not valid text


class Redactor(NamedTuple):
    secrets: tuple[str, ...] = ()  # longest first, because one may contain another

    def __call__(self, text: str) -> str:
        for secret in self.secrets:
            if len(secret) >= MIN_SECRET_LENGTH:
                text = text.replace(secret, "…")
        return text

    def __repr__(self) -> str:
        return f"Redactor({len(self.secrets)} secrets)"


def list_spellings(secret: str) -> set[str]:
    """List the forms that a secret takes in URLs, in JSON and in Python's repr."""
    from urllib.parse import quote, quote_plus, unquote  # noqa: PLC0415  only servers need these; every command loads this file

    plain = unquote(secret)
    quoted = {quote(plain, safe="", errors=ENCODING_ERRORS), quote_plus(plain, errors=ENCODING_ERRORS)}
    return {secret, plain, json.dumps(secret)[1:-1], json.dumps(plain)[1:-1], repr(plain)[1:-1], *quoted}


def encode_credentials(credentials: str) -> str:
    """Encode a name and password as in HTTP basic authentication."""
    from base64 import b64encode  # noqa: PLC0415
    from urllib.parse import unquote  # noqa: PLC0415

    return b64encode(unquote(credentials).encode(errors=ENCODING_ERRORS)).decode()
