"""The tools of MCP servers as tools of agents, and the content of their results."""

import asyncio
import json
import logging
import math
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from mcp import types

from headway.agents.checks.runner import find_mismatch
from headway.agents.instructions.roles import Role
from headway.agents.mcp.config import SEPARATOR, McpServerConfig
from headway.agents.mcp.servers import Effects, InvalidAnswer, McpServer, OutcomeUnknown
from headway.agents.tools.arguments import AnyArguments, parse_json_text
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import OnEventLoop, Result, Tool, Toolbox, ToolImage
from headway.ledger.errors import Invalid, MissingExtra, NotFound
from headway.ledger.framing import escape_document, escape_frames
from headway.ledger.text import Redactor

IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
IMAGES_LIMIT: Final = 4_000_000  # characters of base64 in one result


class ToolOutput(NamedTuple):
    text: str
    images: tuple[ToolImage, ...] = ()


def to_output(result: types.CallToolResult) -> ToolOutput:
    """Convert a result. Structured content is used where the server sends no text."""
    images: list[ToolImage] = []
    texts = [render_block(block, images) for block in result.content]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return ToolOutput("\n".join(filter(None, texts)), tuple(images))


def render_block(block: types.ContentBlock, images: list[ToolImage]) -> str:
    match block:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(data=data, mime_type=media_type):
            return render_binary(media_type, data, images)
        case types.AudioContent(data=data, mime_type=media_type):
            return f"[{media_type}, {count_bytes(data):,} bytes: not shown]"
        case types.ResourceLink(uri=uri, name=name):
            return f"[resource {name}: {uri}]"
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return text
        case types.EmbeddedResource(resource=types.BlobResourceContents(blob=data, mime_type=media_type, uri=uri)):
            return f"[resource {uri}]\n{render_binary(media_type or 'application/octet-stream', data, images)}"
    return ""


def render_binary(media_type: str, data: str, images: list[ToolImage]) -> str:
    size = f"{media_type}, {count_bytes(data):,} bytes"
    if media_type not in IMAGE_TYPES or sum(len(image.data) for image in images) + len(data) > IMAGES_LIMIT:
        return f"[{size}: not shown]"
    images.append(ToolImage(media_type, data))
    return f"[image {len(images)}: {size}]"


def count_bytes(data: str) -> int:
    """Return the size of base64 data when it is decoded."""
    return len(data) * 3 // 4 - data.count("=", -2)


# The tools of MCP servers as tools of Headway: named SERVER__TOOL, in the family mcp:SERVER.


log = logging.getLogger("headway.mcp")

NAME_LIMIT: Final = 64  # of what model providers accept
DESCRIPTION_LIMIT: Final = 2_000
INVALID_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_-]")


