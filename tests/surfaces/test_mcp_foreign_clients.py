"""The MCP server, tested with the clients of other people: the TypeScript SDK and the official conformance suite."""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.npm_packages import TESTS, install_packages
from tests.surfaces.server_harness import PATIENCE_S, Client
from tests.surfaces.test_mcp import CATALOGUE
from tests.warm_start import build_command

FOLDER = "mcp_clients"


def run_node(script: Path, *arguments: str, shim: str = "") -> subprocess.CompletedProcess[str]:
    node = shutil.which("node")
    assert node
    options = ["--import", shim] if shim else []
    return subprocess.run([node, *options, str(script), *arguments], capture_output=True, text=True, timeout=PATIENCE_S)


def test_every_tool_works_with_the_typescript_sdk(tmp_path: Path) -> None:
    """It refuses results that do not match the output schema of their tool."""
    packages = install_packages(FOLDER)
    script = shutil.copy(TESTS / FOLDER / "call_every_tool.mjs", packages)  # so that it finds its packages
    command = build_command("-m", "headway", "mcp", "--tools", "all")
    ran = run_node(Path(script), json.dumps(command), str(tmp_path))

    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["tools"] == CATALOGUE
    assert answer["results"].keys() == set(CATALOGUE)
    for name, result in answer["results"].items():
        assert not result.get("isError"), (name, result)
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert answer["refused"]["isError"] is True


@pytest.fixture
def open_address(sqlite_client: Client) -> Iterator[str]:
    """An address that needs no token, because the conformance suite has none: a proxy adds it."""

    class Proxy(BaseHTTPRequestHandler):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {**dict(self.headers.items()), "Authorization": f"Bearer {sqlite_client.secret}"}
            answer = httpx.request(self.command, f"{sqlite_client.base_url}{self.path}", content=body, headers=headers)
            self.send_response(answer.status_code)
            for name in ("content-type", "allow"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = forward

        def log_message(self, *_parts: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@pytest.mark.compatibility
def test_the_conformance_suite_finds_no_fault(open_address: str) -> None:
    packages = install_packages(FOLDER)
    suite = packages / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    arguments = ["server", "--url", open_address, "--expected-failures", str(TESTS / FOLDER / "expected_failures.yml")]
    ran = run_node(suite, *arguments, shim=str(TESTS / FOLDER / "shim.mjs"))

    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = set(re.findall(r"✓ ([a-z0-9-]+)", ran.stdout))
    assert {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"} <= passed
