"""`headway tool`, `headway doctor` and `GET /v1/tools` with MCP servers: one works, one refuses our key, one is not installed."""

import asyncio
import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from headway import settings
from headway.surfaces.log_lines import build_log_redactor
from tests.agents.test_mcp_faults import PLAIN, SILENT
from tests.surfaces.in_process_app import open_app
from tests.surfaces.server_harness import PATIENCE_S
from tests.surfaces.shell import Shell

KEY = "s3cret-header-value"


class RefusingHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sent = self.headers["Authorization"].encode()
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), RefusingHandler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp?token={KEY}"
        server.shutdown()


def write_servers(home: Path, **servers: Any) -> None:
    home.mkdir(exist_ok=True)
    (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def build_plain(home: Path) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-IS", str(PLAIN), f"{home}/calls.log"]}


@pytest.fixture
def shell(headway: Shell, refusing: str) -> Shell:
    home = headway.folder / ".headway"
    remote = {"url": refusing, "headers": {"Authorization": f"Bearer {KEY}"}}
    write_servers(home, plain=build_plain(home), remote=remote, absent={"command": "no-such-program"})
    headway.trust()
    return headway


def test_tools_of_servers_are_listed_and_called(shell: Shell) -> None:
    listed = shell.json("tools", "list", "--server", "plain", "--json")["tools"]
    assert {tool["family"] for tool in listed} == {"mcp:plain"}
    assert {tool["name"]: tool["asks"] for tool in listed}["plain__write"] is False
    assert "plain__read" in shell.ok("tools", "list", "--server", "plain")
    assert shell.ok("tools", "call", "plain__show", "--args", '{"count": "3"}').strip() == '{"count": 3}'
    assert shell("tools", "call", "now").code == 0, "no server is started for a built-in tool"


def test_what_is_wrong_with_a_server_is_said_without_its_secrets(shell: Shell) -> None:
    checked = shell("doctor")
    lines = [line for line in checked.out.splitlines() if " mcp " in line]
    assert checked.code == 1
    assert [line.split()[0] for line in lines] == ["✔", "✕", "✕"]
    assert lines[0].endswith("plain: 6 tools")
    assert lines[1].endswith("The MCP server remote is not available: it answered HTTP 401 Unauthorized.")
    assert "The MCP server absent is not available: " in lines[2]
    assert "no-such-program: No such file or directory" in lines[2]
    called = shell("tools", "call", "remote__add")
    assert called.code == 3
    assert "The MCP server remote is not available: it answered HTTP 401 Unauthorized." in called.err
    assert KEY not in f"{checked}{called}"


def test_a_list_over_http_has_what_is_ready(tmp_path: Path) -> None:
    async def list_tools() -> dict[str, Any]:
        write_servers(tmp_path, plain=build_plain(tmp_path), silent=SILENT, absent={"command": "no-such-program"})
        async with open_app(tmp_path) as (_app, client, _token), asyncio.timeout(PATIENCE_S):
            while True:  # an answer waits two seconds for servers, in which a slow machine starts none
                answer: dict[str, Any] = (await client.get("/v1/tools")).json()
                if [server["name"] for server in answer["servers"] if server["status"] == "starting"] == ["silent"]:
                    return answer

    listed = asyncio.run(list_tools())
    assert {tool["server"] for tool in listed["tools"] if "server" in tool} == {"plain"}
    statuses = {server["name"]: server["status"] for server in listed["servers"]}
    assert statuses == {"plain": "ready", "silent": "starting", "absent": "down"}


def test_secrets_of_servers_are_removed_from_the_log(tmp_path: Path) -> None:
    headers = {"Authorization": "Bearer ${TRACKER_KEY:-k3y-of-the-tracker}"}
    write_servers(tmp_path, tracker={"url": f"https://ada:passw0rd@example.com/mcp?token={KEY}", "headers": headers})
    redact = build_log_redactor(settings.load({"home": str(tmp_path)}))
    assert redact(f"GET /mcp?token={KEY}, wrong key k3y-of-the-tracker, ada:passw0rd") == "GET /mcp?token=…, wrong key …, ada:…"
    (tmp_path / "mcp.json").write_text("{")
    assert build_log_redactor(settings.load({"home": str(tmp_path)})), "the command that reads the file says what is wrong"
