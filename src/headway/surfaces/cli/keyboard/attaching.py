"""`/attach PATH`: a line of the chat that attaches files to the next message."""

import os
import shlex
from pathlib import Path

from headway.ledger.attachment import Attachment, check_attachments
from headway.ledger.errors import Invalid
from headway.ledger.tenancy import format_size
from headway.ledger.text import check_text
from headway.storage.attachment_files import read_attachment

ATTACH_COMMAND = "/attach"


def is_attach_line(line: str) -> bool:
    return line.split(maxsplit=1)[:1] == [ATTACH_COMMAND]


def read_attached(line: str, attached: list[Attachment]) -> list[Attachment]:
    """Return the files that a line names. `attached` are those that the message has already. Raises Invalid."""
    files = [read_attachment(path) for path in parse_paths(line)]
    check_attachments([*attached, *files])
    return files


def parse_paths(line: str) -> list[Path]:
    """Return the paths of a line: one that may contain spaces, or several that are quoted as in a shell."""
    rest = line.strip().removeprefix(ATTACH_COMMAND).strip()
    if not rest:
        raise Invalid(f"Name a file: {ATTACH_COMMAND} PATH.")
    check_text(rest, "The path")
    if os.path.exists(whole := os.path.expanduser(rest)):
        return [Path(whole)]
    try:
        names = shlex.split(rest)
    except ValueError:  # an unbalanced quote is part of the name
        names = [rest]
    return [Path(os.path.expanduser(name)) for name in names]


def describe_attached(files: list[Attachment]) -> str:
    names = ", ".join(f"{file.name} ({file.media_type}, {format_size(len(file.data))})" for file in files)
    return f"Attached {names}. Your next message takes {'it' if len(files) == 1 else 'them'} along."
