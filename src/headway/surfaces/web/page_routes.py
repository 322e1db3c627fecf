"""Routes that serve the web page and its files. The page gets its data from /v1, like any other client."""

import gzip
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from headway.surfaces.http.problems import Problem
from headway.surfaces.http.routing import HttpRoutes

routes = HttpRoutes()

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
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
CACHE_FOREVER = "public, max-age=31536000, immutable"
ALWAYS_REVALIDATE = "no-cache"
API_PATHS = ("/v1", "/mcp", "/static", "/openapi.json")
NUMBER = re.compile("[0-9]{1,18}")
PATTERNS = {  # of parameters that are not numbers
    "file_id": re.compile("[0-9a-f]{32}"),
    "other": re.compile(r"[\w-]{1,64}"),
    "tab": re.compile("[a-z-]{1,32}"),
    "turn_id": re.compile(r"[\w-]{1,64}"),
}
LISTED_PAGE = re.compile(r'^  "(/[^"]*)": \(\) => import', re.MULTILINE)  # in start.js, which has the page's addresses


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


async def serve_page(request: Request) -> Response:
    """Serve the shell of the page, the same for every path. It contains no data, so it needs no session. Whether
    the id in an address exists, the page finds out itself."""
    parameters = request.path_params
    exists = all(PATTERNS.get(name, NUMBER).fullmatch(value) for name, value in parameters.items())
    return build_shell_response(request, 200 if exists else 404)


def serve_missing_page(request: Request) -> Response | None:
    """Serve the shell for an address that does not exist, if a person opened it in a browser. It says so."""
    is_api = request.url.path.startswith(API_PATHS)
    accepts_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    return build_shell_response(request, 404) if accepts_page and not is_api else None


for path in LISTED_PAGE.findall((FOLDER / "js" / "start.js").read_text(encoding="utf-8")):
    routes.get(path)(serve_page)


@routes.get("/static/{build}/{name:path}")
async def serve_static_file(request: Request) -> Response:
    """Serve a file of the current build. A page of another build gets a 404, and shows that it is out of date."""
    file = load_site().files.get(request.path_params["name"])
    if file is None or request.path_params["build"] != load_site().build:
        raise Problem(404, "no_such_path", "This version of the page has no such file.")
    return build_file_response(request, file, CACHE_FOREVER)


def build_shell_response(request: Request, status: int = 200) -> Response:
    response = build_file_response(request, load_site().shell, ALWAYS_REVALIDATE, status)
    response.headers["Content-Security-Policy"] = PAGE_POLICY  # other files have the API's policy, which is shorter
    return response


def build_file_response(request: Request, file: StaticFile, caching: str, status: int = 200) -> Response:
    headers = {"ETag": file.etag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if status == 200 and request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    if file.gzipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.gzipped, status, {**headers, "Content-Encoding": "gzip"}, file.kind)
    return Response(file.body, status, headers, file.kind)
