"""Connections to MCP servers. A server starts when it is first used, is shared by all runs, and is started again if it dies."""

import asyncio
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from hashlib import sha256
from http import HTTPStatus
from importlib.metadata import version
from typing import IO, Any, Final, NamedTuple

import anyio
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import CONNECTION_CLOSED

from headway.agents.mcp.config import McpServerConfig, ServerStatus
from headway.agents.mcp.transports import FAILURES, MESSAGE_LIMIT, TOOLS_LIMIT, HttpFailure, build_http_client, open_stdio, trim
from headway.ledger.errors import Invalid, OutOfReach
from headway.ledger.text import Redactor, to_one_line

log = logging.getLogger("headway.mcp")

LAUNCHER: Final = os.path.join(os.path.dirname(__file__), "launcher.py")

STOP_TIMEOUT_S: Final = 10.0
RETRY_AFTER_S: Final = 2.0  # a server that did not start is left alone for this long, and each time for twice as long
MAX_RETRY_AFTER_S: Final = 300.0
LISTEN_AGAIN_S: Final = 5.0
PAGES_LIMIT: Final = 50
ERROR_LIMIT: Final = 500
STDERR_LIMIT: Final = 2_000
LOST_SESSION: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)  # what servers answer that do not know a session

OnChange = Callable[["McpServer", list[types.Tool] | None], None]


class OutcomeUnknown(ConnectionError):
    """The server died or did not answer in time, so whether the call took effect is unknown."""


class InvalidAnswer(Exception):
    """The server made the call, and its answer violates the protocol or the schema of the tool, or is too large."""


class SessionLost(Exception):
    """The server has been restarted and does not know our session. The call was not made."""


