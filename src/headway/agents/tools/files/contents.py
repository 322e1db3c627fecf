"""Reads, writes and edits text files, and shows the closest text where an edit does not apply."""

import codecs
import hashlib
import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import accumulate
from threading import Lock
from typing import Any, BinaryIO, Final, NamedTuple
from uuid import uuid4

from headway.agents.tools.files.folders import READ_FLAGS, SCRATCH_PREFIX, format_path, open_entry, open_folder, translate_errors
from headway.ledger import text
from headway.ledger.errors import Conflict, HeadwayError, Invalid
from headway.ledger.file_versions import CONTENT_LIMIT, WrittenFile, build_written
from headway.ledger.parsing.paths import split_path

LINES_LIMIT: Final = 5_000  # lines that are compared with the first line of the text
CANDIDATES: Final = 20
SHOWN_LINES: Final = 10
SHOWN_WIDTH: Final = 200
LEAST_SIMILARITY: Final = 0.6


def describe_closest(content: str, wanted: str) -> str:
    lines = content.split("\n")
    if found := find_without_whitespace(lines, wanted):
        return f"These lines differ from it only in whitespace:\n{show_lines(lines, found)}"
    wanted_lines = wanted.strip().split("\n")
    start = find_most_similar(lines, wanted_lines[0]) if wanted_lines[0] else None
    if start is None:
        return "No line is similar to its first line. Read the file again."
    return f"The most similar lines are:\n{show_lines(lines, range(start, start + len(wanted_lines)))}"


def find_without_whitespace(lines: list[str], wanted: str) -> range:
    """Return the lines that contain a text if whitespace is ignored."""
    squeezed = squeeze(wanted)
    squeezed_lines = [squeeze(line) for line in lines]
    start = "".join(squeezed_lines).find(squeezed) if squeezed else -1
    if start < 0:
        return range(0)
    starts = list(accumulate(map(len, squeezed_lines), initial=0))
    return range(bisect_right(starts, start) - 1, bisect_right(starts, start + len(squeezed) - 1))


def squeeze(line: str) -> str:
    return "".join(line.split())


def find_most_similar(lines: list[str], wanted: str) -> int | None:
    """Return the most similar line. Only the lines that share most letters are compared exactly, which takes milliseconds each."""
    matcher = SequenceMatcher(b=wanted.strip()[:SHOWN_WIDTH], autojunk=False)

    def rate(number: int, rating: Callable[[], float]) -> float:
        matcher.set_seq1(lines[number].strip()[:SHOWN_WIDTH])
        return rating()

    candidates = nlargest(CANDIDATES, range(min(len(lines), LINES_LIMIT)), key=lambda number: rate(number, matcher.quick_ratio))
    similarity, best = max((rate(number, matcher.ratio), -number) for number in candidates)
    return -best if similarity > LEAST_SIMILARITY else None


def show_lines(lines: list[str], numbers: range) -> str:
    shown = [number for number in numbers[:SHOWN_LINES] if number < len(lines)]
    return "\n".join(f"{number + 1}: {lines[number][:SHOWN_WIDTH]}" for number in shown)


# Reading, writing and editing one text file.


READ_LIMIT: Final = 200_000  # characters
WRITE_LIMIT: Final = 1_000_000  # bytes
HASH_LIMIT: Final = 1_000_000_000  # bytes
HASHED_AT_ONCE: Final = 1_000_000  # bytes
GIT_FOLDER: Final = ".git"  # its configuration and its hooks name programs
PERMISSION_BITS: Final = 0o777
WRITE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Agents that share a workspace run in one process. Each folder has one of these locks, so that no edit undoes another.
LOCKS: Final = tuple(Lock() for _ in range(64))


def read(workspace: str, path: str) -> dict[str, Any]:
    parts = split_path(path)
    name = parts[-1] if parts else "."
    with translate_errors(path), open_folder(workspace, parts[:-1]) as folder:
        data, status = read_entry(folder, name, path, 4 * READ_LIMIT)
    content = decode_text(data, path, is_whole=len(data) <= 4 * READ_LIMIT)
    if len(content) <= READ_LIMIT:
        return {"content": content}
    truncated = f"These are the first {READ_LIMIT:,} characters of a file of {status.st_size:,} bytes."
    return {"content": content[:READ_LIMIT], "truncated": truncated}


