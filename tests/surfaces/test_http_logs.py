"""Logs: one JSON object per line, with the request id and without secrets or content."""

import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import Service, client_options, run_server, wait_until

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


def test_a_log_that_cannot_be_written_gets_no_traceback_and_logging_resumes(tmp_path: Path) -> None:
    with (
        run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path, ("--log-level", "info")) as service,
        service.tenant() as client,
    ):
        client.ok("GET", "/v1/tools")  # answers when the agents are loaded, which writes a temporary file
        before = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        assert client.get("/v1/todos", headers={"X-Request-Id": "unwritten"}).status_code == 200
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, before)
        client.get("/v1/todos", headers={"X-Request-Id": "written"})
        assert wait_for_line(service, "written")["status"] == 200  # `lines()` parses every line of the log as JSON


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
