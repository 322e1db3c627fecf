"""Rate and size limits, and the headers that every response has."""

import asyncio
import gzip
import json
import re
import socket
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from headway.actions.access import tokens
from headway.surfaces.http.middleware import HttpMetrics, RequestResponse
from tests.surfaces.event_stream import open_stream
from tests.surfaces.in_process_app import limit_to, open_app
from tests.surfaces.server_harness import LOCAL_OPTIONS, PATIENCE_S, Client, Service, check_problem

RATE = 600
COMMON_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def test_a_token_over_its_rate_limit_must_wait_and_others_need_not(tmp_path: Path) -> None:
    async def run_scenario() -> tuple[list[httpx.Response], httpx.Response]:
        async with open_app(tmp_path) as (app, client, token):
            app.admission.tokens = limit_to(3)
            calm = await app.headway.database.write(lambda tx: tokens.create_token(tx, token.token.tenant_id))
            hasty_answers = [await client.get("/v1/session") for _ in range(5)]
            return hasty_answers, await client.get("/v1/session", headers={"Authorization": f"Bearer {calm.secret}"})

    answers, calm_answer = asyncio.run(run_scenario())
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    check_problem(answers[-1], 429, "rate_limited")
    assert (answers[-1].headers["ratelimit-limit"], answers[-1].headers["ratelimit-remaining"]) == ("1", "0")
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert calm_answer.status_code == 200


def test_every_answer_to_a_token_says_how_much_is_left(sqlite_client: Client) -> None:
    for answer in (sqlite_client.get("/v1/todos"), sqlite_client.get("/v1/todos/0"), sqlite_client.post("/v1/todos", json={})):
        assert answer.headers["ratelimit-limit"] == str(RATE)
        assert 0 < int(answer.headers["ratelimit-remaining"]) < RATE
        assert answer.headers["ratelimit-reset"] == "1"


def test_a_large_answer_is_compressed_for_clients_that_accept_it(client: Client) -> None:
    client.ok("POST", "/v1/todos", 201, json={"todos": [{"subject": f"number {n}"} for n in range(100)]})
    plain = client.get("/v1/todos", params={"limit": 100}, headers={"Accept-Encoding": "identity"})
    with client.stream("GET", "/v1/todos", params={"limit": 100}, headers={"Accept-Encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())

    assert answer.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert len(raw) < len(plain.content) / 5
    assert gzip.decompress(raw) == plain.content
    assert "content-encoding" not in client.get("/v1/todos/ready", params={"limit": 1}).headers


def test_every_answer_has_security_headers(sqlite_client: Client, sqlite_service: Service) -> None:
    stranger = httpx.get(f"{sqlite_service.url}/v1/todos", **LOCAL_OPTIONS)
    responses = [
        sqlite_client.get("/v1/todos"),
        sqlite_client.post("/v1/todos", json={"subject": "x"}),
        sqlite_client.post("/v1/todos/claim", json={"agent_id": "ada", "conversation_id": sqlite_client.conversation()}),
        sqlite_client.post("/v1/todos/claim", json={"agent_id": "ada"}),
        sqlite_client.get("/v1/todos/999999999999999"),
        sqlite_client.get("/nowhere"),
        sqlite_client.put("/v1/todos"),
        sqlite_client.post("/v1/todos", content=b"nonsense"),
        sqlite_client.post("/v1/todos", content=b" " * 2_000_000),
        sqlite_client.get("/openapi.json"),
        sqlite_client.get("/metrics"),
        sqlite_client.get("/healthz"),
        stranger,
    ]
    with open_stream(sqlite_client) as stream:
        responses.append(stream.answer)

    assert {answer.status_code for answer in responses} == {200, 201, 204, 400, 401, 404, 405, 413}
    for answer in responses:
        assert {name: answer.headers.get(name) for name in COMMON_HEADERS} == COMMON_HEADERS, answer.request.url
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in answer.headers
        assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])