def measure(workspace: str, path: str) -> int | None:
    """Return the size of a file in bytes; None if there is no such file. Links are not followed."""
    with suppress(OSError, HeadwayError):
        parts = split_file_path(path)
        with open_folder(workspace, parts[:-1]) as folder:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            return status.st_size if stat.S_ISREG(status.st_mode) else None
    return None


def exists(workspace: str, path: str) -> bool:
    return measure(workspace, path) is not None


@contextmanager
def open_file(folder: int, name: str, path: str) -> Iterator[BinaryIO]:
    with open_entry(name, READ_FLAGS, folder) as handle:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Invalid(f"{format_path(path)} is not a file.")
        with os.fdopen(handle, "rb", closefd=False) as source:
            yield source


def read_entry(folder: int, name: str, path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Read a file up to one byte beyond the limit."""
    with open_file(folder, name, path) as source:
        return source.read(limit + 1), os.fstat(source.fileno())


class HashedFile(NamedTuple):
    beginning: bytes
    digest: str  # SHA-256 of the whole file; empty if that is larger than HASH_LIMIT
    size: int


def hash_entry(folder: int, name: str, path: str, limit: int) -> HashedFile:
    """Read the beginning of a file, up to the limit, and hash all of it piece by piece, so that a large one takes little memory."""
    beginning, digest, size = b"", hashlib.sha256(), 0
    with open_file(folder, name, path) as source:
        while size <= HASH_LIMIT and (piece := source.read(HASHED_AT_ONCE)):
            beginning += piece[: max(0, limit - size)]
            digest.update(piece)
            size += len(piece)
        is_whole = size <= HASH_LIMIT
        return HashedFile(beginning, digest.hexdigest() if is_whole else "", max(size, os.fstat(source.fileno()).st_size))


def decode_text(data: bytes, path: str, *, is_whole: bool) -> str:
    try:
        # The last character of a part may be cut in two.
        content = codecs.getincrementaldecoder("utf-8")().decode(data, final=is_whole)
    except UnicodeDecodeError:
        raise Invalid(f"{format_path(path)} is not UTF-8 text.") from None
    if "\0" in content:
        raise Invalid(f"{format_path(path)} is a binary file.")
    return content


class FileWrite(NamedTuple):
    """A file that a tool wrote: the answer to the model, and the record."""

    answer: dict[str, Any]
    file: WrittenFile


def write(workspace: str, path: str, content: str) -> FileWrite:
    """Write the file atomically: readers see either the old content or the new."""
    data = encode_text(content, "content")
    parts = split_written_path(path)
    with translate_errors(path):
        os.makedirs(workspace, mode=0o700, exist_ok=True)
        with open_folder(workspace, parts[:-1], create=True) as folder, find_lock(folder):
            before = read_replaced(folder, parts[-1], path)
            replace_file(folder, parts[-1], data, find_mode(folder, parts[-1]))
    name = "/".join(parts)
    return FileWrite({"path": name, "size": len(data)}, build_written(name, data, before))


def read_replaced(folder: int, name: str, path: str) -> bytes | None:
    """Return the content that a write replaces; None if there is none, or it is too large to keep."""
    with suppress(OSError, HeadwayError):
        data, _ = read_entry(folder, name, path, CONTENT_LIMIT)
        return data if len(data) <= CONTENT_LIMIT else None
    return None


def edit(workspace: str, path: str, old: str, new: str, *, replace_all: bool = False) -> FileWrite:
    """Replace text in a file atomically. Its line endings, its byte order mark and its permissions stay as they are."""
    if not old:
        raise Invalid("old is empty, so nothing was changed. To create a file, or to write it whole, use write_file.")
    parts = split_written_path(path)
    with translate_errors(path), open_folder(workspace, parts[:-1]) as folder, find_lock(folder):
        data, status = read_entry(folder, parts[-1], path, WRITE_LIMIT)
        if len(data) > WRITE_LIMIT:
            raise Invalid(f"{format_path(path)} has {status.st_size:,} bytes; at most {WRITE_LIMIT:,} can be edited.")
        before = decode_text(data, path, is_whole=True)
        content, count = replace_text(before, old, new, path, replace_all=replace_all)
        replaced, data = data, encode_text(content, "the edited file")
        if is_changed(folder, parts[-1], status):
            raise Conflict(f"{format_path(path)} was changed by something else meanwhile. Nothing was edited. Read it again.")
        replace_file(folder, parts[-1], data, stat.S_IMODE(status.st_mode) & PERMISSION_BITS)
    name = "/".join(parts)
    return FileWrite({"path": name, "replaced": count, "size": len(data)}, build_written(name, data, replaced))


def replace_text(content: str, old: str, new: str, path: str, *, replace_all: bool) -> tuple[str, int]:
    old, new = (adopt_line_endings(part, content) for part in (old, new))
    if old == new:
        raise Invalid("old and new are the same, apart from line endings, which are kept. Nothing was changed.")
    first = content.find(old)
    if first < 0:
        raise Invalid(f"old does not occur in {format_path(path)}, so nothing was changed. {describe_closest(content, old)}")
    if not replace_all and content.find(old, first + 1) >= 0:
        count = max(2, content.count(old))  # `aa` is in `aaa` twice, but counted once
        raise Invalid(
            f"old occurs {count:,} times in {format_path(path)}, so nothing was changed. "
            "Add lines before or after it until it occurs once, or set all to replace every occurrence."
        )
    count = content.count(old)
    size = len(content) + count * (len(new) - len(old))
    if size > WRITE_LIMIT:  # refused before it is built, because it could fill the memory
        raise Invalid(f"The edited file would have {size:,} characters; at most {WRITE_LIMIT:,} are allowed. Nothing was changed.")
    return content.replace(old, new), count


def adopt_line_endings(part: str, content: str) -> str:
    """Give a text the line endings of the file, because models often write `\\n` whatever the file has."""
    breaks, windows_breaks = content.count("\n"), content.count("\r\n")
    if windows_breaks not in (0, breaks):
        return part  # mixed: taken literally
    plain = part.replace("\r\n", "\n") if breaks else part
    return plain.replace("\n", "\r\n") if windows_breaks else plain


def encode_text(content: str, name: str) -> bytes:
    data = text.check_text(content, name, WRITE_LIMIT).encode()
    if len(data) > WRITE_LIMIT:
        raise Invalid(f"{name} has {len(data):,} bytes; at most {WRITE_LIMIT:,} are allowed.")
    return data


def split_file_path(path: str) -> list[str]:
    """Split the path of a file that is to be written."""
    parts = split_path(path)
    if not parts:
        raise Invalid("path does not name a file.")
    if any(part.casefold() == GIT_FOLDER for part in parts):
        raise Invalid(f"{format_path(path)} belongs to git, which would run what its settings say. Use git to change it.")
    return parts


def split_written_path(path: str) -> list[str]:
    """Split the path of a file to write. Git's own files can make git run programs, so only git writes them."""
    parts = split_file_path(path)
    if any(part.casefold() == ".git" for part in parts):
        raise Invalid(f"{format_path(path)} belongs to git. Only git may write it.")
    return parts


def find_mode(folder: int, name: str) -> int:
    """Return the permissions for a file that is written whole: the ones it has, or ours alone if it is new."""
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            return stat.S_IMODE(status.st_mode) & PERMISSION_BITS
    return 0o600


def find_lock(folder: int) -> Lock:
    status = os.fstat(folder)
    return LOCKS[hash((status.st_dev, status.st_ino)) % len(LOCKS)]


def is_changed(folder: int, name: str, before: os.stat_result) -> bool:
    """Whether another process has written or replaced a file since it was read."""
    now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns) != (
        *(before.st_dev, before.st_ino),
        *(before.st_size, before.st_mtime_ns),
    )


def replace_file(folder: int, name: str, data: bytes, mode: int) -> None:
    scratch = f"{SCRATCH_PREFIX}{uuid4().hex}"
    try:
        with os.fdopen(os.open(scratch, WRITE_FLAGS, 0o600, dir_fd=folder), "wb") as target:
            target.write(data)
            target.flush()
            os.fchmod(target.fileno(), mode)
            os.fsync(target.fileno())
        os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(scratch, dir_fd=folder)
