"""`headway mcp` answers the handshake, the lists and most calls before the server is loaded: cheaply, and exactly as it does."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from headway.surfaces.mcp.offer import CATALOGUE_FILE
from headway.surfaces.mcp.tool_metadata import render_catalogue
from tests.surfaces.shell import Shell

Message = dict[str, Any]

LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "ping")
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
}
UNKNOWN_METHOD = "no/such/method"  # only the server can refuse it, so it is loaded
LISTEN = "subscriptions/listen"
LOADED_BY_THE_SERVER = ("mcp", "pydantic_ai", "asyncio", "starlette", "opentelemetry")


def build_request(number: int | str, method: str, **params: Any) -> Message:
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
    (headway.folder / ".headway" / "policy.toml").write_text('[[rule]]\ndecision = "deny"\ntool = "todo_claim"\n')
    headway.trust()
    opening = build_opening(version)
    meta = {"_meta": ENVELOPE} if version == "2026-07-28" else {}

    calls = [
        ("todo_list", {}),
        ("todo_list", {"limit": "3", "status": "all", "cursor": None}),
        ("list_todo", {}),
        ("todo_update", {"id": 99, "subject": "x"}),
        ("todo_add", {"subject": " "}),
        ("todo_add", {"colour": "red"}),
        ("start_todo", {}),
        ("todo_claim", {}),
        ("no_such_tool", {}),
        ("ListTasks", {}),
    ]
    opening += [build_request(n, "tools/call", name=name, arguments=given, **meta) for n, (name, given) in enumerate(calls, 20)]
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


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_one_call_of_a_process_loads_neither_the_library_nor_the_model_layer(headway: Shell, version: str) -> None:
    """Adapters start a process for every call, and each would pay for what it loads."""
    meta = {"_meta": ENVELOPE} if version == "2026-07-28" else {}
    calls: list[tuple[str, Message]] = [
        ("create_todo", {"items": [{"title": "one"}, {"title": "two"}]}),
        ("todo_add", {"subject": "look"}),
        ("complete_todo", {"todoId": "1", "outcome": "done"}),
    ]
    requests = [build_request(n, "tools/call", name=name, arguments=given, **meta) for n, (name, given) in enumerate(calls, 20)]
    lists = build_opening(version)[:-1]  # the newest protocol has no ping
    answers, imported = ask_and_list_imports(headway, [*lists, *requests])
    assert [answers[n]["result"]["isError"] for n in (20, 21, 22)] == [False] * 3
    assert imported.isdisjoint(LOADED_BY_THE_SERVER)
    assert {todo["subject"] for todo in headway.json("todo", "list", "--status", "pending")["todos"]} == {"two", "look"}


def test_claude_code_sees_the_tools_in_its_first_request(headway: Shell) -> None:
    """It asks for the lists only after its stream of notifications is acknowledged. Recorded from `claude -p`, version 2.1.327."""
    wishes = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    methods = ("server/discover", "prompts/list", "resources/list", "tools/list")
    messages = [
        build_request("server-discover-probe-1", "server/discover", _meta=ENVELOPE),
        build_request("listen:0", LISTEN, notifications=wishes, _meta=ENVELOPE),
        *(build_request(n, method, _meta=ENVELOPE) for n, method in enumerate(methods)),
    ]
    answers, imported = ask_and_list_imports(headway, messages)
    assert imported.isdisjoint(LOADED_BY_THE_SERVER)
    assert list(answers) == ["server-discover-probe-1", None, 0, 1, 2, 3]
    assert answers[None] == {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": "listen:0"}, "notifications": wishes},
    }
    assert len(answers[3]["result"]["tools"]) == 9


def ask_and_list_imports(headway: Shell, messages: list[Message]) -> tuple[dict[Any, Message], set[str]]:
    """Run a session whose input has ended. Return its messages by their ids, in order, and the libraries that it imported."""
    lines = "".join(f"{json.dumps(message)}\n" for message in messages).encode()
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    command = [sys.executable, "-X", "importtime", "-m", "headway", "mcp"]
    ran = subprocess.run(command, cwd=headway.folder, env=env, input=lines, check=True, capture_output=True)
    received = [json.loads(line) for line in ran.stdout.splitlines()]
    imports = {line.rpartition("|")[2].strip() for line in ran.stderr.decode().splitlines() if line.startswith("import time:")}
    return {message.get("id"): message for message in received}, imports


def test_what_the_operator_allows_the_role_holds_for_early_calls(headway: Shell) -> None:
    headway.ok("todo", "list")
    (headway.folder / ".headway" / "agents").mkdir()
    (headway.folder / ".headway" / "agents" / "index.toml").write_text('tools = ["turn_plan"]\n')
    headway.trust()
    add = build_request(9, "tools/call", name="todo_add", arguments={"subject": "look"})
    assert ask(headway, [*build_opening("2025-11-25"), add])[9]["result"]["isError"]
    assert headway.json("todo", "list")["todos"] == []


def test_a_stream_that_the_client_canceled_is_not_opened(headway: Shell) -> None:
    listen = build_request("L", LISTEN, notifications={"resourcesListChanged": True}, _meta=ENVELOPE)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "L"}}
    last = build_request(9, UNKNOWN_METHOD, _meta=ENVELOPE)
    opening = build_opening("2026-07-28")
    assert ask(headway, [*opening, listen, last]).keys() - {9, "L"} == ask(headway, [*opening, listen, cancel, last]).keys() - {9}


def test_the_catalogue_is_up_to_date() -> None:
    assert CATALOGUE_FILE.read_text() == render_catalogue(), "run `make docs`"


def test_what_a_tool_file_prints_goes_to_standard_error(headway: Shell) -> None:
    folder = headway.folder / ".headway" / "tools"
    headway.ok("todo", "list")
    folder.mkdir(parents=True)
    (folder / "loud.py").write_text("import os\nprint('printed')\nos.system('echo echoed')\n")
    headway.trust()
    lists = build_request(9, "tools/call", name="ListTasks", arguments={})
    lines = "".join(f"{json.dumps(message)}\n" for message in [*build_opening("2025-06-18")[:2], lists])
    ran = headway.process("mcp", "--tools", "tasks", stdin=lines.encode())

    assert [json.loads(line)["id"] for line in ran.out.splitlines() if '"id"' in line] == [1, 9]
    assert "printed" in ran.err
    assert "echoed" in ran.err


def test_a_server_that_cannot_be_loaded_says_why(headway: Shell) -> None:
    folder = headway.folder / ".headway" / "tools"
    folder.mkdir(parents=True)
    (folder / "broken.py").write_text("1 / 0\n")
    headway.trust()
    lists = build_request(9, "tools/call", name="ListTasks", arguments={})
    lines = "".join(f"{json.dumps(message)}\n" for message in [*build_opening("2025-06-18")[:2], lists])
    ran = headway.process("mcp", "--tools", "tasks", stdin=lines.encode())

    refusal = json.loads(ran.out.splitlines()[-1])
    assert (ran.code, refusal["id"], refusal["error"]["code"]) == (2, 9, -32603)
    assert "broken.py" in refusal["error"]["message"]
    assert "broken.py" in ran.err
