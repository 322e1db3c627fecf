"""The files of the web page, read and compressed once.

They are served under a path that contains a hash of their content, so browsers may cache them forever: a new build has a new path.
Imports between modules are relative and stay within that path.
"""

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "static"
SHELL_NAME: Final = "index.html"
MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
COMPRESSIBLE_SUFFIXES: Final = (".css", ".html", ".js", ".svg")


class StaticFile(NamedTuple):
    body: bytes
    gzipped: bytes | None
    kind: str
    etag: str


class StaticSite(NamedTuple):
    build: str
    files: dict[str, StaticFile]
    shell: StaticFile


@cache
def load_site() -> StaticSite:
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in MEDIA_TYPES)
    contents = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}
    digest = hashlib.sha256()
    for name, body in contents.items():
        digest.update(name.encode() + b"\0" + body)
    build = digest.hexdigest()[:12]
    shell = contents.pop(SHELL_NAME).replace(b"{build}", build.encode())
    return StaticSite(build, {name: build_file(name, body) for name, body in contents.items()}, build_file(SHELL_NAME, shell))


def build_file(name: str, body: bytes) -> StaticFile:
    suffix = Path(name).suffix
    zipped = gzip.compress(body, 9, mtime=0) if suffix in COMPRESSIBLE_SUFFIXES else None
    return StaticFile(body, zipped, MEDIA_TYPES[suffix], f'"{hashlib.sha256(body).hexdigest()[:24]}"')