def test_no_answer_allows_cross_origin_reads(sqlite_client: Client) -> None:
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "*"}
    for path in ("/v1/todos", "/mcp", "/openapi.json", "/metrics", "/login", "/"):
        for method in ("OPTIONS", "GET"):
            answer = sqlite_client.request(method, path, headers=preflight)
            assert [name for name in answer.headers if name.startswith("access-control-")] == [], (method, path)
            assert method == "GET" or answer.status_code == 405, path


async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise ValueError("/home/ada/headway.db: no such table")


def test_an_internal_error_names_its_request_and_not_its_cause(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run_scenario() -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            sent.append(message)

        async with open_app(tmp_path) as (app, _, _):
            scope = {"type": "http", "method": "GET", "path": "/v1/todos", "headers": [(b"x-request-id", b"mine")]}
            await RequestResponse(scope, send, [], HttpMetrics(), app.admission).run(broken, receive)
        return sent

    start, body = asyncio.run(run_scenario())
    assert start["status"] == 500
    assert json.loads(body["body"])["detail"] == "Internal error. The server's log has the details of request mine."
    assert "headway.db" not in f"{start} {body}"
    assert "no such table" in caplog.text


def test_a_request_keeps_its_id_if_it_is_well_formed(sqlite_client: Client) -> None:
    for name in ("from-the-proxy.7", "x" * 64):
        assert sqlite_client.get("/v1/todos", headers={"X-Request-Id": name}).headers["x-request-id"] == name
    names = {
        sqlite_client.get("/v1/todos", headers={"X-Request-Id": name}).headers["x-request-id"]
        for name in ("", "x" * 65, "with space", 'quote"', "a\tb", "<script>")
    }
    assert len(names) == 6
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in names)


def test_a_body_that_does_not_arrive_is_408(tmp_path: Path) -> None:
    """The test expires the 30-second deadline as soon as the first chunk has arrived."""

    async def run_scenario() -> list[MutableMapping[str, Any]]:
        async with open_app(tmp_path) as (app, _, token):
            headers = [(b"authorization", f"Bearer {token.secret}".encode()), (b"content-type", b"application/json")]
            scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/todos", "query_string": b"", "headers": headers}
            pieces = [{"type": "http.request", "body": b'{"subject": ', "more_body": True}]
            sent: list[MutableMapping[str, Any]] = []

            async def receive() -> dict[str, Any]:
                if pieces:
                    return pieces.pop()
                scope["headway.deadline"].reschedule(asyncio.get_running_loop().time())
                await asyncio.Event().wait()
                raise AssertionError("unreachable")

            async def send(message: MutableMapping[str, Any]) -> None:
                sent.append(message)

            await asyncio.wait_for(app(scope, receive, send), 30)
            return sent

    start, body = asyncio.run(run_scenario())
    assert start["status"] == 408
    assert json.loads(body["body"])["code"] == "slow_body"


@pytest.mark.parametrize(
    "request_line", [b"nonsense\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"]
)
def test_input_that_is_not_http_is_400_and_ends_the_connection(sqlite_service: Service, request_line: bytes) -> None:
    address = urlsplit(sqlite_service.url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as connection:
        connection.sendall(request_line)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("beginning", [b"GET /healthz HTTP/1.1\r\nX-Endless: ", b"GET /healthz?endless="])
def test_a_head_without_end_is_refused(sqlite_service: Service, beginning: bytes) -> None:
    address = urlsplit(sqlite_service.url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as connection:
        connection.sendall(beginning)
        with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012  the client sees the reset only after some more writes
            for _ in range(1_000):
                connection.sendall(b"x" * 65536)
    assert httpx.get(f"{sqlite_service.url}/healthz", **LOCAL_OPTIONS).status_code == 200


def test_a_large_head_is_served(sqlite_client: Client) -> None:
    for _ in range(3):
        assert sqlite_client.get("/v1/todos", headers={"X-Large": "x" * 50_000}).status_code == 200
