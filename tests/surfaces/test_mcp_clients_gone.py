"""The MCP server over stdio, with clients that send invalid input or disconnect."""

import json
import subprocess

from tests.surfaces.server_harness import PATIENCE_S
from tests.surfaces.shell import Shell
from tests.warm_start import build_command

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
GREETING = (
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}),
    json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
)


def test_bad_lines_and_the_end_of_input_do_no_harm(headway: Shell) -> None:
    lines = [
        *GREETING,
        "not JSON",
        "[]",
        '{"jsonrpc": "2.0", "id": true, "method": "ping"}',
        r'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "todo_add", "arguments": {"subject": "\ud800"}}}',
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "todo_claim", "arguments": {"lease_s": NaN}}}',
        r'{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "todo_add", "arguments": {"subject": "\u0000"}}}',
    ]
    ran = headway.process("mcp", stdin="\n".join([*lines, ""]).encode())

    assert (ran.code, ran.err) == (0, "")
    first, *answers = map(json.loads, ran.out.splitlines())
    assert first["result"]["serverInfo"]["name"] == "headway"
    assert all(answer["jsonrpc"] == "2.0" for answer in answers), "nothing else goes to standard output"
    codes = [answer["error"]["code"] for answer in answers if answer.get("id") is None]
    assert codes == [-32700, -32600, -32600, -32700, -32700], "a lone surrogate is no text, and NaN is no JSON"
    assert headway.json("todo", "list")["todos"] == []


def test_requests_before_the_end_of_input_are_answered(headway: Shell) -> None:
    """Requests sent before the client closes its input are executed and answered, except those it canceled."""
    calls = {n: {"name": "todo_add", "arguments": {"subject": f"todo {n}"}} for n in range(2, 82)}
    requests = [
        json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": parameters}) for n, parameters in calls.items()
    ]
    cancellations = [
        json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}}) for n in (81, 99)
    ]
    ran = headway.process("mcp", stdin="\n".join([*GREETING, *requests, *cancellations, ""]).encode())

    assert (ran.code, ran.err) == (0, "")
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, ran.out.splitlines())}
    assert {1, *calls} - set(answers) <= {81}
    stored = [todo["subject"] for todo in headway.json("todo", "list", "--limit", "200")["todos"]]
    assert {answers[n]["structuredContent"]["todo"]["subject"] for n in calls if n in answers} <= set(stored)


def test_a_client_that_is_gone_is_no_failure(headway: Shell) -> None:
    requests = [json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/list"}) for n in range(2, 10)]
    command = build_command("-m", "headway", "mcp")
    with subprocess.Popen(
        command, cwd=headway.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        server.stdout.close()
        _, errors = server.communicate("\n".join([*GREETING, *requests, ""]), PATIENCE_S)
    assert (server.returncode, "Traceback" in errors) == (0, False), errors