class McpServers:
    """All MCP servers of this process, and their tools in its toolbox."""

    def __init__(self, configs: Sequence[McpServerConfig], toolbox: Toolbox, redact: Redactor) -> None:
        self.toolbox = toolbox
        self.redact = redact
        self.servers = {config.name: McpServer(config, redact, self.follow_change) for config in configs}

    async def prepare(self, role: Role, timeout_s: float | None, only: str | None = None) -> None:
        """Start the servers that the role may use and whose tools are not known yet, all at once, or only one of them.

        Wait for them, but not for one that has failed before: its tools are offered once they are known.
        """
        missing = [
            server
            for name, server in self.servers.items()
            if only in (None, name) and role.grants(server.config.family, "")
            if not server.is_known_down and not self.has_tools(server)
        ]
        awaited = [task for server in missing if (task := server.start()) and not server.failures]
        if awaited:
            await asyncio.wait(awaited, timeout=timeout_s)

    def has_tools(self, server: McpServer) -> bool:
        return server.config.family in self.toolbox.extra

    async def stop(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*(server.stop() for server in self.servers.values()))

    def list_statuses(self) -> list[dict[str, str]]:
        return [{"name": name, "status": server.status} for name, server in self.servers.items()]

    async def restart(self, name: str) -> dict[str, Any]:
        """Make a new connection to a server, and describe it. Raises NotFound."""
        server = self.servers.get(name)
        if server is None:
            raise NotFound(f"There is no MCP server named {name[:80]!r} in mcp.json.")
        await server.restart()
        return self.describe(server)

    def describe_all(self) -> list[dict[str, Any]]:
        return [self.describe(server) for server in self.servers.values()]

    def describe(self, server: McpServer) -> dict[str, Any]:
        """Describe a server to those who run the installation. Arguments, environment and headers may have secrets, so they are
        left out."""
        config = server.config
        tools = self.toolbox.extra.get(config.family, [])
        return {
            "name": config.name,
            "transport": "stdio" if config.command else "http",
            "location": os.path.basename(config.command) if config.command else get_origin(config.url),
            "status": server.status,
            "error": server.error,
            "checked_at": server.checked_at,
            "timeout_s": config.timeout_s,
            "tools": [describe_tool(tool, listed) for tool, listed in pair_tools(tools, server.tools)],
        }

    def follow_change(self, server: McpServer, listed: list[types.Tool] | None) -> None:
        """Offer the tools of a server. If it goes down, its tools stay known, and calling them says why it is down."""
        if server.error:
            log.warning("%s", server.error)
        if listed is None:
            starting = f"The MCP server {server.config.name} is starting. Call the tool again in a moment."
            self.toolbox.missing[f"{server.config.name}{SEPARATOR}"] = server.error or starting
        else:
            self.toolbox.missing.pop(f"{server.config.name}{SEPARATOR}", None)
            self.toolbox.replace_extra(server.config.family, build_tools(server, listed, self.redact))


def get_origin(url: str) -> str:
    """Return scheme, host and port of a URL: the rest of it may have a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def pair_tools(tools: Sequence[Tool], listed: list[types.Tool]) -> Iterator[tuple[Tool, types.Tool]]:
    """Pair the tools of a server with what it said about them. Both lists have the same order."""
    return zip(tools, select_callable(listed), strict=False)


def describe_tool(tool: Tool, listed: types.Tool) -> dict[str, Any]:
    """Describe a tool with the server's hints about it; null where it gives none."""
    hints = listed.annotations or types.ToolAnnotations()
    return {
        "name": tool.name,
        "description": tool.description,
        "read_only": hints.read_only_hint,
        "destructive": hints.destructive_hint,
        "idempotent": hints.idempotent_hint,
        "open_world": hints.open_world_hint,
        "needs_approval": tool.needs_approval,
    }


def build_tools(server: McpServer, listed: list[types.Tool], redact: Redactor) -> list[Tool]:
    """Build the tools of a server. Two whose names differ only in characters that models cannot use get different names."""
    callable_tools = select_callable(listed)
    names = [build_name(server.config.name, tool.name) for tool in callable_tools]
    return [
        build_tool(server, tool, name if names.count(name) == 1 else add_hash(name, tool.name), redact)
        for name, tool in zip(names, callable_tools, strict=True)
    ]


def select_callable(listed: list[types.Tool]) -> list[types.Tool]:
    """Leave out tools that can only run as tasks, whose results must be polled for."""
    return [tool for tool in listed if tool.execution is None or tool.execution.task_support != "required"]


def build_tool(server: McpServer, listed: types.Tool, name: str, redact: Redactor) -> Tool:
    """Build a tool. The server's hints decide whether it may be repeated after a crash, and whether a person must approve it."""
    effects = server.pins.judge(listed)
    schema = escape_document(listed.input_schema, redact)
    return Tool(
        name,
        escape_frames(redact(listed.description or listed.title or listed.name)[:DESCRIPTION_LIMIT]),
        server.config.family,
        AnyArguments,
        run=OnEventLoop(partial(call_server, server, listed, effects, redact)),
        timeout_s=server.config.timeout_s + server.config.start_timeout_s * 2,  # the server's own limits say more
        idempotent=effects.are_repeatable,
        needs_approval=effects.need_approval,
        key_arguments=tuple(get_properties(schema)),
        server=server.config.name,
        schema=schema,
    )


