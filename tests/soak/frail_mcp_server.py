"""An MCP server whose process dies in every other call: `python -IS frail_mcp_server.py LOG`. It notes a call before it answers."""

import json
import os
import sys
from pathlib import Path
from typing import Any

LOG = Path(sys.argv[1])
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOOLS = [
    {"name": name, "description": "Note a name.", "inputSchema": SCHEMA, "annotations": {"destructiveHint": False}}
    for name in ("mcp", "die")
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "frail", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/call":
        with LOG.open("a") as log:
            log.write(f"{params['arguments']['name']}\n")
        if params["name"] == "die":
            os._exit(1)
        return {"content": [{"type": "text", "text": "noted"}]}
    return {"tools": TOOLS}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
