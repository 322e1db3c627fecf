"""Adds a table to a TOML file, or removes it, and leaves the rest of its text alone."""

import json
import re
import tomllib
from typing import Any, Final

from headway.ledger.errors import BadDocument

HEADER: Final = re.compile(r"[ \t]*\[{1,2}([^\]\r\n]+)\]")


def parse(text: str) -> dict[str, Any]:
    """Parse a file. Raises BadDocument."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadDocument(f"It is not valid TOML: {error}") from None


def add_table(text: str, section: str, name: str, value: dict[str, Any]) -> str:
    """Add the table SECTION.NAME at the end. Texts and lists of texts are written alike in TOML and in JSON."""
    lines = [f"[{section}.{name}]", *(f"{key} = {json.dumps(member, ensure_ascii=False)}" for key, member in value.items())]
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = newline if text else ""  # an empty line, or the end of the last one
    return text + gap + newline.join(lines) + newline


def remove_table(text: str, section: str, name: str) -> str:
    """Remove the table SECTION.NAME and the tables below it, with the line end before each that `add_table` has added."""
    kept: list[str] = []
    is_removing = False
    has_gap = True
    for line in text.splitlines(keepends=True):
        if header := HEADER.match(line):
            path = [part.strip().strip("\"'") for part in header[1].split(".")]
            is_removing = path[:2] == [section, name]
            if is_removing and kept:
                has_gap = not kept[-1].strip()
                kept = kept[:-1] if has_gap else kept
        if not is_removing:
            kept.append(line)
    rest = "".join(kept)
    return rest.rstrip("\r\n") if is_removing and not has_gap else rest
