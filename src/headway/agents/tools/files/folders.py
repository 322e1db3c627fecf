"""Paths in a workspace, and the folders that they lead through."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from headway.ledger import text
from headway.ledger.errors import Invalid, NotFound

MAX_DEPTH: Final = 40
ENTRIES_LIMIT: Final = 100_000  # files and folders that one call looks at
SCRATCH_PREFIX: Final = ".headway-"  # prefix of temporary files that hold an unfinished write
# Folders that hold what tools have generated or downloaded. Searches and patterns do not enter them, unless the path does.
SKIPPED_FOLDERS: Final = frozenset(
    (
        *(".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox"),
    )
)

FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that opening a pipe or device does not wait for its other end.
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Entry(NamedTuple):
    path: str  # below the workspace; that of a folder ends with a slash
    name: str
    folder: int  # the open folder that contains it

    @property
    def is_folder(self) -> bool:
        return self.path.endswith("/")


class Walk:
    """A walk through folders in order of name. It looks at a limited number of entries, and `is_cut` says if there were more."""

    def __init__(self, skipped: frozenset[str] = frozenset(), limit: int = ENTRIES_LIMIT) -> None:
        self.skipped = skipped
        self.limit = limit
        self.entries = 0
        self.is_cut = False

    def visit(self, folder: int, prefix: str, levels: int = MAX_DEPTH) -> Iterator[Entry]:
        for name in self.list_names(folder):
            entry = Entry(prefix + os.fsencode(name).decode(errors="replace"), name.rstrip("/"), folder)
            yield entry
            if entry.is_folder and levels:
                with suppress(OSError), open_entry(entry.name, FOLDER_FLAGS, folder) as inner:
                    yield from self.visit(inner, entry.path, levels - 1)

    def list_names(self, folder: int) -> list[str]:
        """List files and folders in order of name, folders with a trailing slash. Links, pipes and devices are omitted."""
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self.entries += 1
                if self.entries > self.limit:
                    self.is_cut = True
                    break
                if entry.name.startswith(SCRATCH_PREFIX):
                    continue
                if entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                elif entry.is_dir(follow_symlinks=False) and entry.name not in self.skipped:
                    names.append(f"{entry.name}/")
        return sorted(names)


def join_prefix(parts: list[str]) -> str:
    """Return what the paths of everything in a folder begin with."""
    return "".join(f"{part}/" for part in parts)


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
def open_entry(name: str, flags: int, folder: int | None = None) -> Iterator[int]:
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
