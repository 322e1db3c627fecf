"""A .tar.gz that is written and read in bounded memory. Only a complete archive gets the name that the user chose."""

import gzip
import io
import os
import shutil
import stat
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Final

from headway.ledger.errors import BadDocument, Conflict

CHUNK: Final = 1024 * 1024
IN_MEMORY: Final = 4 * CHUNK  # of a piece before it is kept in a temporary file
COMPRESSION: Final = 6


class Archive:
    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.partial = f"{self.path}.partial"
        if os.path.lexists(self.path):
            raise Conflict(f"{path} exists already. Nothing was written. Name another file.")
        self.files = 0
        self.tar: tarfile.TarFile | None = None
        self.compressed: gzip.GzipFile | None = None
        self.target: IO[bytes] | None = None

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        try:
            if self.target is not None:
                self._finish(is_complete=kind is None)
        except OSError as late_error:
            error = late_error
        if isinstance(error, OSError):
            raise BadDocument(f"The archive {self.path} was not written: {error.strerror or error}.") from error

    def _finish(self, *, is_complete: bool) -> None:
        try:
            self._close()
            if is_complete:
                os.rename(self.partial, self.path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self.partial)

    def start(self) -> None:
        """Begin with an empty archive. A snapshot that failed can so be read again."""
        self._close()
        try:
            handle = os.open(self.partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise BadDocument(f"{self.path} cannot be written: {error.strerror or error}.") from None
        self.files = 0
        self.target = os.fdopen(handle, "wb")
        self.compressed = gzip.GzipFile("", "wb", COMPRESSION, self.target)
        self.tar = tarfile.open(fileobj=self.compressed, mode="w|")  # noqa: SIM115  closed below

    def _close(self) -> None:
        if self.tar is not None and self.compressed is not None and self.target is not None:
            with self.target, self.compressed:
                self.tar.close()

    def add_lines(self, name: str, lines: Iterable[bytes]) -> None:
        with tempfile.SpooledTemporaryFile(IN_MEMORY, dir=os.path.dirname(self.path)) as spool:
            for line in lines:
                spool.write(line)
            self._add(name, spool, int(time.time()), 0o600)

    def add_folder(self, name: str, folder: str) -> None:
        """Add the files below a folder, without following links. Files that vanish meanwhile are left out."""
        for path in walk(folder):
            self.add_if_exists(os.path.join(name, os.path.relpath(path, folder)), path)

    def add_file(self, name: str, path: str) -> None:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            link = tarfile.TarInfo(name)
            link.type, link.linkname, link.mtime = tarfile.SYMTYPE, os.readlink(path), int(status.st_mtime)
            self._get_tar().addfile(link)
            self.files += 1
        elif stat.S_ISDIR(status.st_mode):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, stat.S_IMODE(status.st_mode) & 0o777, int(status.st_mtime)
            self._get_tar().addfile(folder)
        elif stat.S_ISREG(status.st_mode):
            # A copy first: the file may grow or shrink while it is read, and its size comes ahead of its content.
            with open(path, "rb") as source, tempfile.SpooledTemporaryFile(IN_MEMORY, dir=os.path.dirname(self.path)) as spool:
                while chunk := source.read(CHUNK):
                    spool.write(chunk)
                self._add(name, spool, int(status.st_mtime), stat.S_IMODE(status.st_mode) & 0o777)
            self.files += 1

    def add_if_exists(self, name: str, path: str) -> None:
        with suppress(FileNotFoundError):
            self.add_file(name, path)

    def add_text(self, name: str, text: str) -> None:
        data = text.encode()
        self._add(name, io.BytesIO(data), int(time.time()), 0o600)

    def _add(self, name: str, content: IO[bytes], changed_at: int, mode: int) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = content.seek(0, os.SEEK_END), changed_at, mode
        content.seek(0)
        self._get_tar().addfile(info, content)

    def _get_tar(self) -> tarfile.TarFile:
        if self.tar is None:
            self.start()
        assert self.tar is not None
        return self.tar


def walk(folder: str) -> Iterator[str]:
    """Return the files, links and empty folders below a folder. git needs its empty folders."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        if parent != folder and not folders and not names:
            yield parent
        yield from (os.path.join(parent, name) for name in sorted([*names, *links]))


def extract(path: str, folder: str) -> None:
    """Write the files, folders and links of an archive below a folder. Links come last, so that nothing is written through one."""
    links: list[tuple[str, str]] = []
    try:
        with tarfile.open(path, "r|gz") as tar:
            for member in tar:
                target = os.path.normpath(os.path.join(folder, member.name))
                if not target.startswith(os.path.join(folder, "")):
                    raise BadDocument(f"{path} names a file outside of itself: {member.name[:200]}.")
                if member.issym():
                    links.append((member.linkname, target))
                elif member.isdir():
                    os.makedirs(target, exist_ok=True)
                elif content := tar.extractfile(member):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    with open(target, "xb") as file:
                        shutil.copyfileobj(content, file, CHUNK)
                    os.chmod(target, member.mode & 0o777)
                    os.utime(target, (member.mtime, member.mtime))
        for source, target in links:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.symlink(source, target)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error):
        raise BadDocument(f"{path} is damaged, or not an archive of Headway.") from None
    except OSError as error:
        raise BadDocument(f"{path} cannot be unpacked: {error.strerror or error}.") from None
