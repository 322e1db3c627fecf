"""The loaded MCP server on standard input and output. It continues a session whose first requests were answered before."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

import anyio
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from headway.ledger.errors import HeadwayError
from headway.process.assembly import Headway
from headway.settings import Settings
from headway.surfaces.mcp.early_answers import (
    ACKNOWLEDGEMENT,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LISTEN,
    SUBSCRIPTION_ID_KEY,
    EarlyAnswers,
    build_error,
    parse_message,
)
from headway.surfaces.mcp.scopes import McpCaller
from headway.surfaces.mcp.server import McpHandlers, Transport, build_server
from headway.surfaces.mcp.stdio_transport import StdioChannel

QUEUE_LIMIT: Final = 100  # messages that are read ahead of the server


class PendingRequests:
    """Requests without an answer yet, and requests that were answered or acknowledged before the server was loaded."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.answered: set[str] = set()
        self.acknowledged: set[str] = set()
        self.none = asyncio.Event()
        self.none.set()

    def repeat(self, item: SessionMessage) -> None:
        """Note that the client has the answer to this message, or the acknowledgement of a stream."""
        self.track(item)
        match item.message:
            case JSONRPCRequest(id=request_id, method=method):
                (self.acknowledged if method == LISTEN else self.answered).add(str(request_id))

    def track(self, item: SessionMessage) -> None:
        match item.message:
            case JSONRPCRequest(id=request_id, method=method) if method != LISTEN:  # a stream is answered when the session ends
                self.ids.add(str(request_id))
                self.none.clear()
            case JSONRPCNotification(method="notifications/cancelled", params=params):
                self.settle((params or {}).get("requestId"))  # a canceled request gets no answer

    def settle(self, request_id: object) -> bool:
        """Note that a request was answered. Return whether the client waits for the answer."""
        self.ids.discard(str(request_id))
        if not self.ids:
            self.none.set()
        if str(request_id) in self.answered:
            self.answered.discard(str(request_id))
            return False
        return True

    def is_expected(self, message: JSONRPCMessage) -> bool:
        """Note a message of the server. Return whether the client does not have it yet."""
        match message:
            case JSONRPCResponse() | JSONRPCError():
                return self.settle(message.id)
            case JSONRPCNotification(method=method, params=params) if method == ACKNOWLEDGEMENT:
                stream = str(((params or {}).get("_meta") or {}).get(SUBSCRIPTION_ID_KEY))
                is_new = stream not in self.acknowledged
                self.acknowledged.discard(stream)
                return is_new
        return True


async def relay_messages(
    server: Server[Any], channel: StdioChannel, opening: list[dict[str, Any]], incoming: AsyncIterator[SessionMessage]
) -> None:
    """Relay messages until every request has been answered. The MCP library drops running calls when its input ends, although their
    work may be committed, so the end of the input is passed on only after the last answer."""
    to_server, server_input = anyio.create_memory_object_stream[SessionMessage | Exception]()
    server_output, from_server = anyio.create_memory_object_stream[SessionMessage]()
    unanswered = PendingRequests()

    async def pass_in() -> None:
        async with to_server:
            for message in opening:
                item = SessionMessage(jsonrpc_message_adapter.validate_python(message))
                unanswered.repeat(item)
                await to_server.send(item)
            async for item in incoming:
                unanswered.track(item)
                await to_server.send(item)
            await unanswered.none.wait()

    async def pass_out() -> None:
        async for item in from_server:
            if unanswered.is_expected(item.message):
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                await asyncio.to_thread(channel.write_line, line)  # a client that does not read must not stop the server

    async with anyio.create_task_group() as relays:
        relays.start_soon(pass_in)
        relays.start_soon(pass_out)
        options = server.create_initialization_options(NotificationOptions(resources_changed=True))
        await server.run(server_input, server_output, options)


def read_messages(channel: StdioChannel, line: bytes, pass_on: Callable[[SessionMessage | None], None]) -> None:
    """Read the client's messages until its input ends, from this line on. Answer lines that are no messages."""
    next_line: bytes | None = line or channel.read_line()
    while next_line is not None:
        _message, refusal = parse_message(next_line)
        try:
            if refusal is None:
                pass_on(SessionMessage(jsonrpc_message_adapter.validate_json(next_line)))
        except ValidationError:
            refusal = build_error(None, INVALID_REQUEST, "The text is not a JSON-RPC 2.0 message.")
        if refusal is not None:
            channel.write(refusal)
        next_line = channel.read_line()


async def receive_messages(channel: StdioChannel, line: bytes) -> AsyncIterator[SessionMessage]:
    received: asyncio.Queue[SessionMessage | None] = asyncio.Queue(QUEUE_LIMIT)
    loop = asyncio.get_running_loop()

    def pass_on(item: SessionMessage | None) -> None:
        asyncio.run_coroutine_threadsafe(received.put(item), loop).result()  # waits while the server is busy

    def run() -> None:
        try:
            with suppress(BrokenPipeError):  # the client is gone
                read_messages(channel, line, pass_on)
        finally:
            with suppress(RuntimeError):  # the event loop has closed
                pass_on(None)

    threading.Thread(target=run, name="headway-mcp-input", daemon=True).start()
    while (item := await received.get()) is not None:
        yield item


async def serve_stdio(settings: Settings, caller: McpCaller, channel: StdioChannel, early: EarlyAnswers, line: bytes) -> None:
    """Serve the rest of a session. `line` is its next message, if that has been read."""
    try:
        headway = Headway(settings)
    except HeadwayError as error:  # such as a broken tool file: the client learns why the session ends
        request = parse_message(line)[0] if line else None
        if request:
            channel.write(build_error(request["id"], INTERNAL_ERROR, str(error)))
        raise
    transport = Transport(lambda _context: caller, lambda _context: early.offer, can_push=True)
    handlers = McpHandlers(headway, transport._replace(find_position=lambda context: early.positions.get(str(context.request_id))))
    try:
        await relay_messages(build_server(handlers), channel, early.opening, receive_messages(channel, line))
    except* (BrokenPipeError, anyio.BrokenResourceError):
        pass  # the client has gone
    finally:
        handlers.changes.stop()
        headway.close()
