"""An MCP server for tests, started as a program: `python sample_mcp_server.py LOG`. It writes each call into the log.

With a port as second argument it serves HTTP, to clients that send `Authorization: Bearer $API_KEY`.
"""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import types
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

LOG = Path(sys.argv[1])
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6364f8cf500f0003860180"
    "5a347d6b0000000049454e44ae426082"
)
READ_ONLY = types.ToolAnnotations(read_only_hint=True)
HARMLESS = types.ToolAnnotations(destructive_hint=False)

server = MCPServer("sample")


def record(name: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{name}\n")


@server.tool(annotations=READ_ONLY)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    record("add")
    return str(a + b)


@server.tool()
def erase(name: str) -> str:
    """Erase a thing."""
    record(f"erase {name}")
    return f"erased {name}"


@server.tool(annotations=HARMLESS)
def show_key() -> str:
    """Show the server's key."""
    return os.environ["API_KEY"]


@server.tool(annotations=READ_ONLY)
def paint() -> Image:
    """Paint a pixel."""
    return Image(data=PIXEL, format="png")


@server.tool(annotations=READ_ONLY)
def read_once_dead() -> str:
    """Die at the first call, and answer at the second."""
    record("read")
    if LOG.read_text().count("read\n") == 1:
        os._exit(1)
    return "alive"


@server.tool(annotations=HARMLESS)
def die() -> str:
    """Die."""
    record("die")
    os._exit(1)


@server.tool(annotations=READ_ONLY)
async def wait() -> str:
    """Wait for a file beside the log."""
    record("wait")
    while not LOG.with_name("go").exists():
        await anyio.sleep(0.02)
    return "waited"


@server.tool(annotations=HARMLESS)
async def learn(context: Context) -> str:
    """Learn another tool."""
    server.add_tool(add, "learned", description="Add two numbers, too.", annotations=READ_ONLY)
    await context.notify_tools_changed()
    return "learned"


@server.tool(annotations=READ_ONLY)
def fail() -> str:
    """Fail."""
    raise ToolError("a bad thing")


async def refuse_strangers(scope: Any, receive: Any, send: Any) -> None:
    """Refuse requests without the key, and quote what they sent instead, as careless servers do."""
    sent = dict(scope.get("headers", ())).get(b"authorization", b"")
    if scope["type"] == "http" and sent != f"Bearer {os.environ['API_KEY']}".encode():
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"wrong key: " + sent})
    else:
        await app(scope, receive, send)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        server.run("stdio")
    else:
        app = server.streamable_http_app()
        LOG.with_name("pid").write_text(str(os.getpid()))
        uvicorn.run(refuse_strangers, port=int(sys.argv[2]), log_level="warning", timeout_graceful_shutdown=1)
