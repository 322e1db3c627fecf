"""Moves a tenant's files from the home of one cell to that of another.

Files have no transactions, so a lock on the home takes their place. A process looks up the state of the move under the lock, and
only then copies, stores the tenant's rows, or deletes. A process that is suspended keeps the lock, and others wait for it.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os.path import join
from shutil import copyfileobj, rmtree
from typing import Final, NamedTuple

from headway.agents.instructions.skills import TENANTS
from headway.agents.tools.files.folders import FOLDER_FLAGS, READ_FLAGS, open_entry
from headway.cells.whereabouts import build_cell_settings
from headway.ledger.cells import Cell, Move
from headway.ledger.errors import Conflict
from headway.settings import Settings
from headway.storage.task_files import TaskFile, delete_task_files

LOCK_FILE: Final = ".tenant-moves.lock"
TEMPORARY_NAME: Final = ".headway-copying"

Conversations = list[tuple[str, int]]  # (UUID, id), which name the task files


class CellFiles(NamedTuple):
    """Where a cell keeps the files of its tenants, as this machine sees it."""

    home: str
    workspace: str
    task_folder: str
    worktrees: str

    def list_folders(self, tenant_id: int) -> list[str]:
        folders = (self.workspace, self.worktrees, join(self.home, TENANTS))
        return [join(os.path.realpath(folder), str(tenant_id)) for folder in folders]


def find_files(cell: Cell, settings: Settings) -> CellFiles:
    """Return the folders of a cell. A cell without a home shares that of this process."""
    own = build_cell_settings(settings, cell)
    if not os.path.isdir(own.home) and cell.home:
        raise Conflict(f"The home of cell {cell.name}, {cell.home}, is not a folder on this machine. Mount it, then try again.")
    return CellFiles(os.path.realpath(own.home), own.workspace, own.task_folder, own.worktrees)


def list_pairs(source: CellFiles, target: CellFiles, tenant_id: int) -> list[tuple[str, str]]:
    """List the tenant's folders in both homes, without those that the cells share."""
    pairs = zip(source.list_folders(tenant_id), target.list_folders(tenant_id), strict=True)
    return [(before, after) for before, after in pairs if before != after]


@contextmanager
def lock_home(files: CellFiles) -> Iterator[None]:
    handle = os.open(join(files.home, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def copy_files(source: CellFiles, target: CellFiles, tenant_id: int, conversations: Conversations) -> int:
    """Make the tenant's files in the target equal to those in the source, and return how many were copied. Those that are equal
    already, by size and time of change, are skipped. The caller holds the lock of the target."""
    copied = sum(mirror_folder(*pair) for pair in list_pairs(source, target, tenant_id))
    for uuid, conversation_id in conversations:
        before, after = (TaskFile(files.task_folder, uuid, conversation_id) for files in (source, target))
        for path, place in ((before.path, after.path), (before.alias, after.alias)):
            if os.path.lexists(path):
                os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
                copied += copy_entry(path, place)
    return copied


def delete_files(
    source: CellFiles, target: CellFiles, move: Move, conversations: Conversations, is_due: Callable[[], bool]
) -> None:
    """Delete the tenant's files in the cell that it has left, unless `is_due`, which is asked under the lock, says no. They are
    renamed under the lock, and deleted afterwards."""
    trash = join(source.home, f".departed-{move.id}")
    with lock_home(source):
        if is_due():
            os.makedirs(trash, mode=0o700, exist_ok=True)
            for number, (folder, _) in enumerate(list_pairs(source, target, move.tenant)):
                if os.path.lexists(folder):
                    rename_into(folder, trash, str(number))
            delete_task_files(source.task_folder, conversations)
    rmtree(trash, ignore_errors=True)


def rename_into(folder: str, trash: str, name: str) -> None:
    place = join(trash, name)
    rmtree(place, ignore_errors=True)
    try:
        os.rename(folder, place)
    except OSError:  # the workspaces are on another file system
        rmtree(folder, ignore_errors=True)


def mirror_folder(source: str, target: str, outer: int | None = None) -> int:
    """Make a folder equal to another one, and return how many files were copied. Links are copied as links and never followed, also
    if a program of the tenant puts one in the place of what was just looked at."""
    try:
        with open_entry(source, FOLDER_FLAGS, outer) as folder:
            if os.path.islink(target) or not os.path.isdir(target):
                remove(target)
                os.makedirs(target, mode=0o700)
            return mirror_entries(folder, target)
    except (FileNotFoundError, NotADirectoryError):  # also for a link
        remove(target)
        return 0


def mirror_entries(folder: int, target: str) -> int:
    copied = 0
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for extra in set(os.listdir(target)) - {name for name, _ in entries}:
        remove(join(target, extra))
    for name, is_folder in entries:
        place = join(target, name)
        copied += mirror_folder(name, place, folder) if is_folder else copy_entry(name, place, folder)
    os.chmod(target, stat.S_IMODE(os.fstat(folder).st_mode))
    return copied


def copy_entry(source: str, target: str, folder: int | None = None) -> int:
    """Copy a file or a link, unless it is equal already. Returns how many files were copied."""
    try:
        found = os.lstat(source, dir_fd=folder)
        if stat.S_ISLNK(found.st_mode):
            copy_link(os.readlink(source, dir_fd=folder), target)
            return 0
        if not stat.S_ISREG(found.st_mode):
            return 0  # sockets and pipes belong to processes
        known = os.lstat(target) if os.path.lexists(target) else None
        if known and stat.S_ISREG(known.st_mode) and (known.st_size, known.st_mtime_ns) == (found.st_size, found.st_mtime_ns):
            return 0
        with open_entry(source, READ_FLAGS, folder) as handle:
            if known and stat.S_ISDIR(known.st_mode):
                remove(target)
            return copy_file(handle, target)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP, errno.EINVAL):
            raise
        return 0  # deleted or exchanged since the folder was read; a move copies again when the tenant's programs have stopped


def copy_link(destination: str, target: str) -> None:
    if not (os.path.islink(target) and os.readlink(target) == destination):
        remove(target)
        os.symlink(destination, target)


def copy_file(source: int, target: str) -> int:
    found = os.fstat(source)
    if not stat.S_ISREG(found.st_mode):
        return 0
    temporary = join(os.path.dirname(target), TEMPORARY_NAME)
    remove(temporary)
    with os.fdopen(os.dup(source), "rb") as reader:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as writer:
            copyfileobj(reader, writer, 1024 * 1024)
            writer.flush()
            os.fchmod(writer.fileno(), stat.S_IMODE(found.st_mode))
            os.fsync(writer.fileno())
    os.utime(temporary, ns=(found.st_atime_ns, found.st_mtime_ns))
    os.replace(temporary, target)
    return 1


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
