"""docs/nginx-cells.conf sends requests to the right cell, in front of servers that answer as cells do."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cells.proxy import run_nginx
from tests.surfaces.server_harness import client_options

CELLS = ("eu1", "eu2", "eu-3")
SECRET = "A_b-" * 10 + "xyz"  # 43 characters
LARGE = b"0123456789" * 200_000  # more than nginx keeps in memory


class CellHandler(BaseHTTPRequestHandler):
    """Answers with what it got, or with 421 if the tenant of the token has left this cell."""

    protocol_version = "HTTP/1.1"
    cell = ""
    departed: Mapping[str, str] = {}  # by path: a cell that has moved on

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/stream":
            self.stream()
            return
        target = self.departed.get(self.path)
        seen = {"cell": self.cell, "method": self.command, "path": self.path, "size": len(body), "sound": body in (b"", LARGE)}
        forwarded = {name: self.headers.get(name) for name in ("host", "x-forwarded-for", "x-forwarded-proto")}
        answer = json.dumps({**seen, **forwarded, "code": "wrong_cell" if target else ""}).encode()
        self.send_response(421 if target else 200)
        if target:
            self.send_header("Headway-Cell", target)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def stream(self) -> None:
        """Send one event, and the next one when another request asks for it."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("X-Accel-Buffering", "no")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"data: 1\n\n")
        self.wfile.flush()
        assert SECOND_EVENT.wait(30)
        self.wfile.write(b"data: 2\n\n")
        self.close_connection = True


SECOND_EVENT = threading.Event()
# Both moves began in eu1. The proxy does not know eu9, and two cells send /lost to each other.
DEPARTED = {
    "eu1": {"/moved": "eu2", "/moved-twice?x=%2F": "eu2", "/away": "eu9", "/lost": "eu2"},
    "eu2": {"/moved-twice?x=%2F": "eu-3", "/lost": "eu1"},
    "eu-3": {},
}


@contextmanager
def run_cell(name: str) -> Iterator[str]:
    handler = type("Handler", (CellHandler,), {"cell": name, "departed": DEPARTED[name]})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("nginx")
    with ExitStack() as stack:
        addresses = {name: stack.enter_context(run_cell(name)) for name in CELLS}
        url = stack.enter_context(run_nginx(folder, addresses))
        yield stack.enter_context(httpx.Client(**client_options(url)))


def ask(proxy: httpx.Client, path: str = "/v1/todos", *, token: str = "", cookie: str = "", body: bytes = b"") -> httpx.Response:
    headers = {**({"Authorization": token} if token else {}), **({"Cookie": cookie} if cookie else {})}
    return proxy.request("POST" if body else "GET", path, headers=headers, content=body)


@pytest.mark.parametrize(
    ("token", "cookie", "cell"),
    [
        ("", "", "eu1"),
        (f"Bearer hw_{SECRET}", "", "eu1"),  # from before the cells
        (f"Bearer hw_eu2_{SECRET}", "", "eu2"),
        (f"bearer  hw_eu-3_{SECRET}", "", "eu-3"),
        (f"Bearer hw_eu9_{SECRET}", "", "eu1"),  # a cell that does not exist
        (f"Bearer hw_eu2_{SECRET}x", "", "eu1"),  # not a token
        ("", f"headway_session=hw_eu2_{SECRET}", "eu2"),
        ("", f"theme=dark; __Host-headway_session=hw_eu-3_{SECRET}; headway_session=hw_eu2_{SECRET}", "eu-3"),
        ("", f"other_headway_session=hw_eu2_{SECRET}", "eu1"),
        (f"Bearer hw_eu2_{SECRET}", f"headway_session=hw_eu-3_{SECRET}", "eu2"),  # as Headway prefers it
        (f"Bearer hw_{SECRET}", f"headway_session=hw_eu-3_{SECRET}", "eu1"),
    ],
)
def test_a_request_reaches_the_cell_that_its_token_names(proxy: httpx.Client, token: str, cookie: str, cell: str) -> None:
    assert ask(proxy, token=token, cookie=cookie).json()["cell"] == cell


def test_the_cell_learns_who_asked_and_how(proxy: httpx.Client) -> None:
    seen = ask(proxy, "/v1/todos?status=pending&q=%2F").json()
    assert seen["path"] == "/v1/todos?status=pending&q=%2F"
    assert (seen["host"], seen["x-forwarded-for"], seen["x-forwarded-proto"]) == (
        proxy.base_url.netloc.decode(),
        "127.0.0.1",
        "http",
    )


@pytest.mark.parametrize(("path", "cell"), [("/moved", "eu2"), ("/moved-twice?x=%2F", "eu-3")])
@pytest.mark.parametrize("body", [b"", LARGE])
def test_a_request_that_is_answered_with_421_is_sent_on_with_its_body(
    proxy: httpx.Client, path: str, cell: str, body: bytes
) -> None:
    answer = ask(proxy, path, token=f"Bearer hw_eu1_{SECRET}", body=body)
    seen = answer.json()
    assert (answer.status_code, seen["cell"], seen["path"]) == (200, cell, path)
    assert (seen["method"], seen["size"], seen["sound"]) == ("POST" if body else "GET", len(body), True)


def test_an_unknown_cell_is_reported(proxy: httpx.Client) -> None:
    answer = ask(proxy, "/away")
    assert (answer.status_code, answer.json()["code"]) == (502, "unknown_cell")
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_request_is_not_sent_in_a_circle(proxy: httpx.Client) -> None:
    answer = ask(proxy, "/lost")
    assert (answer.status_code, answer.json()["cell"], answer.json()["code"]) == (421, "eu1", "wrong_cell")


def test_events_are_passed_on_at_once(proxy: httpx.Client) -> None:
    SECOND_EVENT.clear()
    with proxy.stream("GET", "/stream") as answer:
        events = answer.iter_raw()
        assert next(events) == b"data: 1\n\n"  # the second one is not sent before this one has arrived
        SECOND_EVENT.set()
        assert b"".join(events) == b"data: 2\n\n"
