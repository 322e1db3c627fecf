"""`headway serve`: startup, output, refused addresses and shutdown."""

import json
import os
import signal
import socket
from pathlib import Path

import httpx
import pytest

from headway.actions.access import local_tenant
from headway.actions.runs import notices
from headway.actions.runs.notices import NoticeSubject
from headway.storage.direct import DirectDatabase
from tests.surfaces.server_harness import LOCAL_OPTIONS, PATIENCE_S, Service, run_server
from tests.surfaces.shell import Shell, get_error_line
from tests.warm_start import Program


def test_serve_prints_its_address_as_soon_as_it_answers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'headway.db'}"
    with run_server(url, tmp_path) as service:
        announced = service.announced

        assert announced == {
            "url": service.url,
            "login_url": announced["login_url"],
            "database": url,
            "home": announced["home"],
            "model": "rehearsal",
        }
        assert announced["login_url"].startswith(f"{service.url}/login?token=")
        assert service.url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{service.url}/healthz", **LOCAL_OPTIONS).status_code == 200


def test_serve_prints_its_address_in_a_sentence_without_json(headway: Shell) -> None:
    with Program(("serve", "--port", "0"), headway.folder) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(8)]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    whole = "".join(lines)

    assert "/login?token=" in whole
    assert "(works once)" in whole
    assert f"sqlite:///{headway.ledger}" in whole
    assert f"  home      {headway.folder}/.headway\n" in lines
    assert f"  files     {headway.folder}/.headway/workspace  (" in whole
    assert "not an LLM" in whole
    assert lines[-1] == "  stop with Ctrl-C\n"


def test_the_home_is_for_its_owner_alone_and_has_the_port(new_database_url: str, tmp_path: Path) -> None:
    with run_server(new_database_url, tmp_path) as service:
        home = Path(service.announced["home"])
        assert home.stat().st_mode & 0o777 == 0o700
        assert (home / "serve.port").read_text() == f"{service.url.rpartition(':')[2]}\n"


def test_serve_creates_the_bootstrap_token_once_and_keeps_it_revoked(new_database_url: str, tmp_path: Path) -> None:
    secret = f"hw_{'b' * 43}"
    headers = {"Authorization": f"Bearer {secret}"}
    for start, host in enumerate(["0.0.0.0", "0.0.0.0", "127.0.0.1"]):
        with run_server(new_database_url, tmp_path, ["--host", host], {"HEADWAY_BOOTSTRAP_TOKEN": secret}) as service:
            tokens = f"{service.url.replace('0.0.0.0', '127.0.0.1')}/v1/tokens"
            answer = httpx.get(tokens, headers=headers, **LOCAL_OPTIONS)
            if start == 2:
                assert answer.status_code == 401
                continue
            (token,) = answer.json()["tokens"]
            assert (token["label"], token["scopes"][-1]) == ("bootstrap", "operator")
            if start == 1:
                assert httpx.delete(f"{tokens}/{token['id']}", headers=headers, **LOCAL_OPTIONS).status_code == 200


