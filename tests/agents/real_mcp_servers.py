"""MCP servers written by others, and one Headway whose agents use them all."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import psutil

from headway.actions.installation import tenants
from headway.actions.todos import conversations
from headway.agents.mcp.config import START_TIMEOUT_S
from tests.agents.turn_harness import PATIENCE_S, Talk, in_order, open_talk
from tests.model_server import Reply, calls, text
from tests.npm_packages import install_packages

PAGE = "The Rhine is long.\n" * 4_000  # plain text, because the server takes seconds to simplify HTML of this length
POLICY = '[[rule]]\ntool = "files__write_file"\ndecision = "allow"\n'
WATCHMAKER = 'prompt = "You are the watchmaker."\ntools = ["mcp:time"]\n'

PROGRAMS = Path(sys.executable).parent
TIME_SERVER: dict[str, Any] = {
    "command": str(PROGRAMS / "mcp-server-time"),
    "args": ["--local-timezone", "UTC"],
    "start_timeout_s": PATIENCE_S,
}


def build_servers(folder: Path) -> dict[str, Any]:
    """Return the servers in the form of mcp.json, with their files in this folder."""
    scripts = install_packages("mcp_servers") / "node_modules" / ".bin"
    return {
        "files": {"command": str(scripts / "mcp-server-filesystem"), "args": [str(folder / "files")]},
        "memory": {"command": str(scripts / "mcp-server-memory"), "env": {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}},
        "everything": {"command": str(scripts / "mcp-server-everything")},
        "git": {"command": str(PROGRAMS / "mcp-server-git"), "args": ["--repository", str(folder / "repository")]},
        "time": TIME_SERVER,
        "fetch": {"command": str(PROGRAMS / "mcp-server-fetch"), "args": ["--ignore-robots-txt", "--allow-private-ips"]},
    }


def create_repository(folder: Path) -> None:
    """Create a repository with one commit and a file that is not tracked."""
    folder.mkdir()
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    (folder / "first.txt").write_text("first\n")
    for command in (("init", "-q", "-b", "main"), ("add", "first.txt"), (*who, "commit", "-q", "-m", "Add the first file")):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    (folder / "second.txt").write_text("second\n")


class PageHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve_page() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), PageHandler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def open_shared_talk(folder: Path, ledger: Path) -> Iterator[Talk]:
    """Open a Headway with all servers, which start together."""
    home = folder / "home"
    (home / "agents").mkdir(parents=True)
    (folder / "files").mkdir()
    create_repository(folder / "repository")
    (home / "mcp.json").write_text(json.dumps({"mcpServers": build_servers(folder)}))
    (home / "policy.toml").write_text(POLICY)
    (home / "agents" / "watchmaker.toml").write_text(WATCHMAKER)
    shutil.copy(ledger, home / "headway.db")
    with open_talk(f"sqlite:///{home / 'headway.db'}", home, text("")) as talk:
        talk.wait(talk.headway.prepare_tools(talk.headway.roles.find("index"), START_TIMEOUT_S))
        yield talk


def begin_anew(talk: Talk) -> None:
    """Give a test its own tenant and conversation in the shared Headway."""
    talk.server.forget()
    talk.tenant_id = talk.database.write(lambda tx: tenants.add_tenant(tx, uuid4().hex)).id
    talk.conversation_id = talk.database.write(lambda tx: conversations.add_conversation(tx, talk.tenant_id)).id


def use(talk: Talk, *made: tuple[str, Mapping[str, Any]]) -> list[str]:
    """Have the model make these calls, one answer each, and return their results as the model gets them."""
    talk.server.script = in_order(*(calls((name, dict(arguments))) for name, arguments in made), Reply("Done."))
    assert talk.say()["outcome"] == "answered"
    return [result.content for result in talk.requests[-1].tool_results[-len(made) :]]


def find_process(part: str) -> psutil.Process:
    """Find the child process of this test whose command line contains a text."""
    (found,) = [child for child in psutil.Process().children(recursive=True) if any(part in word for word in child.cmdline())]
    return found
