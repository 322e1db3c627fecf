"""A small MCP server for tests of faults, which starts at once: `python -IS plain_mcp_server.py LOG TOOL...`. It needs no library.

It speaks the older protocol over its standard streams, one call after the other, and writes each call into the log.
Of the named tools, nothing is known but their names.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

LOG = Path(sys.argv[1])
KEY = os.environ.get("API_KEY", "")
READ, WRITE = {"readOnlyHint": True}, {"destructiveHint": False}
NOTHING = {"type": "object"}
SHOWN = {
    "count": {"type": ["integer", "null"]},
    "ratio": {"type": "number"},
    "loud": {"type": "boolean"},
    "names": {"type": "array"},
    "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "free": True,
}
TOOLS = [
    {"name": "read", "description": "Read, once there is a file beside the log.", "inputSchema": NOTHING, "annotations": READ},
    {"name": "write", "description": "Write, once there is a file beside the log.", "inputSchema": NOTHING, "annotations": WRITE},
    {"name": "lie", "inputSchema": NOTHING, "annotations": WRITE, "outputSchema": {"type": "object", "required": ["n"]}},
    {
        "name": "show",
        "description": f"Show the arguments to the holder of {KEY}.",
        "inputSchema": {"type": "object", "properties": SHOWN, "title": KEY},
        "annotations": READ,
    },
    {"name": "twin.a", "inputSchema": NOTHING, "annotations": READ},
    {"name": "twin/a", "inputSchema": NOTHING, "annotations": READ},
    *({"name": name, "inputSchema": NOTHING} for name in sys.argv[2:]),
]


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with LOG.open("a") as log:
        log.write(f"{name}\n")
    if name in ("read", "write"):
        while not LOG.with_name("go").exists():  # it does not notice that its input has ended
            time.sleep(0.01)
    answer: dict[str, Any] = {"content": [{"type": "text", "text": json.dumps(arguments) if name == "show" else f"{name} done"}]}
    return {**answer, "structuredContent": {}} if name == "lie" else answer


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": "plain", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        outcome = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
