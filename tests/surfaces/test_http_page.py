"""The files of the web page: their URLs, caching, security policy and content."""

import gzip
import hashlib
import json
import posixpath
import re
from pathlib import Path

import httpx
import pytest

from headway.ledger import todo
from headway.surfaces.web import page_routes
from headway.surfaces.web.page_routes import FOLDER, MEDIA_TYPES, load_site
from tests.surfaces.server_harness import LOCAL_OPTIONS, Client, Service, check_problem, client_options
from tests.tables import each_row

SHELL = (FOLDER / "index.html").read_text(encoding="utf-8")
JS = FOLDER / "js"
SCRIPTS = {path.relative_to(JS).as_posix(): path.read_text(encoding="utf-8") for path in JS.rglob("*.js")}
LARGEST_SCRIPT = 300


def get(service: Service, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{service.url}{path}", headers=headers, **LOCAL_OPTIONS)


@each_row(
    "path",
    [
        "/",
        "/c/7",
        "/board",
        "/todos/12",
        "/goals",
        "/goals/7",
        "/inbox",
        "/inbox/7",
        "/files",
        f"/files/{'0' * 32}",
        "/memory",
        "/operations",
        "/operations/queue",
        "/login",
    ],
)
def test_every_page_is_the_same_shell_under_the_strict_policy(sqlite_service: Service, path: str) -> None:
    answer = get(sqlite_service, path)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text == get(sqlite_service, "/").text


def test_answers_of_the_api_keep_their_own_policy(sqlite_client: Client) -> None:
    answer = sqlite_client.get("/v1/todos")

    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert answer.headers["cache-control"] == "no-store"


def test_files_are_kept_for_good_and_compressed_once(sqlite_service: Service) -> None:
    with httpx.Client(**client_options(sqlite_service.url)) as visitor:
        answers = {
            name: [
                visitor.get(f"/static/{load_site().build}/{name}", headers={"Accept-Encoding": encoding})
                for encoding in ("gzip", "identity")
            ]
            for name in load_site().files
        }
    for name, file in load_site().files.items():
        answer, plain = answers[name]

        assert answer.content == plain.content == file.body, name
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-type"] == MEDIA_TYPES[Path(name).suffix]
        assert answer.headers.get("content-encoding") == (None if file.gzipped is None else "gzip")
        assert "content-encoding" not in plain.headers
        if file.gzipped:
            assert gzip.decompress(file.gzipped) == file.body


def test_an_unchanged_file_is_304(sqlite_service: Service) -> None:
    for path in ("/", f"/static/{load_site().build}/js/start.js"):
        etag = get(sqlite_service, path).headers["etag"]
        again = get(sqlite_service, path, **{"If-None-Match": etag})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["older/js/start.js", "{build}/js/none.js", "{build}/index.html", "{build}/../page_routes.py", "{build}/vendor/VENDOR.json"],
)
def test_there_is_no_other_file(sqlite_service: Service, path: str) -> None:
    check_problem(get(sqlite_service, f"/static/{path.format(build=load_site().build)}"), 404, "no_such_path")


def test_an_address_that_does_not_exist_shows_the_page_to_people_and_a_problem_to_programs(sqlite_service: Service) -> None:
    for path in ("/nowhere", "/c/seven", "/goals/x"):
        answer = get(sqlite_service, path, Accept="text/html,*/*")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    for path, accept in (("/nowhere", "application/json"), ("/v1/nowhere", "text/html"), ("/static/x", "text/html")):
        check_problem(get(sqlite_service, path, Accept=accept), 404, "no_such_path")
    posted = httpx.post(f"{sqlite_service.url}/nowhere", headers={"Accept": "text/html"}, **LOCAL_OPTIONS)
    check_problem(posted, 404, "no_such_path")


def test_another_build_is_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("{build}")
    (tmp_path / "one.js").write_text("1")
    monkeypatch.setattr(page_routes, "FOLDER", tmp_path)
    first = load_site.__wrapped__()
    (tmp_path / "one.js").write_text("2")
    second = load_site.__wrapped__()

    assert first.build != second.build
    assert first.shell.body == first.build.encode()
    assert first.shell.etag != second.shell.etag


# Content of the files


def find_imports(name: str) -> set[str]:
    """Return the modules of the page that this module imports statically."""
    matches = re.findall(
        r'^(?:import|export)[^"\n]*(?:\n[^"\n]*)*? from "(\.{1,2}/[\w/]+\.js)"|^import "(\.{1,2}/[\w/]+\.js)"', SCRIPTS[name], re.M
    )
    paths = {posixpath.normpath(posixpath.join(posixpath.dirname(name), first or second)) for first, second in matches}
    return paths & SCRIPTS.keys()


def test_the_shell_names_every_module_that_the_first_one_needs() -> None:
    """Otherwise the browser discovers and loads them one after the other."""
    needed: set[str] = set()
    unvisited = {"start.js"}
    while unvisited:
        needed |= unvisited
        unvisited = {other for name in unvisited for other in find_imports(name)} - needed
    preloaded = set(re.findall(r'rel="modulepreload" href="/static/\{build\}/js/([\w/]+\.js)"', SHELL))

    assert preloaded == needed - {"start.js"}


def test_nothing_in_them_makes_elements_of_text() -> None:
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|style=|dangerously")
    assert {name: forbidden.findall(code) for name, code in SCRIPTS.items() if forbidden.search(code)} == {}


def test_the_page_names_no_other_host() -> None:
    files = [*FOLDER.glob("*.*"), *JS.rglob("*.js"), *(FOLDER / "vendor").rglob("*.js")]
    hosts = {address for file in files for address in re.findall(rb"https?://[\w.-]+", file.read_bytes())}

    assert hosts <= {b"http://www.w3.org", b"https://github.com"}  # the second in warnings of highlight/core.js


def test_modules_are_small() -> None:
    sizes = {name: len(code.splitlines()) for name, code in SCRIPTS.items()}
    assert {name: size for name, size in sizes.items() if size > LARGEST_SCRIPT} == {}


def test_the_board_offers_the_transitions_that_the_ledger_allows() -> None:
    (table,) = re.findall(r"const LEGAL_TRANSITIONS = \{(.*?)\};", SCRIPTS["work/statuses.js"], re.DOTALL)
    offered = {status: tuple(re.findall(r'"(\w+)"', targets)) for status, targets in re.findall(r"(\w+): \[(.*?)\]", table)}

    assert offered == todo.LEGAL_TRANSITIONS


@pytest.mark.parametrize(
    "folder", [FOLDER / "vendor", FOLDER / "vendor" / "highlight", Path(__file__).parent.parent / "browser" / "vendor"]
)
def test_vendored_files_match_their_record_and_have_licences(folder: Path) -> None:
    recorded = json.loads((folder / "VENDOR.json").read_text(encoding="utf-8"))

    assert set(recorded) == {path.name for path in folder.glob("*.js")}
    for name, about in recorded.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == about["sha256"]
        assert (folder / f"LICENSE-{about['package'].replace('/', '-').strip('@')}").stat().st_size > 500
        assert about["version"]
        assert about["licence"]
