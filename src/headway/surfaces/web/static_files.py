"""The files of the page, read and compressed once.

They are served under a folder that is named after their content, so a browser may keep each for good: another build is another
folder. Imports between modules are relative and stay inside of it.
"""

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "static"
SHELL: Final = "index.html"
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
COMPRESSED: Final = (".css", ".html", ".js", ".svg")


class File(NamedTuple):
    body: bytes
    zipped: bytes | None
    kind: str
    etag: str


class Site(NamedTuple):
    build: str
    files: dict[str, File]
    shell: File


@cache
def site() -> Site:
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in TYPES)
    contents = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}
    digest = hashlib.sha256()
    for name, body in contents.items():
        digest.update(name.encode() + b"\0" + body)
    build = digest.hexdigest()[:12]
    shell = contents.pop(SHELL).replace(b"{build}", build.encode())
    return Site(build, {name: file(name, body) for name, body in contents.items()}, file(SHELL, shell))


def file(name: str, body: bytes) -> File:
    suffix = Path(name).suffix
    zipped = gzip.compress(body, 9, mtime=0) if suffix in COMPRESSED else None
    return File(body, zipped, TYPES[suffix], f'"{hashlib.sha256(body).hexdigest()[:24]}"')
