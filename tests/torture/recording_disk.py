"""A simulated disk that can lose power: it records SQLite's file operations, and decides at random which unsynced ones survive.

A file consists of its synced content and the writes since. After a power loss the synced content is intact. Of the later writes,
each sector may survive or not, in any order, and one may be torn. Creations and deletions of files survive in order, and are
durable once their folder is synced.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apsw

SECTOR = 512


class Opened(NamedTuple):
    """A file was opened, and maybe created. `syncs_folder`: SQLite syncs a journal's folder when it first syncs the journal."""

    name: str
    file: int
    new: bool
    syncs_folder: bool


class Written(NamedTuple):
    file: int
    offset: int
    data: bytes


class Truncated(NamedTuple):
    file: int
    size: int


class Synced(NamedTuple):
    file: int


class Deleted(NamedTuple):
    name: str
    syncs_folder: bool


class Acknowledged(NamedTuple):
    """The caller got the answer that everything up to here is stored."""

    state: str


Operation = Opened | Written | Truncated | Synced | Deleted | Acknowledged
Change = Written | Truncated


class RecordingDisk(apsw.VFS):
    """A VFS that uses real files and records the operations on database, journal and WAL files."""

    def __init__(self, name: str = "recording") -> None:
        super().__init__(name, "unix")
        self.operations: list[Operation] = []
        self.files = 0

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        new = path is None or not Path(path).exists()
        self.files += 1
        recorded = flags[0] & (apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL)
        file = RecordedFile(name, flags, self.operations if recorded else [], self.files)
        if recorded:
            self.operations.append(Opened(Path(path).name, self.files, new, not flags[0] & apsw.SQLITE_OPEN_MAIN_DB))
        return file

    def xDelete(self, name: str, syncdir: bool) -> None:
        super().xDelete(name, syncdir)
        self.operations.append(Deleted(Path(name).name, bool(syncdir)))


class RecordedFile(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], operations: list[Operation], file: int) -> None:
        super().__init__("unix", name, flags)
        self.operations = operations
        self.file = file

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self.operations.append(Written(self.file, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self.operations.append(Truncated(self.file, newsize))

    def xSync(self, flags: int) -> None:
        self.operations.append(Synced(self.file))  # only recorded: the real machine keeps its power


class Inode:
    """The content of a file: the synced part, and the changes since."""

    def __init__(self, content: bytes = b"", syncs_folder: bool = False) -> None:
        self.synced = bytearray(content)
        self.unsynced: list[Change] = []
        self.syncs_folder = syncs_folder

    def sync(self) -> None:
        for change in self.unsynced:
            apply(self.synced, change)
        self.unsynced = []


class SimulatedDisk:
    """The simulated disk, replayed one operation at a time."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.names = {name: Inode(content) for name, content in files.items()}
        self.synced_names = dict(self.names)
        self.name_changes: list[tuple[str, Inode | None]] = []  # since the folder was last synced
        self.open: dict[int, Inode] = {}
        self.acknowledged = 0

    def apply_operation(self, operation: Operation) -> None:
        match operation:
            case Opened(name, file, new, syncs_folder):
                if new or name not in self.names:
                    self.change_name(name, Inode(syncs_folder=syncs_folder))
                self.open[file] = self.names[name]
            case Written(file) | Truncated(file):
                self.open[file].unsynced.append(operation)
            case Synced(file):
                self.open[file].sync()
                if self.open[file].syncs_folder:
                    self.open[file].syncs_folder = False
                    self.sync_names()
            case Deleted(name, syncs_folder):
                self.change_name(name, None)
                if syncs_folder:
                    self.sync_names()
            case Acknowledged():
                self.acknowledged += 1

    def change_name(self, name: str, inode: Inode | None) -> None:
        self.name_changes.append((name, inode))
        set_name(self.names, name, inode)

    def sync_names(self) -> None:
        self.synced_names = dict(self.names)
        self.name_changes = []

    def after_power_loss(self, rng: Random) -> dict[str, bytes]:
        """The files after a power loss at this point."""
        names = dict(self.synced_names)
        for name, inode in self.name_changes[: rng.randint(0, len(self.name_changes))]:
            set_name(names, name, inode)
        survive = rng.choice((drop_all, keep_all, keep_prefix, keep_some_sectors, keep_some_sectors, drop_one_sector))
        files = {}
        for name, inode in names.items():
            content = bytearray(inode.synced)
            for change in survive(inode.unsynced, rng):
                apply(content, change)
            files[name] = bytes(content)
        return files


def set_name(names: dict[str, Inode], name: str, inode: Inode | None) -> None:
    if inode is None:
        names.pop(name, None)
    else:
        names[name] = inode


def apply(content: bytearray, change: Change) -> None:
    if isinstance(change, Truncated):
        del content[change.size :]
        return
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + len(change.data)] = change.data


# Ways in which unsynced changes survive


def drop_all(_changes: list[Change], _rng: Random) -> list[Change]:
    return []


def keep_all(changes: list[Change], _rng: Random) -> list[Change]:
    return changes


def keep_prefix(changes: list[Change], rng: Random) -> list[Change]:
    """A prefix of the sectors, the next one torn."""
    pieces = list(split_sectors(changes))
    end = rng.randint(0, len(pieces))
    return [*pieces[:end], *(tear(piece, rng) for piece in pieces[end : end + 1])]


def keep_some_sectors(changes: list[Change], rng: Random) -> list[Change]:
    """A random subset of the sectors, one of them torn: a disk may write in any order."""
    rate = rng.random()
    pieces = [piece for piece in split_sectors(changes) if rng.random() < rate]
    last = rng.randrange(len(pieces)) if pieces else 0
    return [tear(piece, rng) if number == last else piece for number, piece in enumerate(pieces)]


def drop_one_sector(changes: list[Change], rng: Random) -> list[Change]:
    pieces = list(split_sectors(changes))
    if pieces:
        del pieces[rng.randrange(len(pieces))]
    return pieces


def split_sectors(changes: list[Change]) -> Iterator[Change]:
    for change in changes:
        if isinstance(change, Truncated):
            yield change
            continue
        file, offset, data = change
        while data:
            size = SECTOR - offset % SECTOR
            yield Written(file, offset, data[:size])
            offset, data = offset + size, data[size:]


def tear(piece: Change, rng: Random) -> Change:
    if isinstance(piece, Truncated):
        return piece
    return piece._replace(data=piece.data[: rng.randint(0, len(piece.data))])
