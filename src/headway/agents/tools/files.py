"""Text files in a tenant's workspace folder. Nothing outside the folder can be read, written or listed.

Folders are opened one inside the other and symbolic links are never followed, so concurrent renames cannot make a path lead
outside. For the same reason, `..` is resolved on the path itself before anything is opened.
"""

import codecs
import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from heapq import nsmallest
from typing import Any, Final
from uuid import uuid4

from headway.ledger import text
from headway.ledger.errors import Invalid, NotFound

READ_LIMIT: Final = 200_000  # characters
WRITE_LIMIT: Final = 1_000_000  # bytes
PATH_LIMIT: Final = 1_000
LIST_LIMIT: Final = 500
MAX_DEPTH: Final = 40
SCRATCH_PREFIX: Final = ".headway-"  # prefix of temporary files that hold an unfinished write

FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that opening a pipe or device does not wait for its other end.
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read(workspace: str, path: str) -> dict[str, Any]:
    parts = split_path(path)
    name = parts[-1] if parts else "."
    with translate_errors(path), open_folder(workspace, parts[:-1]) as folder, open_entry(name, READ_FLAGS, folder) as handle:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Invalid(f"{format_path(path)} is not a file.")
        with os.fdopen(handle, "rb", closefd=False) as source:
            content = decode_text(source.read(4 * READ_LIMIT + 1), path)
    if len(content) <= READ_LIMIT:
        return {"content": content}
    truncated = f"These are the first {READ_LIMIT:,} characters of a file of {status.st_size:,} bytes."
    return {"content": content[:READ_LIMIT], "truncated": truncated}


def decode_text(data: bytes, path: str) -> str:
    try:
        # The last character may be cut in two.
        content = codecs.getincrementaldecoder("utf-8")().decode(data, final=len(data) <= 4 * READ_LIMIT)
    except UnicodeDecodeError:
        raise Invalid(f"{format_path(path)} is not UTF-8 text.") from None
    if "\0" in content:
        raise Invalid(f"{format_path(path)} is a binary file.")
    return content


def write(workspace: str, path: str, content: str) -> dict[str, Any]:
    """Write the file atomically: readers see either the old content or the new."""
    data = text.check_text(content, "content", WRITE_LIMIT).encode()
    if len(data) > WRITE_LIMIT:
        raise Invalid(f"content has {len(data):,} bytes; at most {WRITE_LIMIT:,} are allowed.")
    parts = split_path(path)
    if not parts:
        raise Invalid("path does not name a file.")
    scratch = f"{SCRATCH_PREFIX}{uuid4().hex}"
    with translate_errors(path):
        os.makedirs(workspace, mode=0o700, exist_ok=True)
        with open_folder(workspace, parts[:-1], create=True) as folder:
            try:
                with os.fdopen(os.open(scratch, WRITE_FLAGS, 0o600, dir_fd=folder), "wb") as target:
                    target.write(data)
                    target.flush()
                    os.fsync(target.fileno())
                os.replace(scratch, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(scratch, dir_fd=folder)
    return {"path": "/".join(parts), "size": len(data)}


def list_folder(workspace: str, path: str = ".") -> dict[str, Any]:
    """List the files below a folder, sorted by path."""
    parts = split_path(path)
    if not parts and not os.path.isdir(workspace):
        return {"files": []}  # the first write creates the workspace
    with translate_errors(path), open_folder(workspace, parts) as folder:
        found: list[dict[str, Any]] = []
        for one in walk_folder(folder, "".join(f"{part}/" for part in parts), MAX_DEPTH):
            if len(found) == LIST_LIMIT:
                return {"files": found, "truncated": f"There are more than {LIST_LIMIT} files; list a single folder."}
            found.append(one)
    return {"files": found}


def walk_folder(folder: int, prefix: str, levels: int) -> Iterator[dict[str, Any]]:
    for name in list_names(folder):
        path = prefix + os.fsencode(name).decode(errors="replace")
        if not name.endswith("/"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                yield {"path": path, "size": os.stat(name, dir_fd=folder, follow_symlinks=False).st_size}
            continue
        yield {"path": path}
        if levels:
            with suppress(OSError), open_entry(name.rstrip("/"), FOLDER_FLAGS, folder) as inner:
                yield from walk_folder(inner, path, levels - 1)


def list_names(folder: int) -> list[str]:
    """List files and folders in order of name, folders with a trailing slash. Links, pipes and devices are omitted."""
    with os.scandir(folder) as entries:
        names = (
            f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
            for entry in entries
            if not entry.name.startswith(SCRATCH_PREFIX)
            and (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False))
        )
        return nsmallest(LIST_LIMIT + 1, names)


def split_path(path: str) -> list[str]:
    """Split a path into the names below the workspace; empty for the workspace itself."""
    path = posixpath.normpath(text.check_text(path, "path", PATH_LIMIT))
    if path.startswith("/"):
        raise Invalid("path must be relative to the workspace, without a leading slash.")
    parts = [part for part in path.split("/") if part != "."]
    if ".." in parts:
        raise Invalid("path leads outside the workspace.")
    return parts


@contextmanager
def open_folder(workspace: str, parts: list[str], *, create: bool = False) -> Iterator[int]:
    handle = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=handle)
            outer, handle = handle, os.open(part, FOLDER_FLAGS, dir_fd=handle)
            os.close(outer)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def open_entry(name: str, flags: int, folder: int) -> Iterator[int]:
    handle = os.open(name, flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Translate operating system errors into messages for a model."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"There is no {format_path(path)} in the workspace.") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Invalid(f"{format_path(path)} leads through a link or a file. Links are not followed.") from None
        raise Invalid(f"{format_path(path)} cannot be used: {error.strerror or error}.") from None


def format_path(path: str) -> str:
    return text.to_one_line(path[:200])
