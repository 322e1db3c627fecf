"""Lists and searches the files of a workspace."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from headway.agents.tools.files.folders import (
    ENTRIES_LIMIT,
    READ_FLAGS,
    SKIPPED_FOLDERS,
    Entry,
    Walk,
    format_path,
    join_prefix,
    open_entry,
    open_folder,
    translate_errors,
)
from headway.ledger.errors import Invalid
from headway.ledger.parsing.json_values import compile_expression, compile_glob, split_glob
from headway.ledger.parsing.paths import split_path

FILE_LIMIT: Final = 1_000_000  # bytes
# Bytes that are matched in one call of the engine, which cannot be interrupted. No match spans two lines, so a block ends with a
# line. Only the beginning of a longer line is searched.
BLOCK: Final = 16_000
LINE_WIDTH: Final = 300  # characters
OUTPUT_LIMIT: Final = 100_000  # characters
TIME_LIMIT_S: Final = 20.0


class Search:
    def __init__(self, expression: str, limit: int) -> None:
        self.pattern = compile_expression(expression)
        self.limit = limit
        self.deadline = time.monotonic() + TIME_LIMIT_S
        self.matches: list[str] = []
        self.room = OUTPUT_LIMIT
        self.large_files = 0
        self.truncated = ""

    def search_folder(self, folder: int, prefix: str) -> None:
        walk = Walk(SKIPPED_FOLDERS)
        for entry in walk.visit(folder, prefix):
            if self.truncated:
                return
            self.check_time()
            if not entry.is_folder:
                with suppress(OSError), open_entry(entry.name, READ_FLAGS, entry.folder) as handle:  # deleted, or not readable
                    self.search_file(handle, entry.path)
        if walk.is_cut and not self.truncated:
            self.truncated = f"There are more than {ENTRIES_LIMIT:,} files; search a single folder."

    def search_file(self, handle: int, path: str) -> None:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return  # replaced meanwhile
        with os.fdopen(handle, "rb", closefd=False) as source:
            data = source.read(FILE_LIMIT + 1)
        if len(data) > FILE_LIMIT:
            self.large_files += 1
        elif data and b"\0" not in data:
            for number, line in self.find_lines(data.replace(b"\r\n", b"\n").removesuffix(b"\n")):
                self.add(f"{path}:{number}: {line}")
                if self.truncated:
                    return

    def find_lines(self, data: bytes) -> Iterator[tuple[int, str]]:
        """Find the lines that match, with their numbers."""
        position, number = 0, 1
        while position <= len(data) and not self.truncated:
            self.check_time()
            stop, following = find_block(data, position)
            while position <= stop and (match := self.pattern.search(data, position, stop)):
                start = data.rfind(b"\n", position, match.start()) + 1 or position
                end = data.find(b"\n", match.start())
                end = len(data) if end < 0 else end
                number += data.count(b"\n", position, start)
                yield number, shorten(data[start:end], match.start() - start)
                position, number = end + 1, number + 1
            number += data.count(b"\n", position, following)
            position = max(position, following)

    def add(self, match: str) -> None:
        self.room -= len(match)
        if len(self.matches) == self.limit or self.room < 0:
            self.truncated = f"More lines than these {len(self.matches):,} match; use a narrower pattern or path."
        else:
            self.matches.append(match)

    def check_time(self) -> None:
        if time.monotonic() > self.deadline and not self.truncated:
            self.truncated = f"The search was stopped after {TIME_LIMIT_S:g} s; search a single folder, or use a simpler pattern."

    def as_json(self) -> dict[str, Any]:
        notes = {
            "truncated": self.truncated,
            "skipped": f"{self.large_files:,} files of more than {FILE_LIMIT:,} bytes" if self.large_files else "",
        }
        return {"matches": self.matches} | {name: note for name, note in notes.items() if note}


def search(workspace: str, expression: str, path: str, limit: int) -> dict[str, Any]:
    """Search a file, or all files below a folder, for lines that match a regular expression."""
    search = Search(expression, limit)
    parts = split_path(path)
    if not parts and not os.path.isdir(workspace):
        return search.as_json()  # the first write creates the workspace
    name = parts[-1] if parts else "."
    with translate_errors(path), open_folder(workspace, parts[:-1]) as folder, open_entry(name, READ_FLAGS, folder) as handle:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            search.search_folder(handle, join_prefix(parts))
        elif stat.S_ISREG(mode):
            search.search_file(handle, "/".join(parts))
        else:
            raise Invalid(f"{format_path(path)} is not a file.")
    return search.as_json()


def find_block(data: bytes, position: int) -> tuple[int, int]:
    """Return the end of the block that begins at a position, and where the next one begins."""
    if len(data) - position <= BLOCK:
        return len(data), len(data) + 1
    stop = data.rfind(b"\n", position, position + BLOCK)
    if stop < 0:  # a long line
        following = data.find(b"\n", position + BLOCK)
        return position + BLOCK, (len(data) if following < 0 else following) + 1
    return stop, stop + 1


def shorten(line: bytes, start: int) -> str:
    """Return a line as text, or the part of a long line around its match."""
    text = line.decode(errors="replace")
    if len(text) <= LINE_WIDTH:
        return text
    begin = max(0, len(line[:start].decode(errors="replace")) - LINE_WIDTH // 3)
    part = text[begin : begin + LINE_WIDTH]
    return f"{'…' if begin else ''}{part}{'…' if begin + LINE_WIDTH < len(text) else ''}"


# Listing the files below a folder.


LIST_LIMIT: Final = 500


def list_folder(workspace: str, path: str = ".") -> dict[str, Any]:
    """List the files and folders below a folder, sorted by path."""
    return collect(workspace, split_path(path), Walk())


def list_matches(workspace: str, path: str, glob: str) -> dict[str, Any]:
    """List the files below a folder whose path in it matches a glob, sorted by path."""
    folder, rest = split_glob(glob)
    return collect(
        workspace, [*split_path(path), *(split_path(folder) if folder else ())], Walk(SKIPPED_FOLDERS), compile_glob(rest)
    )


def collect(workspace: str, parts: list[str], walk: Walk, pattern: Any = None) -> dict[str, Any]:
    if not parts and not os.path.isdir(workspace):
        return {"files": []}  # the first write creates the workspace
    prefix = join_prefix(parts)
    files: list[dict[str, Any]] = []
    with translate_errors(prefix.rstrip("/") or "."), open_folder(workspace, parts) as folder:
        for entry in walk.visit(folder, prefix):
            if pattern and (entry.is_folder or not pattern.fullmatch(entry.path[len(prefix) :])):
                continue
            if len(files) == LIST_LIMIT:
                narrower = "use a narrower pattern" if pattern else "list a single folder"
                return {"files": files, "truncated": f"There are more than {LIST_LIMIT} files; {narrower}."}
            with suppress(FileNotFoundError):  # deleted meanwhile
                files.append(describe_entry(entry))
    if walk.is_cut:
        return {"files": files, "truncated": f"There are more than {ENTRIES_LIMIT:,} files; list a single folder."}
    return {"files": files}


def describe_entry(entry: Entry) -> dict[str, Any]:
    if entry.is_folder:
        return {"path": entry.path}
    return {"path": entry.path, "size": os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False).st_size}
