"""Logs: one JSON object per line, with the request id and without secrets or content."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from select import select
from subprocess import DEVNULL, PIPE
from typing import Any

import httpx
import pytest

from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import PATIENCE_S, Service, client_options, parse_log_line, run_server, wait_until
from tests.warm_start import Program

SECRET = "hush-hush"


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("talkative")
    with run_server(f"sqlite:///{folder / 'headway.db'}", folder, ("--log-level", "info")) as service:
        yield service


def wait_for_line(service: Service, request_id: str) -> dict[str, Any]:
    """Wait for the single log line of a request and return it."""

    def find_lines() -> list[dict[str, Any]]:
        return [line for line in service.lines() if line.get("request_id") == request_id]

    wait_until(lambda: bool(find_lines()), "the request is logged")
    (line,) = find_lines()
    return line


def test_every_request_is_one_line_with_its_name_route_status_and_time(talkative: Service) -> None:
    with talkative.tenant() as client:
        todo = client.add()
        for request_id, path, route, status in (
            ("good", f"/v1/todos/{todo['id']}", "/v1/todos/{todo_id}", 200),
            ("bad", "/v1/todos/0", "/v1/todos/{todo_id}", 422),
            ("nowhere", "/nowhere", "unmatched", 404),
        ):
            caller = {} if request_id == "nowhere" else {"tenant_id": client.desk.tenant.id, "token_id": client.token_id}
            client.get(path, headers={"X-Request-Id": request_id})
            line = wait_for_line(talkative, request_id)
            assert set(line) == {"at", "level", "logger", "message", "method", "route", "status", "ms", "request_id", *caller}
            assert {name: line[name] for name in caller} == caller
            assert (line["method"], line["route"], line["status"], line["level"]) == ("GET", route, status, "info")
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", line["at"])
            assert 0 <= line["ms"] < 60_000


def fill_pipe(writing: int) -> None:
    for piece in (b"\n" * 4096, b"\n"):
        with suppress(BlockingIOError):
            while True:
                os.write(writing, piece)


def read_until(reading: int, ending: bytes) -> list[str]:
    """Read the lines of a log up to the one that contains this."""
    received = b""
    while not (received.endswith(b"\n") and ending in received):
        assert select([reading], [], [], PATIENCE_S)[0], received
        received += os.read(reading, 65536)
    return [line for line in received.decode().splitlines() if line]


def test_a_log_that_cannot_be_written_gets_no_traceback_and_logging_resumes(tmp_path: Path) -> None:
    """The log is a full pipe that does not make the server wait. Nothing else that the server writes is affected."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    command = ("serve", "--json", "--port", "0", "--log-level", "info", "--database-url", f"sqlite:///{tmp_path / 'headway.db'}")
    with (
        os.fdopen(reading),
        os.fdopen(writing, "wb", buffering=0) as log,
        Program(command, tmp_path, streams=(DEVNULL, PIPE, log)) as process,
    ):
        try:
            assert process.stdout is not None
            with httpx.Client(**client_options(json.loads(process.stdout.readline())["url"])) as client:
                fill_pipe(writing)
                for request_id in (
                    "unwritten",
                    "unwritten too",
                ):
                    assert client.get("/nowhere", headers={"X-Request-Id": request_id}).status_code == 404
                os.read(reading, 65536)
                client.get("/nowhere", headers={"X-Request-Id": "written"})
                lines = read_until(reading, b'"written"')
        finally:
            process.kill()
    assert [parse_log_line(line)["status"] for line in lines if '"written"' in line] == [404]
    assert [parse_log_line(line)["level"] for line in lines] == ["info"] * len(lines)


def test_no_token_cookie_body_or_query_is_ever_logged(talkative: Service) -> None:
    with talkative.tenant() as client, httpx.Client(**client_options(talkative.url)) as browser:
        login = str(talkative.announced["login_url"])
        assert browser.get(login).status_code == 303
        browser.get("/v1/todos", params={"agent_id": SECRET})
        browser.post("/v1/todos", json={"subject": SECRET}, headers={"Origin": "http://evil.example"})
        client.add(SECRET, description=SECRET)
        client.post("/v1/todos", json={"subject": 1, SECRET: SECRET})
        client.post("/v1/todos", content=SECRET.encode())
        client.get(f"/v1/turns/{SECRET}")
        client.get(f"/{SECRET}", params={"token": SECRET})
        client.get("/v1/todos", headers={"Authorization": f"Bearer {SECRET}"})
        client.post("/v1/todos", json={"subject": "x"}, headers={"Idempotency-Key": SECRET})
        with open_stream(client, params={"after": "0"}, headers={"Last-Event-ID": "0"}) as stream:
            stream.take(1)
        client.get("/v1/todos", headers={"X-Request-Id": "the-last"})
        wait_for_line(talkative, "the-last")
        secrets = [client.secret, login.partition("token=")[2], *browser.cookies.values(), SECRET, "evil.example", "after=0"]
    logged = talkative.log.read_text()

    assert len(secrets) == 6
    assert [secret for secret in secrets if secret in logged] == []


def test_looking_at_the_servers_health_is_not_worth_a_line(talkative: Service) -> None:
    with talkative.tenant() as client:
        for path in ("/healthz", "/readyz", "/metrics"):
            client.get(path, headers={"X-Request-Id": "quiet"})
        client.get("/v1/todos", headers={"X-Request-Id": "after-the-quiet"})
    wait_for_line(talkative, "after-the-quiet")

    assert not [line for line in talkative.lines() if line.get("request_id") == "quiet"]


def test_a_server_does_not_log_requests_by_default(tmp_path: Path) -> None:
    with run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path) as service:
        with service.tenant() as client:
            client.add()
            client.get("/nowhere")
        service.end()
        assert service.log.read_text() == ""
