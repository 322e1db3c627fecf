"""Connections to MCP servers. A server starts when it is first used, is shared by all runs, and is started again if it dies."""

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib.metadata import version
from typing import IO, Any, Final

import anyio
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CONNECTION_CLOSED

from headway.agents.mcp.config import McpServerConfig
from headway.ledger.errors import Invalid, OutOfReach
from headway.ledger.redaction import Redactor
from headway.ledger.text import to_one_line

log = logging.getLogger("headway.mcp")

START_TIMEOUT_S: Final = 30.0
RETRY_AFTER_S: Final = 30.0  # a server that did not start is left alone for this long
TOOLS_LIMIT: Final = 500
PAGES_LIMIT: Final = 50
ERROR_LIMIT: Final = 500
STDERR_LIMIT: Final = 2_000

OnTools = Callable[[McpServerConfig, list[types.Tool]], None]


class ServerDied(ConnectionError):
    """The connection was lost while a call was being made, so whether the call took effect is unknown."""


class McpServer:
    """One server and the task that owns the connection to it."""

    def __init__(self, config: McpServerConfig, redact: Redactor, on_tools: OnTools) -> None:
        self.config = config
        self.redact = redact
        self.on_tools = on_tools
        self.starting = asyncio.Lock()
        self.client: Client | None = None
        self.task: asyncio.Task[None] | None = None
        self.stopping = asyncio.Event()
        self.changed = asyncio.Event()
        self.error = ""
        self.failed_at = 0.0

    @property
    def is_known_down(self) -> bool:
        """Whether the server failed to start a moment ago."""
        return bool(self.error) and time.monotonic() - self.failed_at < RETRY_AFTER_S

    async def connect(self) -> Client:
        """Return the connection, made first if there is none. Raises OutOfReach if the server does not start in time."""
        async with self.starting:
            if self.client is not None:
                return self.client
            if self.is_known_down:
                raise OutOfReach(self.error)
            await self.stop()
            self.stopping.clear()
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            self.task = asyncio.create_task(self.own_connection(ready), name=f"mcp {self.config.name}")
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    client = await asyncio.shield(ready)
            except TimeoutError:
                self.record_failure(f"it did not answer within {START_TIMEOUT_S:g} s")
                await self.stop()
                raise OutOfReach(self.error) from None
            self.error = ""
            return client

    async def call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a tool. Raises OutOfReach if the call was certainly not made, and ServerDied if that is unknown."""
        client = await self.connect()
        try:
            return await client.call_tool(tool, arguments)
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                raise ServerDied(f"The MCP server {self.config.name} ended during the call.") from None
            raise Invalid(f"The MCP server {self.config.name} refused the call: {self.shorten(error.error.message)}") from None
        except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise ServerDied(f"The connection to the MCP server {self.config.name} was lost during the call.") from None

    async def stop(self) -> None:
        """Close the connection, and with it the process of a server that we started."""
        task, self.task = self.task, None
        self.stopping.set()
        if task is not None:
            with suppress(asyncio.CancelledError):
                await task

    async def own_connection(self, ready: "asyncio.Future[Client]") -> None:
        """Hold the connection open until it ends or must stop. The task that opens it must also close it."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
            try:
                async with self.open_client(stderr) as client:
                    self.on_tools(self.config, await list_tools(client))
                    self.client = client
                    ready.set_result(client)
                    await self.follow_changes(client)
            except Exception as error:  # noqa: BLE001  transports raise anything, often in groups
                reason = self.describe(error, stderr)
                self.record_failure(reason)
                if not ready.done():
                    ready.set_exception(OutOfReach(self.error))
                elif not self.stopping.is_set():
                    log.warning("MCP server %s: %s", self.config.name, reason)
            finally:
                self.client = None

    @asynccontextmanager
    async def open_client(self, stderr: IO[str]) -> AsyncIterator[Client]:
        info = types.Implementation(name="headway", version=version("headway"))
        config = self.config
        if config.command:
            parameters = StdioServerParameters(
                command=config.command, args=list(config.args), env=dict(config.env), cwd=config.cwd or None
            )
            async with self.open_session(stdio_client(parameters, stderr), info) as client:  # type: ignore[arg-type]
                yield client
            return
        async with (
            create_mcp_http_client(headers=dict(config.headers)) as http_client,
            self.open_session(streamable_http_client(config.url, http_client=http_client), info) as client,
        ):
            yield client

    @asynccontextmanager
    async def open_session(self, transport: AbstractAsyncContextManager[Any], info: types.Implementation) -> AsyncIterator[Client]:
        watched = watch_end(transport, self.notice_end)
        async with Client(watched, client_info=info, message_handler=self.handle_message) as client:
            yield client

    def notice_end(self) -> None:
        """The server closed the connection: the next call starts it again."""
        self.client = None
        self.stopping.set()

    async def handle_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()

    async def follow_changes(self, client: Client) -> None:
        """List the tools again whenever the server says that they have changed, until the connection ends."""
        async with asyncio.TaskGroup() as tasks:
            listener = tasks.create_task(self.listen(client))
            stop = asyncio.create_task(self.stopping.wait())
            while not self.stopping.is_set():
                change = asyncio.create_task(self.changed.wait())
                await asyncio.wait((stop, change), return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if self.changed.is_set() and not self.stopping.is_set():
                    self.changed.clear()
                    self.on_tools(self.config, await list_tools(client))
            listener.cancel()
            stop.cancel()

    async def listen(self, client: Client) -> None:
        """Follow changes on a connection that announces them only to those who listen. Older servers announce them anyway."""
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError):
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    self.changed.set()

    def record_failure(self, reason: str) -> None:
        self.error = f"The MCP server {self.config.name} is not available: {reason}."
        self.failed_at = time.monotonic()

    def describe(self, error: BaseException, stderr: IO[str]) -> str:
        """Describe why the server did not start, with the last line that it printed."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        reason = self.shorten(str(error)).rstrip(".") or type(error).__name__
        with suppress(OSError, ValueError):
            stderr.seek(0)
            lines = stderr.read()[-STDERR_LIMIT:].strip().splitlines()
            if lines:
                return f"{reason} ({self.shorten(lines[-1])})"
        return reason

    def shorten(self, text: str) -> str:
        return to_one_line(self.redact(text))[:ERROR_LIMIT]


@asynccontextmanager
async def watch_end(transport: AbstractAsyncContextManager[Any], on_end: Callable[[], None]) -> AsyncIterator[Any]:
    """Call `on_end` as soon as the other side closes the connection, so that no call is sent into it."""
    async with transport as (messages, outgoing), anyio.create_task_group() as tasks:
        sender, receiver = anyio.create_memory_object_stream[Any](0)

        async def forward() -> None:
            async with sender:
                with suppress(anyio.BrokenResourceError):
                    async for message in messages:
                        await sender.send(message)
            on_end()

        tasks.start_soon(forward)
        yield receiver, outgoing
        tasks.cancel_scope.cancel()


async def list_tools(client: Client) -> list[types.Tool]:
    """List all tools of a server, page by page."""
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(PAGES_LIMIT):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) >= TOOLS_LIMIT:
            break
    return tools[:TOOLS_LIMIT]