@pytest.mark.parametrize("secret", ["hw_short", "b" * 46, f"hw_{'b' * 42}!"])
def test_a_bootstrap_token_of_another_form_is_refused_and_not_shown(
    headway: Shell, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("HEADWAY_BOOTSTRAP_TOKEN", secret)
    error = get_error_line(headway.loaded("serve", "--port", "0"), 2)

    assert "HEADWAY_BOOTSTRAP_TOKEN must be hw_ and 43" in error
    assert secret not in error


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_another_address_is_refused_while_there_are_no_tokens(headway: Shell, host: str) -> None:
    error = get_error_line(headway.loaded("serve", "--port", "0", "--host", host), 2)

    assert host in error
    assert "headway token add" in error


def test_with_a_token_it_listens_on_another_address_and_prints_no_link(headway: Shell) -> None:
    token = headway.json("token", "new")["token"]
    database_url = f"sqlite:///{headway.ledger}"
    headway.ok("goal", "add", "reach it", "--no-wait")
    headway.ok("goal", "abandon", "1")
    with DirectDatabase(database_url) as database:
        database.write(
            lambda tx: notices.notify(tx, local_tenant.ensure_local(tx).id, "decision", "Look.", NoticeSubject(goal_id=1))
        )
    with socket.create_server(("127.0.0.1", 0)) as channel:
        channel.settimeout(PATIENCE_S)
        environment = {"HEADWAY_NOTIFY": f"json://127.0.0.1:{channel.getsockname()[1]}"}
        with run_server(database_url, headway.folder, ("--host", "0.0.0.0"), environment) as service:
            check_listens_without_link(service, token)
            assert f"Look.\\nhttp://127.0.0.1:{service.url.rpartition(':')[2]}/goals/1" in receive_notification(channel)


def receive_notification(channel: socket.socket) -> str:
    """Receive one notification from the server and return it."""
    connection, _ = channel.accept()
    with connection:
        received = b""
        while not received.rstrip().endswith(b"}"):
            more = connection.recv(65536)
            assert more, received
            received += more
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    return received.decode()


def check_listens_without_link(service: Service, token: str) -> None:
    assert service.announced["login_url"] is None
    url = service.url.replace("0.0.0.0", "127.0.0.1")
    assert httpx.get(f"{url}/login?token=", **LOCAL_OPTIONS).status_code == 401
    answer = httpx.get(f"{url}/v1/todos", headers={"Authorization": f"Bearer {token}"}, **LOCAL_OPTIONS)
    assert answer.status_code == 200


def test_a_token_that_was_revoked_does_not_count(headway: Shell) -> None:
    headway.ok("token", "revoke", str(headway.json("token", "new")["id"]))

    get_error_line(headway.loaded("serve", "--port", "0", "--host", "0.0.0.0"), 2)


def test_a_port_that_is_taken_is_named(headway: Shell, sqlite_service: Service) -> None:
    port = sqlite_service.url.rpartition(":")[2]
    error = get_error_line(headway.loaded("serve", "--port", port), 1)

    assert f"127.0.0.1:{port}" in error
    assert "--port" in error


def test_a_host_that_is_nowhere_is_not_a_matter_of_ports(headway: Shell) -> None:
    headway.ok("token", "new")
    error = get_error_line(headway.loaded("serve", "--host", "nohost.invalid"), 1)
    assert error.endswith("Try another --host.")


@pytest.mark.parametrize("port", ["65536", "http"])
def test_a_port_is_a_number(headway: Shell, port: str) -> None:
    assert "HEADWAY_PORT" in get_error_line(headway.loaded("serve", "--port", port), 2)


def test_a_database_that_is_not_there_is_a_sentence(headway: Shell) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"postgresql://nobody:secret@127.0.0.1:{free.getsockname()[1]}/none"
        error = get_error_line(headway.loaded("serve", "--port", "0", "--database-url", url), 1)

    assert "Postgres cannot be reached" in error
    assert "secret" not in error


def test_no_password_is_shown(tmp_path: Path, kept_postgres_url: str) -> None:
    with run_server(f"{kept_postgres_url}{'&' if '?' in kept_postgres_url else '?'}password=hidden", tmp_path) as service:
        assert "hidden" not in json.dumps(service.announced)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_cleanly(tmp_path: Path, database_url: str, by: signal.Signals) -> None:
    with run_server(database_url, tmp_path) as service:
        assert service.end(by).code == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(service.url, **LOCAL_OPTIONS)
        assert service.log.read_text() == ""
    assert not any(name.endswith("-wal") and os.path.getsize(tmp_path / name) for name in os.listdir(tmp_path))


def test_the_port_is_free_again_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'headway.db'}"
    with run_server(url, tmp_path) as first:
        port = first.url.rpartition(":")[2]
        assert httpx.get(f"{first.url}/healthz", **LOCAL_OPTIONS).status_code == 200
        first.end()
        with run_server(url, tmp_path, ("--port", port)) as second:
            assert second.url == first.url
