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


Deed = Opened | Written | Truncated | Synced | Deleted | Acknowledged
Change = Written | Truncated


class RecordingDisk(apsw.VFS):
    """A VFS that uses real files and records the operations on database, journal and WAL files."""

    def __init__(self, name: str = "recording") -> None:
        super().__init__(name, "unix")
        self.deeds: list[Deed] = []
        self.files = 0

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        new = path is None or not Path(path).exists()
        self.files += 1
        lasts = flags[0] & (apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL)
        file = RecordedFile(name, flags, self.deeds if lasts else [], self.files)
        if lasts:
            self.deeds.append(Opened(Path(path).name, self.files, new, not flags[0] & apsw.SQLITE_OPEN_MAIN_DB))
        return file

    def xDelete(self, name: str, syncdir: bool) -> None:
        super().xDelete(name, syncdir)
        self.deeds.append(Deleted(Path(name).name, bool(syncdir)))


class RecordedFile(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], deeds: list[Deed], file: int) -> None:
        super().__init__("unix", name, flags)
        self.deeds = deeds
        self.file = file

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self.deeds.append(Written(self.file, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self.deeds.append(Truncated(self.file, newsize))

    def xSync(self, flags: int) -> None:
        self.deeds.append(Synced(self.file))  # only recorded: the real machine keeps its power


class Inode:
    """The content of a file: the synced part, and the changes since."""

    def __init__(self, content: bytes = b"", syncs_folder: bool = False) -> None:
        self.certain = bytearray(content)
        self.since: list[Change] = []
        self.syncs_folder = syncs_folder

    def sync(self) -> None:
        for change in self.since:
            apply(self.certain, change)
        self.since = []


class Platter:
    """The simulated disk, replayed one operation at a time."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.names = {name: Inode(content) for name, content in files.items()}
        self.certain_names = dict(self.names)
        self.renamings: list[tuple[str, Inode | None]] = []  # since the folder was last synced
        self.open: dict[int, Inode] = {}
        self.acknowledged = 0

    def happens(self, deed: Deed) -> None:
        match deed:
            case Opened(name, file, new, syncs_folder):
                if new or name not in self.names:
                    self.name(name, Inode(syncs_folder=syncs_folder))
                self.open[file] = self.names[name]
            case Written(file) | Truncated(file):
                self.open[file].since.append(deed)
            case Synced(file):
                self.open[file].sync()
                if self.open[file].syncs_folder:
                    self.open[file].syncs_folder = False
                    self.sync_names()
            case Deleted(name, syncs_folder):
                self.name(name, None)
                if syncs_folder:
                    self.sync_names()
            case Acknowledged():
                self.acknowledged += 1

    def name(self, name: str, inode: Inode | None) -> None:
        self.renamings.append((name, inode))
        named(self.names, name, inode)

    def sync_names(self) -> None:
        self.certain_names = dict(self.names)
        self.renamings = []

    def after_power_loss(self, lot: Random) -> dict[str, bytes]:
        """The files after a power loss at this point."""
        names = dict(self.certain_names)
        for name, inode in self.renamings[: lot.randint(0, len(self.renamings))]:
            named(names, name, inode)
        fate = lot.choice((nothing, everything, the_beginning, some_sectors, some_sectors, all_but_a_sector))
        found = {}
        for name, inode in names.items():
            content = bytearray(inode.certain)
            for change in fate(inode.since, lot):
                apply(content, change)
            found[name] = bytes(content)
        return found


def named(names: dict[str, Inode], name: str, inode: Inode | None) -> None:
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


def nothing(_changes: list[Change], _lot: Random) -> list[Change]:
    return []


def everything(changes: list[Change], _lot: Random) -> list[Change]:
    return changes


def the_beginning(changes: list[Change], lot: Random) -> list[Change]:
    """A prefix of the sectors, the next one torn."""
    pieces = list(sectors(changes))
    end = lot.randint(0, len(pieces))
    return [*pieces[:end], *(torn(piece, lot) for piece in pieces[end : end + 1])]


def some_sectors(changes: list[Change], lot: Random) -> list[Change]:
    """A random subset of the sectors, one of them torn: a disk may write in any order."""
    luck = lot.random()
    pieces = [piece for piece in sectors(changes) if lot.random() < luck]
    last = lot.randrange(len(pieces)) if pieces else 0
    return [torn(piece, lot) if number == last else piece for number, piece in enumerate(pieces)]


def all_but_a_sector(changes: list[Change], lot: Random) -> list[Change]:
    pieces = list(sectors(changes))
    if pieces:
        del pieces[lot.randrange(len(pieces))]
    return pieces


def sectors(changes: list[Change]) -> Iterator[Change]:
    for change in changes:
        if isinstance(change, Truncated):
            yield change
            continue
        file, offset, data = change
        while data:
            size = SECTOR - offset % SECTOR
            yield Written(file, offset, data[:size])
            offset, data = offset + size, data[size:]


def torn(piece: Change, lot: Random) -> Change:
    if isinstance(piece, Truncated):
        return piece
    return piece._replace(data=piece.data[: lot.randint(0, len(piece.data))])