class McpServer:
    """One server and the task that owns the connection to it."""

    def __init__(self, config: McpServerConfig, redact: Redactor, on_change: OnChange) -> None:
        self.config = config
        self.redact = redact
        self.on_change = on_change  # called with the tools, or with None if the server starts or is down
        self.client: Client | None = None
        self.opening: asyncio.Task[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.stopping = asyncio.Event()
        self.changed = asyncio.Event()
        self.error = ""
        self.failures = 0  # failed starts in a row
        self.failed_at = 0.0
        self.is_out_of_reach = False  # nothing answers at its address
        self.heard_at = 0.0
        self.checked_at = 0  # when it was last found to be there or not, in epoch seconds
        self.pins = Pins(config.name)
        self.excess = ""  # which limit a message exceeded, for which the connection was closed
        self.tools: list[types.Tool] = []  # as it last listed them

    @property
    def is_known_down(self) -> bool:
        """Whether the server failed to start a moment ago."""
        retry_after_s = min(RETRY_AFTER_S * 2 ** min(self.failures - 1, 10), MAX_RETRY_AFTER_S)
        return bool(self.error) and time.monotonic() - self.failed_at < retry_after_s

    @property
    def status(self) -> ServerStatus:
        if self.client is not None:
            return "ready"
        if self.opening is not None and not self.opening.done():
            return "starting"
        return "down" if self.error else "not_started"

    async def connect(self) -> Client:
        """Return the connection, made first if there is none. Raises Invalid if the server does not start in time."""
        if self.client is None:
            await asyncio.wait([self.start()])
        if self.client is None:
            error = self.error or f"The MCP server {self.config.name} ended as soon as it had started."
            raise OutOfReach(error) if self.is_out_of_reach else Invalid(error)
        return self.client

    def start(self) -> "asyncio.Task[None]":
        """Begin to connect, unless that is under way. A server that failed a moment ago is left alone."""
        if self.opening is None or self.opening.done():
            self.opening = asyncio.create_task(self.open(), name=f"mcp {self.config.name} opening")
        return self.opening

    async def open(self) -> None:
        if self.client is not None or self.is_known_down:
            return
        await self.close()
        self.stopping.clear()
        self.error = self.excess = ""
        self.on_change(self, None)
        ready = asyncio.Event()
        self.task = asyncio.create_task(self.own_connection(ready), name=f"mcp {self.config.name}")
        timeout_s = self.config.start_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await ready.wait()
        except TimeoutError:
            self.record_failure(f"it did not answer within {timeout_s:g} s")
            self.task.cancel()

    async def call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a tool. Raises Invalid if the call was certainly not made, and OutcomeUnknown if that is unknown."""
        with suppress(SessionLost):
            return await self.call_once(tool, arguments)
        try:
            return await self.call_once(tool, arguments)
        except SessionLost as error:
            raise Invalid(f"The MCP server {self.config.name} refused the call: {error}") from None

    async def call_once(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        name, client = self.config.name, await self.connect()
        failures: list[HttpFailure] = []
        token = FAILURES.set(failures)
        began_at = time.monotonic()
        try:
            async with asyncio.timeout(self.config.timeout_s):
                return await client.call_tool(tool, arguments)
        except MCPError as error:
            raise self.convert_error(client, error, failures) from None
        except TimeoutError:
            if self.heard_at < began_at:
                self.abandon(client)  # nobody got an answer meanwhile
            raise OutcomeUnknown(f"The MCP server {name} did not answer within {self.config.timeout_s:g} s.") from None
        except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise OutcomeUnknown(f"The connection to the MCP server {name} was lost during the call.") from None
        except (RuntimeError, ValueError) as error:
            raise InvalidAnswer(f"The MCP server {name} sent an invalid answer: {self.shorten(str(error))}") from None
        finally:
            FAILURES.reset(token)

    def convert_error(self, client: Client, error: MCPError, failures: list[HttpFailure]) -> Exception:
        """Build the error of a call. Over HTTP, the status says whether the call was made."""
        name, message = self.config.name, self.shorten(error.error.message)
        failure = failures[-1] if failures else None
        if failure and not failure.status:
            self.abandon(client)
            return OutOfReach(f"The MCP server {name} is not available: {self.shorten(failure.reason)}.")
        if failure and failure.status in LOST_SESSION and error.error.code != types.INVALID_PARAMS:
            self.abandon(client)
            return SessionLost(f"{self.shorten(failure.reason)} ({message})")
        if failure and failure.was_refused:
            return Invalid(f"The MCP server {name} refused the call: {self.shorten(failure.reason)} ({message})")
        if failure:
            return OutcomeUnknown(f"The MCP server {name} failed during the call: {self.shorten(failure.reason)}.")
        if self.excess:
            return InvalidAnswer(f"The MCP server {name} sent {self.excess}. The connection was closed during the call.")
        if error.error.code == CONNECTION_CLOSED:
            return OutcomeUnknown(f"The MCP server {name} ended during the call.")
        return Invalid(f"The MCP server {name} refused the call: {message}")

    async def stop(self) -> None:
        """Close the connection for good, also one that is being made."""
        if self.opening is not None and not self.opening.done():
            self.opening.cancel()
            await asyncio.wait([self.opening])
            if self.task is not None:
                self.task.cancel()
        await self.close()

    async def close(self) -> None:
        """Close the connection, and with it the process of a server that we started."""
        task, self.task = self.task, None
        self.client = None
        self.stopping.set()
        if task is not None and not (await asyncio.wait([task], timeout=STOP_TIMEOUT_S))[0]:
            task.cancel()
            await asyncio.wait([task])

    async def own_connection(self, ready: asyncio.Event) -> None:
        """Hold the connection open until it ends or must stop. The task that opens it must also close it."""
        failures: list[HttpFailure] = []
        FAILURES.set(failures)
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
            try:
                async with self.open_client(stderr) as client:
                    self.offer(await list_tools(client))
                    self.client, self.error, self.failures = client, "", 0
                    ready.set()
                    failures.clear()  # a server of the older protocol refuses the first request
                    await self.follow_changes(client)
            except Exception as error:  # noqa: BLE001  transports raise anything, often in groups
                if not ready.is_set():
                    self.record_failure(self.describe(error, failures, stderr))
                    self.is_out_of_reach = bool(failures) and not failures[-1].status
                elif not self.stopping.is_set():
                    log.warning("MCP server %s: connection lost: %s", self.config.name, self.describe(error, failures, stderr))
            finally:
                if self.task is asyncio.current_task():
                    self.client = None
                ready.set()

    @asynccontextmanager
    async def open_client(self, stderr: IO[str]) -> AsyncIterator[Client]:
        info = types.Implementation(name="headway", version=version("headway"))
        config = self.config
        if config.command:
            transport = open_stdio(config, build_command(config), stderr, self.notice_excess)
            async with self.open_session(transport, info) as client:
                yield client
            return
        async with (
            build_http_client(dict(config.headers)) as http_client,
            self.open_session(
                streamable_http_client(config.url, http_client=http_client, max_sse_event_size=MESSAGE_LIMIT), info
            ) as client,
        ):
            yield client

    @asynccontextmanager
    async def open_session(self, transport: AbstractAsyncContextManager[Any], info: types.Implementation) -> AsyncIterator[Client]:
        watched = watch(transport, self.notice_message, self.notice_end)
        async with Client(watched, client_info=info, message_handler=self.handle_message) as client:
            client.session.validate_tool_result = leave_validation  # type: ignore[method-assign,assignment]
            yield client

    def notice_message(self) -> None:
        self.heard_at = time.monotonic()

    def notice_excess(self, excess: str) -> None:
        """The server sent more than we read. The connection ends."""
        self.excess = excess
        log.warning("MCP server %s: it sent %s. The connection is closed.", self.config.name, excess)

    def notice_end(self) -> None:
        """The connection has ended: the next call makes a new one."""
        self.client = None
        self.stopping.set()

    def abandon(self, client: Client) -> None:
        """Close a connection that is of no use, unless there is a new one already."""
        if self.client is client:
            self.notice_end()

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
                    self.offer(await list_tools(client))
            listener.cancel()
            stop.cancel()

    async def listen(self, client: Client) -> None:
        """Follow changes on a connection that announces them only to those who listen. Older servers announce them anyway.

        If the server ends the stream, as proxies do, the tools may have changed meanwhile.
        """
        with suppress(ListenNotSupportedError, MCPError):
            while True:
                with suppress(SubscriptionLost):
                    async with client.listen(tools_list_changed=True) as subscription:
                        async for _ in subscription:
                            self.changed.set()
                await asyncio.sleep(LISTEN_AGAIN_S)
                self.changed.set()

    def offer(self, tools: list[types.Tool]) -> None:
        if len(tools) > TOOLS_LIMIT:
            log.warning("MCP server %s has more than %d tools. The first %d are offered.", self.config.name, *(TOOLS_LIMIT,) * 2)
        self.tools, self.checked_at = tools[:TOOLS_LIMIT], int(time.time())
        self.on_change(self, self.tools)

    async def restart(self) -> None:
        """Close the connection and make a new one, also to a server that failed a moment ago. Calls in progress are cut off.

        The operator asks for this, and so accepts the tools as the server now lists them.
        """
        await self.stop()
        self.pins = Pins(self.config.name)
        self.error, self.failures = "", 0
        await asyncio.wait([self.start()])

    def record_failure(self, reason: str) -> None:
        self.checked_at = int(time.time())
        self.error = f"The MCP server {self.config.name} is not available: {reason}."
        self.failures += 1
        self.failed_at = time.monotonic()
        self.is_out_of_reach = False
        self.on_change(self, None)

    def describe(self, error: BaseException, failures: list[HttpFailure], stderr: IO[str]) -> str:
        """Describe why the connection failed: by the HTTP status, or by the error and the last line that the server printed."""
        if failures:
            return self.shorten(failures[-1].reason)
        if self.excess:
            return f"it sent {self.excess}"
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


def build_command(config: McpServerConfig) -> list[str]:
    """Return the command that starts a server. Where the kernel can do that, it ends the server together with this process."""
    command = [config.command, *config.args]
    is_able = sys.platform == "linux" and sys.executable
    return [sys.executable, "-IS", LAUNCHER, str(os.getpid()), *command] if is_able else command


@asynccontextmanager
async def watch(
    transport: AbstractAsyncContextManager[Any], on_message: Callable[[], None], on_end: Callable[[], None]
) -> AsyncIterator[Any]:
    """Call `on_message` for each message, and `on_end` as soon as the other side closes the connection: no call is sent into it."""
    async with transport as (messages, outgoing), anyio.create_task_group() as tasks:
        sender, receiver = anyio.create_memory_object_stream[Any](0)

        async def forward() -> None:
            async with sender:
                with suppress(anyio.BrokenResourceError):
                    async for message in messages:
                        on_message()
                        await sender.send(trim(message))
                on_end()

        tasks.start_soon(forward)
        yield receiver, outgoing
        tasks.cancel_scope.cancel()


async def leave_validation(_name: str, _result: types.CallToolResult) -> None:
    """Take the place of the MCP library's validation, which has no limits. `call_server` validates results."""


async def list_tools(client: Client) -> list[types.Tool]:
    """List the tools of a server, page by page, until there are too many."""
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(PAGES_LIMIT):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) > TOOLS_LIMIT:
            break
    return tools