def build_name(server: str, tool: str) -> str:
    """Build the name that models see. A long name is cut, and kept unique by a hash."""
    name = f"{server}{SEPARATOR}{INVALID_CHARACTER.sub('_', tool)}"
    return name if len(name) <= NAME_LIMIT else add_hash(name, tool)


def add_hash(name: str, tool: str) -> str:
    return f"{name[: NAME_LIMIT - 9]}_{sha256(tool.encode()).hexdigest()[:8]}"


async def call_server(
    server: McpServer, listed: types.Tool, effects: Effects, redact: Redactor, _execution: Execution, arguments: AnyArguments
) -> Result:
    values = {name: fit_value(value, listed.input_schema, name) for name, value in (arguments.model_extra or {}).items()}
    try:
        result = await server.call(listed.name, values)
        if listed.output_schema is not None and not result.is_error:
            await check_result(server, result, listed.output_schema)
    except OutcomeUnknown as error:
        if effects.are_repeatable:
            raise
        message = f"{error} It may have taken effect: check before you call it again."
        return Result({"error": message}, is_error=True, is_uncertain=True)
    except InvalidAnswer as error:
        return Result({"error": str(error)}, is_error=True, is_uncertain=not effects.are_repeatable)
    output = to_output(result)
    text = redact(output.text)
    if result.is_error:
        return Result({"error": text or "The tool failed without a message."}, is_error=True)
    return Result(text, is_error=False, images=output.images)


async def check_result(server: McpServer, result: types.CallToolResult, schema: dict[str, Any]) -> None:
    """Raise InvalidAnswer if a result does not fit the schema that the server promised. One that cannot be validated within the
    limits of checks, or with the keywords that they support, is used as it is."""
    canceled = threading.Event()
    try:
        mismatch = await asyncio.to_thread(find_mismatch, result.structured_content, schema, canceled)
    except (Invalid, MissingExtra) as error:
        log.info("a result of the MCP server %s was not validated: %s", server.config.name, error)
        return
    finally:
        canceled.set()  # a process must not go on after its caller was interrupted
    if mismatch:
        raise InvalidAnswer(f"The MCP server {server.config.name} sent an invalid answer: {server.shorten(mismatch)}")


def fit_value(value: Any, schema: dict[str, Any], name: str) -> Any:
    """Convert a text into the list, object or number that the schema asks for: models often send those as text."""
    kinds = set(list_types(get_properties(schema).get(name)))
    if not isinstance(value, str) or "string" in kinds:
        return value
    if kinds & {"array", "object"}:
        return parse_json_text(value, name)
    if "boolean" in kinds and value in ("true", "false"):
        return value == "true"
    for kind, convert in (("integer", int), ("number", float)):
        with suppress(ValueError):
            if kind in kinds and math.isfinite(number := convert(value)):
                return number
    return value


def get_properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def list_types(schema: Any) -> Iterator[str]:
    """List the JSON types that a schema accepts, also in `{"type": ["integer", "null"]}` and in `anyOf`."""
    if not isinstance(schema, dict):
        return
    named, choices = schema.get("type"), schema.get("anyOf")
    yield from (kind for kind in (named if isinstance(named, list) else [named]) if isinstance(kind, str))
    for choice in choices if isinstance(choices, list) else ():
        yield from list_types(choice)


async def check_servers(configs: Sequence[McpServerConfig], redact: Redactor) -> list[tuple[str, int, str]]:
    """Start each server, and return its name, the number of its tools and what is wrong with it."""
    counts: dict[str, int] = {}

    def count_tools(server: McpServer, listed: list[types.Tool] | None) -> None:
        counts[server.config.name] = len(select_callable(listed or []))

    servers = [McpServer(config, redact, count_tools) for config in configs]
    await asyncio.wait([server.start() for server in servers])
    found = [(server.config.name, counts[server.config.name], server.error) for server in servers]
    await asyncio.gather(*(server.stop() for server in servers))
    return found
