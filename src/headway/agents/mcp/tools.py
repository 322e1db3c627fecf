"""The tools of MCP servers as tools of Headway: named SERVER__TOOL, in the family mcp:SERVER."""

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar, Final

from mcp import types
from pydantic import ConfigDict

from headway.agents.instructions.roles import Role
from headway.agents.mcp.config import McpServerConfig
from headway.agents.mcp.content import to_output
from headway.agents.mcp.servers import McpServer, ServerDied
from headway.agents.tools.arguments import Arguments, parse_json_text
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import Result, Tool, Toolbox
from headway.ledger.errors import HeadwayError
from headway.ledger.redaction import Redactor

log = logging.getLogger("headway.mcp")

NAME_LIMIT: Final = 64  # of what model providers accept
DESCRIPTION_LIMIT: Final = 2_000
INVALID_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_-]")
CALL_TIMEOUT_S: Final = 300.0
NUMBER_TYPES: Final = {"integer": int, "number": float}


class McpArguments(Arguments):
    """The arguments of an MCP tool. The server checks them against its own schema."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    @classmethod
    def takes_json(cls, name: str) -> bool:
        return False


class McpServers:
    """All MCP servers of this process, and their tools in its toolbox."""

    def __init__(self, configs: Sequence[McpServerConfig], toolbox: Toolbox, redact: Redactor) -> None:
        self.toolbox = toolbox
        self.redact = redact
        self.servers = {config.name: McpServer(config, redact, self.replace_tools) for config in configs}

    async def prepare(self, role: Role) -> None:
        """Connect to the servers that the role may use and whose tools are not known yet, all at once."""
        missing = [
            server
            for server in self.servers.values()
            if role.grants(server.config.family, "") and not server.is_known_down and not self.has_tools(server)
        ]
        if missing:
            await asyncio.gather(*(self.connect(server) for server in missing))

    async def connect(self, server: McpServer) -> None:
        try:
            await server.connect()
        except HeadwayError as error:
            log.warning("%s", error)

    def has_tools(self, server: McpServer) -> bool:
        return server.config.family in self.toolbox.extra

    async def stop(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*(server.stop() for server in self.servers.values()))

    def replace_tools(self, config: McpServerConfig, listed: list[types.Tool]) -> None:
        server = self.servers[config.name]
        self.toolbox.replace_extra(config.family, [build_tool(server, tool, self.redact) for tool in listed])


def build_tool(server: McpServer, listed: types.Tool, redact: Redactor) -> Tool:
    """Build a tool. The server's hints decide whether it may be repeated after a crash, and whether a person must approve it."""
    hints = listed.annotations or types.ToolAnnotations()
    is_read_only = bool(hints.read_only_hint)
    return Tool(
        build_name(server.config.name, listed.name),
        (listed.description or listed.title or listed.name)[:DESCRIPTION_LIMIT],
        server.config.family,
        McpArguments,
        on_event_loop=partial(call_server, server, listed, redact),
        timeout_s=CALL_TIMEOUT_S,
        idempotent=is_read_only or bool(hints.idempotent_hint),
        needs_approval=not is_read_only and hints.destructive_hint is not False,
        key_arguments=tuple(listed.input_schema.get("properties") or ()),
        server=server.config.name,
        schema=listed.input_schema,
    )


def build_name(server: str, tool: str) -> str:
    """Build the name that models see. A long name is cut, and kept unique by a hash."""
    name = f"{server}__{INVALID_CHARACTER.sub('_', tool)}"
    return name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 9]}_{sha256(tool.encode()).hexdigest()[:8]}"


async def call_server(
    server: McpServer, listed: types.Tool, redact: Redactor, _execution: Execution, arguments: McpArguments
) -> Result:
    hints = listed.annotations or types.ToolAnnotations()
    values = {name: fit_value(value, listed.input_schema, name) for name, value in (arguments.model_extra or {}).items()}
    try:
        result = await server.call(listed.name, values)
    except ServerDied as error:
        if hints.read_only_hint or hints.idempotent_hint:
            raise
        message = f"{error} It may have taken effect: check before you call it again."
        return Result({"error": message}, is_error=True, is_uncertain=True)
    output = to_output(result)
    text = redact(output.text)
    if result.is_error:
        return Result({"error": text or "The tool failed without a message."}, is_error=True)
    return Result(text, is_error=False, images=output.images)


def fit_value(value: Any, schema: dict[str, Any], name: str) -> Any:
    """Convert a text into the list, object or number that the schema asks for: models often send those as text."""
    kind = (schema.get("properties") or {}).get(name, {}).get("type")
    if not isinstance(value, str):
        return value
    if kind in ("array", "object"):
        return parse_json_text(value, name)
    if kind in NUMBER_TYPES:
        with suppress(ValueError):
            return NUMBER_TYPES[kind](value)
    return value


async def check_servers(configs: Sequence[McpServerConfig], redact: Redactor) -> list[tuple[str, int, str]]:
    """Start each server, and return its name, the number of its tools and what is wrong with it."""
    toolbox = Toolbox(())
    servers = McpServers(configs, toolbox, redact)
    await asyncio.gather(*(server.connect() for server in servers.servers.values()), return_exceptions=True)
    found = [(name, len(toolbox.extra.get(server.config.family, ())), server.error) for name, server in servers.servers.items()]
    await servers.stop()
    return found
