"""Malicious requests: each gets a 4xx response quickly, and the server keeps serving."""

import gzip
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.surfaces.server_harness import PATIENCE_S, Client
from tests.tables import each_row

KINDS = {"Content-Type": "application/json"}
DEEP = 400_000


def build_bodies() -> dict[str, tuple[bytes, dict[str, str]]]:
    """Not when this file is imported: all together have megabytes, and every test worker imports it."""
    return {
        "lists in lists": (b"[" * DEEP, KINDS),
        "lists in lists, closed": (b"[" * DEEP + b"]" * DEEP, KINDS),
        "objects in objects": (b'{"a":' * 200_000, KINDS),
        "deep below a field": (b'{"subject": ' + b"[" * DEEP + b"]" * DEEP + b"}", KINDS),
        "a hundred thousand names": (json.dumps(dict.fromkeys((f"k{n}" for n in range(80_000)), 1)).encode(), KINDS),
        "the same name again and again": (b"{" + b'"a":1,' * 150_000 + b'"a":1}', KINDS),
        "a number without end": (b'{"subject": "x", "position": ' + b"9" * 1_000_000 + b"}", KINDS),
        "a compressed bomb": (gzip.compress(b"[" * 50_000_000), {**KINDS, "Content-Encoding": "gzip"}),
        "a form": (b"--x\r\n" + b"y" * 900_000, {"Content-Type": "multipart/form-data; boundary=x"}),
        "another alphabet": ('{"subject": "x"}'.encode("utf-16"), {"Content-Type": "application/json; charset=utf-16"}),
        "deep in the arguments of a tool": (b'{"arguments": {"subject": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}", KINDS),
        "bytes that are no text": (b'{"subject": "\xff\xfe"}', KINDS),
        "a zero that takes two bytes": (b'{"subject": "\xc0\x80"}', KINDS),
        "half a character in bytes": (b'{"subject": "\xed\xa0\x80"}', KINDS),
        "a zero in a text": (b'{"subject": "a\\u0000b", "arguments": {"subject": "a\\u0000b"}}', KINDS),
        "numbers that nobody has": (b'{"subject": "x", "position": 1e999999, "arguments": {"position": -1e400}}', KINDS),
        "text behind the end": (b'{"subject": "x"} {"subject": "y"}', KINDS),
        "a mark in front": (b'\xef\xbb\xbf{"nonsense": "x"}', KINDS),
        "escapes of half a character": (b'{"subject": "' + b"\\ud800" * 100_000 + b'"}', KINDS),
    }


def test_a_body_that_was_made_to_break_something_is_refused(sqlite_client: Client) -> None:
    wrong = []
    for name, (body, headers) in build_bodies().items():
        for path in ("/v1/todos", "/v1/goals", "/v1/tools/todo_add", "/mcp"):
            answer = sqlite_client.post(path, content=body, headers={**headers, "Accept": "application/json, text/event-stream"})
            if not 400 <= answer.status_code < 500 or len(answer.text) >= 4_000:
                wrong.append((name, path, answer.status_code, answer.text[:200]))
    assert wrong == []
    assert sqlite_client.subjects() == []


@pytest.mark.parametrize(
    "headers",
    [{"X-HTTP-Method-Override": "DELETE"}, {"X-HTTP-Method": "DELETE"}, {"X-Method-Override": "DELETE"}],
    ids=lambda headers: next(iter(headers)),
)
def test_no_header_makes_another_method_of_a_request(sqlite_client: Client, headers: dict[str, str]) -> None:
    todo = sqlite_client.add("stays")
    sqlite_client.get(f"/v1/todos/{todo['id']}", headers=headers)
    sqlite_client.post(f"/v1/todos/{todo['id']}", headers=headers, json={"_method": "DELETE"})
    assert sqlite_client.subjects() == ["stays"]


@each_row(
    "path",
    [
        "/v1/todos/1%2F..%2F2",
        "/v1/todos/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/schedules/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/v1/todos/%00",
        "/static/%2e%2e/%2e%2e/%2e%2e/settings.py",
        "/static/x/..%2f..%2f..%2fassembly.py",
        "/static//etc/passwd",
        "/static/x/%5c..%5c..%5cassembly.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//v1/todos",
        "/v1//todos",
        "/V1/todos",
        "/v1/todos;x=1",
        "/v1/todos%0d%0aX-Injected:%20yes",
    ],
)
def test_a_path_that_was_bent_leads_nowhere(sqlite_client: Client, path: str) -> None:
    answer = send_raw(
        sqlite_client,
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {sqlite_client.secret}\r\nConnection: close\r\n\r\n",
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1][:1] == b"4", (path, head)
    assert b"x-injected" not in head.lower()
    assert b"root:" not in body
    assert b"import " not in body


SMUGGLED = "GET /v1/session HTTP/1.1\r\nHost: x\r\n\r\n"


@each_row(
    "head",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 50",
        "Content-Length: +5",
        "Content-Length: 5, 50",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding : chunked",
        "Content-Length: 0x5",
    ],
)
def test_no_second_request_hides_in_the_first(sqlite_client: Client, head: str) -> None:
    """However a proxy interprets such a head, the server sees one request at most."""
    bearer = f"Authorization: Bearer {sqlite_client.secret}\r\nContent-Type: application/json"
    answer = send_raw(sqlite_client, f"POST /v1/todos HTTP/1.1\r\nHost: x\r\n{bearer}\r\n{head}\r\n\r\n0\r\n\r\n{SMUGGLED}")
    statuses = [line.split()[1] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert all(status[:1] == b"4" for status in statuses), (head, answer)
    assert b'"tenant"' not in answer


def test_a_header_cannot_be_folded_into_another(sqlite_client: Client) -> None:
    for value in ("x\r\n X-Injected: yes", "x\rX-Injected: yes", "x\nX-Injected: yes", "x\0y"):
        answer = send_raw(sqlite_client, f"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: {value}\r\nConnection: close\r\n\r\n")
        assert b"x-injected" not in answer.partition(b"\r\n\r\n")[0].lower(), (value, answer)
    assert sqlite_client.get("/healthz").status_code == 200


def send_raw(client: Client, request: str) -> bytes:
    """Send a request verbatim and return everything received. Without `Connection: close`, shut down the sending side."""
    address = urlsplit(str(client.base_url))
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as connection:
        connection.sendall(request.encode())
        if "Connection: close" not in request:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(receive_chunks(connection))


def receive_chunks(connection: socket.socket) -> Iterator[bytes]:
    while chunk := connection.recv(65536):
        yield chunk