# How a server first described its tools. The hints decide which calls need approval, so they must not change.

PINS_LIMIT: Final = 2_000  # tools of one server. Any more are treated as changed
FACTS: Final = {"title", "description", "input_schema", "output_schema", "annotations"}


class Effects(NamedTuple):
    """The hints of a tool that decide about its calls."""

    need_approval: bool
    are_repeatable: bool  # after a crash


class Pins:
    """The tools of one server as they were first listed, for as long as this process runs or until the operator restarts it."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.digests: dict[str, str] = {}
        self.changed: set[str] = set()

    def judge(self, tool: types.Tool) -> Effects:
        """Follow the server's hints about a tool, unless it has described the tool differently before."""
        if self.has_changed(tool):
            return Effects(need_approval=True, are_repeatable=False)
        hints = tool.annotations or types.ToolAnnotations()
        is_read_only = bool(hints.read_only_hint)
        return Effects(
            need_approval=not is_read_only and hints.destructive_hint is not False,
            are_repeatable=is_read_only or bool(hints.idempotent_hint),
        )

    def has_changed(self, tool: types.Tool) -> bool:
        if tool.name not in self.digests and len(self.digests) >= PINS_LIMIT:
            return True
        digest = compute_digest(tool)
        if self.digests.setdefault(tool.name, digest) == digest:
            return False
        if tool.name not in self.changed:
            self.changed.add(tool.name)
            log.warning(
                "MCP server %s describes a tool differently than before: %.80r. Its calls need approval.", self.server, tool.name
            )
        return True


def compute_digest(tool: types.Tool) -> str:
    facts = tool.model_dump(mode="json", include=FACTS)
    return sha256(json.dumps(facts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
