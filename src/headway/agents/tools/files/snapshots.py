"""Finds out which files of a workspace a program has changed: by comparing the files before and after it ran.

Files that another agent or a person writes meanwhile look like the work of the program. Links, pipes and devices are left
out, and so are folders that hold what tools have generated or downloaded.
"""

import os
from contextlib import suppress
from typing import Final, NamedTuple

from headway.agents.tools.files.contents import read_entry
from headway.agents.tools.files.folders import SKIPPED_FOLDERS, Entry, Walk, open_folder
from headway.ledger.errors import HeadwayError
from headway.ledger.file_versions import CALL_LIMIT, CONTENT_LIMIT, FILES_PER_CALL, WrittenFile, WrittenFiles, describe_data
from headway.ledger.parsing.paths import PATH_LIMIT

ENTRIES_LIMIT: Final = 20_000  # files and folders of a workspace; a larger one is not compared


class Stamp(NamedTuple):
    """The difference between two states of a file. Its identity stays when it is renamed."""

    device: int
    inode: int
    size: int
    changed_ns: int  # of the content or the permissions; a program cannot set it

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode


Snapshot = dict[str, Stamp]


def take(workspace: str) -> Snapshot | None:
    """Return the state of the files in a workspace, by path; None if there are too many to compare."""
    snapshot: Snapshot = {}
    walk = Walk(SKIPPED_FOLDERS, ENTRIES_LIMIT)
    with suppress(FileNotFoundError), open_folder(workspace, []) as folder:
        for entry in walk.visit(folder, ""):
            with suppress(OSError):  # deleted meanwhile
                if not entry.is_folder:
                    snapshot[entry.path] = stamp(entry)
    return None if walk.is_cut else snapshot


def stamp(entry: Entry) -> Stamp:
    status = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


def compare(workspace: str, before: Snapshot | None) -> WrittenFiles:
    """Return the files that are new, different or gone since a snapshot, with their contents up to the limits."""
    if before is None:
        return WrittenFiles()
    after: Snapshot = {}
    changed: list[WrittenFile] = []
    room, omitted = CALL_LIMIT, 0
    walk = Walk(SKIPPED_FOLDERS, ENTRIES_LIMIT)
    with suppress(FileNotFoundError), open_folder(workspace, []) as folder:
        for entry in walk.visit(folder, ""):
            if entry.is_folder:
                continue
            with suppress(OSError):  # deleted meanwhile
                after[entry.path] = stamp(entry)
                if before.get(entry.path) == after[entry.path]:
                    continue
                if len(changed) == FILES_PER_CALL or len(entry.path) > PATH_LIMIT:
                    omitted += 1
                    continue
                changed.append(read_file(entry, after[entry.path].size, room))
                room -= len(changed[-1].data or b"")
    if walk.is_cut:
        return WrittenFiles()
    gone = sorted(path for path in before if path not in after and len(path) <= PATH_LIMIT)
    former_names = {before[path].identity: path for path in gone}
    renamed = [file._replace(renamed_from=former_names.get(after[file.path].identity, "")) for file in changed]
    deleted = [WrittenFile(path, "deleted") for path in gone[: FILES_PER_CALL - len(changed)]]
    return WrittenFiles((*renamed, *deleted), omitted + len(gone) - len(deleted))


def read_file(entry: Entry, size: int, room: int) -> WrittenFile:
    """Describe a file that a program has changed. A large one is not read, and its content is kept only if there is room."""
    file = WrittenFile(entry.path, "changed", size)
    if size > CONTENT_LIMIT:
        return file
    with suppress(HeadwayError):  # another entry has taken its place
        data, _ = read_entry(entry.folder, entry.name, entry.path, CONTENT_LIMIT)
        if len(data) <= CONTENT_LIMIT:
            size, sha256, media_type = describe_data(data)
            return WrittenFile(entry.path, "changed", size, sha256, media_type, data if size <= room else None)
    return file
