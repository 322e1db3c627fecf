"""The history of `headway chat`: what a person typed at the prompt, kept in a file of the home for the next chat."""

import json
import os
import stat
from contextlib import suppress
from typing import Final

from headway.ledger.errors import Invalid
from headway.ledger.text import check_text, to_lines

SIZE_LIMIT: Final = 256 * 1024  # bytes that are read; a file of twice this size is shortened
ENTRY_LIMIT: Final = 10_000  # characters; longer messages, such as pasted files, are not kept
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
APPEND_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HistoryFile:
    """One JSON string per line, oldest first. A history is a convenience: a file that cannot be used is left alone."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> list[str]:
        with suppress(OSError):
            size, lines = self.read_end()
            entries = [entry for entry in map(parse_entry, lines) if entry]
            if size > 2 * SIZE_LIMIT:
                self.rewrite(entries)
            return entries
        return []

    def read_end(self) -> tuple[int, list[bytes]]:
        """Return the size of the file and its last complete lines."""
        with os.fdopen(os.open(self.path, READ_FLAGS), "rb") as file:
            size = check_regular(file.fileno()).st_size
            file.seek(max(0, size - SIZE_LIMIT))
            lines = file.read(SIZE_LIMIT).split(b"\n")
        return size, lines if size <= SIZE_LIMIT else lines[1:]

    def add(self, entry: str) -> None:
        """Keep a message. As in a shell, one that begins with a space is not kept."""
        if not entry.strip() or entry.startswith(" ") or len(entry) > ENTRY_LIMIT:
            return
        with suppress(OSError):
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with os.fdopen(os.open(self.path, APPEND_FLAGS, 0o600), "ab") as file:
                check_regular(file.fileno())
                os.fchmod(file.fileno(), 0o600)
                file.write(encode_entry(entry))

    def rewrite(self, entries: list[str]) -> None:
        scratch = f"{self.path}.{os.getpid()}"
        with os.fdopen(os.open(scratch, APPEND_FLAGS | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(map(encode_entry, entries))
        os.replace(scratch, self.path)


def check_regular(descriptor: int) -> os.stat_result:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    return status


def encode_entry(entry: str) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def parse_entry(line: bytes) -> str:
    """Return the message of a line without what could disturb the terminal. Empty if there is none."""
    try:
        entry = json.loads(line)
        return "\n".join(to_lines(check_text(entry, "entry", ENTRY_LIMIT))) if isinstance(entry, str) else ""
    except (ValueError, RecursionError, Invalid):
        return ""
