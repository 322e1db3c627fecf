"""MCP servers over HTTP: one of our own that wants a key, and one that others wrote, which keeps sessions."""

import json
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headway.surfaces.log_lines import PlainLogFormatter
from tests.agents.real_mcp_servers import use
from tests.agents.test_mcp_client import KEY, SERVER
from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.free_ports import find_ports
from tests.model_server import calls, text
from tests.npm_packages import install_packages
from tests.surfaces.server_harness import wait_until
from tests.warm_start import build_command

ADD = ("sample__add", {"a": 1, "b": 2})


class HttpServer:
    """A server program on a port of its own, which can be killed and started again."""

    def __init__(self, *command: str, pid_file: Path | None = None, **env: str) -> None:
        """`pid_file` holds the id of the server, if the command only starts it."""
        self.pid_file = pid_file
        self.port = find_ports()
        self.command = [word.replace("PORT", str(self.port)) for word in command]
        self.env = {**os.environ, **env, "PORT": str(self.port)}
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_until_ready(self) -> None:
        wait_until(self.answers, f"the server on port {self.port} answers")

    def answers(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self.process.poll() is None:
            os.kill(int(self.pid_file.read_text()) if self.pid_file else self.process.pid, signal.SIGKILL)
            self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()
        self.wait_until_ready()


class Servers:
    """Both servers, and the log of the first."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "calls.log"
        everything = install_packages("mcp_servers") / "node_modules" / ".bin" / "mcp-server-everything"
        command = [*build_command(str(SERVER)), str(self.log), "PORT"]
        self.sample = HttpServer(*command, pid_file=folder / "pid", API_KEY=KEY)
        self.everything = HttpServer(str(everything), "streamableHttp")

    def restart(self) -> None:
        for server in (self.sample, self.everything):
            server.kill()
            server.start()
        for server in (self.sample, self.everything):
            server.wait_until_ready()

    def list_calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(tmp_path_factory.mktemp("servers"))
    with ExitStack() as stack:
        for server in (found.sample, found.everything):
            stack.callback(server.kill)
            server.wait_until_ready()
        yield found


@pytest.fixture
def servers(started: Servers) -> Servers:
    if started.sample.process.poll() is not None:  # the test before has killed it
        started.sample.restart()
    started.log.unlink(missing_ok=True)
    started.log.with_name("go").unlink(missing_ok=True)
    return started


@contextmanager
def open_http_talk(url: str, home: Path, servers: Servers, key: str = KEY) -> Iterator[Talk]:
    sample = {"url": servers.sample.url, "headers": {"Authorization": f"Bearer {key}"}}
    named = {"sample": sample, "everything": {"url": servers.everything.url}}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": named}))
    with open_talk(url, home, text("Done.")) as talk:
        yield talk


def list_states(talk: Talk) -> list[str]:
    return [effect.state for effect in talk.effects()]


def test_servers_are_called_and_found_again_on_the_same_port(sqlite_url: str, tmp_path: Path, servers: Servers) -> None:
    with open_http_talk(sqlite_url, tmp_path, servers) as talk:
        assert use(talk, ADD, ("everything__echo", {"message": "hi"})) == ["3", "Echo: hi"]
        servers.restart()  # the second one does not know our session any more
        assert use(talk, ADD, ("everything__echo", {"message": "hi"})) == ["3", "Echo: hi"]
        assert set(list_states(talk)) == {"succeeded"}
        assert servers.list_calls() == ["add", "add"]


def test_a_read_is_repeated_after_the_server_was_killed(sqlite_url: str, tmp_path: Path, servers: Servers) -> None:
    with open_http_talk(sqlite_url, tmp_path, servers) as talk:
        talk.server.script = in_order(calls(("sample__wait", {})), text("Done."))

        async def kill_during_call() -> None:
            task = await talk.begin()
            await talk.until(lambda: servers.list_calls() == ["wait"])
            servers.sample.kill()  # until the new one is ready, nothing else happens in this process
            servers.log.with_name("go").touch()
            servers.sample.start()
            servers.sample.wait_until_ready()
            await talk.wait_until_ended(task)

        talk.wait(kill_during_call())
        assert talk.requests[-1].tool_results[-1].content == "waited"
        assert servers.list_calls() == ["wait", "wait"]
        assert list_states(talk) == ["succeeded"]


def test_a_write_is_unknown_after_the_server_died_and_then_it_is_gone(sqlite_url: str, tmp_path: Path, servers: Servers) -> None:
    with open_http_talk(sqlite_url, tmp_path, servers) as talk:
        (unknown,) = use(talk, ("sample__die", {}))
        servers.sample.process.wait()  # a dying process closes its connections before its port
        (gone,) = use(talk, ("sample__die", {}))
        assert "It may have taken effect" in unknown
        assert "The MCP server sample is not available: there is no connection to 127.0.0.1" in gone
        assert servers.list_calls() == ["die"]
        assert list_states(talk) == ["unknown", "failed"]


def test_a_wrong_key_is_a_clear_result_and_no_secret_gets_out(
    sqlite_url: str, tmp_path: Path, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with open_http_talk(sqlite_url, tmp_path, servers, key="wr0ng-k3y") as talk:
        (result,) = use(talk, ADD)
        assert "The MCP server sample is not available: it answered HTTP 401 Unauthorized." in result
        (echo,) = use(talk, ("everything__echo", {"message": "Is it wr0ng-k3y?"}))
        assert echo == "Echo: Is it …?"
        results = [result.content for request in talk.requests for result in request.tool_results]
        effects = [effect.result for effect in talk.effects()]
        assert "wr0ng" not in f"{results}{effects}{talk.events('tool_result')}{talk.headway.mcp.servers['sample'].error}"
    assert "wr0ng" not in "\n".join(map(PlainLogFormatter(talk.headway.redact).format, caplog.records))
