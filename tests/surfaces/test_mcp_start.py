"""`headway mcp` answers the handshake and the lists before the server is loaded: cheaply, and exactly as the server does."""

import json
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headway.surfaces.mcp.offer import CATALOGUE_FILE
from headway.surfaces.mcp.tool_metadata import render_catalogue
from tests.surfaces.shell import HEADWAY, Shell

Message = dict[str, Any]

LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "ping")
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
}
UNKNOWN_METHOD = "no/such/method"  # only the server can refuse it, so it is loaded


def build_request(number: int, method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def build_opening(version: str) -> list[Message]:
    """What a client sends before it calls a tool."""
    if version == "2026-07-28":
        methods = ("server/discover", *LISTS)
        return [build_request(n, method, _meta=ENVELOPE) for n, method in enumerate(methods, 1)]
    hello = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": {"name": "x", "version": "1"}}
    return [
        build_request(1, "initialize", **hello),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *(build_request(n, method) for n, method in enumerate(LISTS, 2)),
    ]


def ask(headway: Shell, messages: list[Message], *flags: str) -> dict[int, Message]:
    """Run a session and return its answers by their ids."""
    lines = "".join(f"{json.dumps(message)}\n" for message in messages)
    ran = headway.process("mcp", *flags, stdin=lines.encode())
    assert (ran.code, ran.err) == (0, "")
    answers = [json.loads(line) for line in ran.out.splitlines()]
    return {answer["id"]: answer for answer in answers if "id" in answer}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01"])
def test_early_answers_are_those_of_the_server(headway: Shell, version: str) -> None:
    headway.ok("todo", "add", "look")
    opening = build_opening(version)
    meta = {"_meta": ENVELOPE} if version == "2026-07-28" else {}

    early = ask(headway, opening)
    late = ask(headway, [build_request(0, UNKNOWN_METHOD, **meta), *opening])
    assert late.pop(0)["error"]["code"] == -32601
    assert early == late
    assert [tool["name"] for tool in early[2]["result"]["tools"]][:1] == ["create_todo"]
    assert [found["title"] for found in early[4]["result"]["resources"]][-1] == "look"


def test_what_was_answered_early_holds_for_the_server(headway: Shell) -> None:
    """After the first lists the client calls a tool: its session goes on, and it hears of the change."""
    add = build_request(9, "tools/call", name="todo_add", arguments={"subject": "look"})
    watch = build_request(8, "resources/subscribe", uri="headway://todos/open")
    lines = "".join(f"{json.dumps(message)}\n" for message in [*build_opening("2025-11-25"), watch, add])
    ran = headway.process("mcp", stdin=lines.encode())

    messages = [json.loads(line) for line in ran.out.splitlines()]
    ids = [message["id"] for message in messages if "id" in message]
    assert sorted(ids) == [*range(1, 7), 8, 9], "each request has one answer"
    assert next(message for message in messages if message.get("id") == 9)["result"]["structuredContent"]["todo"]["id"] == 1


def test_the_first_answers_cost_about_as_much_as_listing_todos(headway: Shell) -> None:
    """Claude Code, Codex and the AI SDK give a server about a second. The MCP library alone takes longer to load."""
    headway.ok("todo", "add", "look")
    lines = "".join(f"{json.dumps(message)}\n" for message in build_opening("2025-06-18")).encode()
    headway.process("mcp", stdin=lines)  # compiles the modules

    listing = measure(headway.folder, ["todo", "list"], b"")
    first_answers = measure(headway.folder, ["mcp"], lines)
    assert first_answers < 2 * listing


def measure(folder: Path, arguments: list[str], lines: bytes) -> float:
    """Return the CPU seconds that a process takes: the least of three, because other processes disturb it."""

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        subprocess.run([*HEADWAY, *arguments], cwd=folder, env=env, input=lines, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(run() for _ in range(3))


def test_the_catalogue_is_up_to_date() -> None:
    assert CATALOGUE_FILE.read_text() == render_catalogue(), "run `make docs`"


def test_what_a_tool_file_prints_goes_to_standard_error(headway: Shell) -> None:
    folder = headway.folder / ".headway" / "tools"
    headway.ok("todo", "list")
    folder.mkdir(parents=True)
    (folder / "loud.py").write_text("import os\nprint('printed')\nos.system('echo echoed')\n")
    headway.trust()
    add = build_request(9, "tools/call", name="todo_add", arguments={"subject": "look"})
    lines = "".join(f"{json.dumps(message)}\n" for message in [*build_opening("2025-06-18")[:2], add])
    ran = headway.process("mcp", stdin=lines.encode())

    assert [json.loads(line)["id"] for line in ran.out.splitlines() if '"id"' in line] == [1, 9]
    assert "printed" in ran.err
    assert "echoed" in ran.err


def test_a_server_that_cannot_be_loaded_says_why(headway: Shell) -> None:
    folder = headway.folder / ".headway" / "tools"
    folder.mkdir(parents=True)
    (folder / "broken.py").write_text("1 / 0\n")
    headway.trust()
    add = build_request(9, "tools/call", name="todo_add", arguments={"subject": "look"})
    lines = "".join(f"{json.dumps(message)}\n" for message in [*build_opening("2025-06-18")[:2], add])
    ran = headway.process("mcp", stdin=lines.encode())

    refusal = json.loads(ran.out.splitlines()[-1])
    assert (ran.code, refusal["id"], refusal["error"]["code"]) == (2, 9, -32603)
    assert "broken.py" in refusal["error"]["message"]
    assert "broken.py" in ran.err
