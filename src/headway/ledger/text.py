"""What text may enter the ledger. Text of users and models is hostile until it passed here."""

import json
import re
from math import isfinite
from typing import Any

from headway.ledger.errors import EmptySubject, Invalid, TextTooLong, UnsafeText

SUBJECT_LIMIT = 1_000
TEXT_LIMIT = 200_000
NAME_LIMIT = 200
MAX_INTEGER = 2**63 - 1
MAX_DEPTH = 200  # as deep as documents that come over HTTP can be
JOINERS = "\u200c\u200d"  # not printable by themselves, but Persian words and many emoji need them


# What the rules below accept, as regular expressions that API documents can show. Spaces are named one by one:
# what \s means differs between the languages that read these.
SPACES = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
CONTROLS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
TEXT_PATTERN = r"^[^\u0000]*$"
SUBJECT_PATTERN = rf"^[^\u0000]*[^\u0000{SPACES}][^\u0000]*$"
NAME_PATTERN = rf"^[^{CONTROLS}]*[^{CONTROLS}{SPACES}][^{CONTROLS}]*$"


def check_text(text: str, field: str, limit: int = TEXT_LIMIT) -> str:
    """The text unchanged, or an error that names the field."""
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
    """A short label that people type: a tenant, an agent, a conversation's key."""
    name = check_text(text, field, NAME_LIMIT).strip()
    # What is printable has no control characters; nearly every name is, and is spared the pattern.
    if not name or not (text.isprintable() or re.fullmatch(NAME_PATTERN, text)):
        raise Invalid(f"{field} must not be blank and must not contain control characters.")
    return name


def to_one_line(text: str) -> str:
    """The text as one harmless line: no line breaks, no terminal escapes, nothing that turns reading order around."""
    return text if text.isprintable() else "".join(map(escape_character, text))


def escape_character(character: str) -> str:
    if character.isprintable() or character in JOINERS:
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def to_lines(text: str) -> list[str]:
    """The text as harmless lines."""
    return [to_one_line(line.replace("\t", "    ")) for line in text.splitlines()]


def format_json(data: Any) -> str:
    """One JSON document that people can read, in which nothing can play tricks on a terminal."""
    written = json.dumps(data, ensure_ascii=False, indent=2).split("\n")
    return "\n".join(line if line.isprintable() else escape_line(line) for line in written)


def escape_line(line: str) -> str:
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)


# The arguments of tools


def check_numbers(value: Any, path: tuple[str | int, ...] = ()) -> None:
    """Numbers that no database and few languages can hold are refused, wherever in the arguments they are."""
    if len(path) > MAX_DEPTH:
        raise Invalid(f"Invalid arguments: {format_path(path[:3])}…: nested too deeply")
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            check_numbers(one, (*path, name))
    elif isinstance(value, int) and not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
        raise Invalid(f"Invalid arguments: {format_path(path)}: the number is outside of 64 bits")
    elif isinstance(value, float) and not isfinite(value):
        raise Invalid(f"Invalid arguments: {format_path(path)}: NaN and infinity are not numbers here")


def check_texts(value: Any, path: tuple[str | int, ...] = ()) -> None:
    """The same for texts, names included."""
    if isinstance(value, str):
        check_text(value, format_path(path))
    elif isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            check_texts(name, path)
            check_texts(one, (*path, name))


def format_path(path: tuple[str | int, ...]) -> str:
    """Where in the arguments, as `items[0].title`; names are the model's own and may be anything."""
    steps = (f"[{part}]" if isinstance(part, int) else f".{to_one_line(part[:60])}" for part in path)
    return "".join(steps).removeprefix(".") or "arguments"
