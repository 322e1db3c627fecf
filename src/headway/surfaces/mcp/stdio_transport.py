"""`headway mcp`: the MCP server on standard input and output, for one assistant on this machine."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from headway.actions import conversations
from headway.agents.tools.execution import ResolvedScope, resolve_scope
from headway.agents.tools.toolbox import Tool
from headway.assembly import Headway
from headway.ledger.scope import Scope
from headway.settings import Settings
from headway.storage.transaction import Transaction
from headway.surfaces.mcp.server import McpContext, build_server


class StdioSession:
    """The scope of an assistant's calls. Ledger tools use the scope that the command line chose. Plan tools use a turn of the
    session, which is opened when it is first needed."""

    def __init__(self, headway: Headway, scope: Scope) -> None:
        self.headway = headway
        self.scope = scope
        self.plans = scope if scope.turn_id else None
        self.opening = asyncio.Lock()  # parallel tool calls must share one plan

    async def resolve_scope(self, _context: McpContext, tool: Tool | None) -> ResolvedScope:
        scope = self.scope if tool is None or tool.family == "ledger" else await self.get_plan_scope()
        return await self.headway.database.of(self.scope.tenant_id).read(lambda tx: resolve_scope(tx, scope))

    async def get_plan_scope(self) -> Scope:
        async with self.opening:
            if self.plans is None:
                self.plans = await self.headway.database.of(self.scope.tenant_id).write(self.open_plan_scope)
        return self.plans

    def open_plan_scope(self, tx: Transaction) -> Scope:
        conversation_id = self.scope.conversation_id or conversations.add(tx, self.scope.tenant_id, "MCP session").id
        turn = conversations.open_turn(tx, self.scope.tenant_id, conversation_id)
        return self.scope._replace(conversation_id=conversation_id, turn_id=turn.id)


class PendingRequests:
    """Requests without an answer yet."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.none = asyncio.Event()
        self.none.set()

    def track(self, item: SessionMessage | Exception) -> None:
        match item:
            case SessionMessage(message=JSONRPCRequest(id=request_id)):
                self.ids.add(str(request_id))
                self.none.clear()
            case SessionMessage(message=JSONRPCNotification(method="notifications/cancelled", params=params)):
                self.settle((params or {}).get("requestId"))  # a canceled request gets no answer

    def answer(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self.settle(item.message.id)

    def settle(self, request_id: object) -> None:
        self.ids.discard(str(request_id))
        if not self.ids:
            self.none.set()


async def relay_messages(server: Server[Any], incoming: AsyncIterator[SessionMessage | Exception], outgoing: Any) -> None:
    """Relay messages until every request has been answered. The MCP library drops running calls when its input ends, although their
    work may be committed, so the end of the input is passed on only after the last answer."""
    to_server, server_input = anyio.create_memory_object_stream[SessionMessage | Exception]()
    server_output, from_server = anyio.create_memory_object_stream[SessionMessage]()
    unanswered = PendingRequests()

    async def pass_in() -> None:
        async with to_server:
            async for item in incoming:
                unanswered.track(item)
                await to_server.send(item)
            await unanswered.none.wait()

    async def pass_out() -> None:
        async with outgoing:
            async for item in from_server:
                await outgoing.send(item)
                unanswered.answer(item)

    async with anyio.create_task_group() as relays:
        relays.start_soon(pass_in)
        relays.start_soon(pass_out)
        await server.run(server_input, server_output, server.create_initialization_options())


async def serve_stdio(settings: Settings, scope: Scope) -> None:
    headway = Headway(settings)
    try:
        async with stdio_server() as (incoming, outgoing):
            await relay_messages(build_server(headway, StdioSession(headway, scope).resolve_scope), incoming, outgoing)
    except* (BrokenPipeError, anyio.BrokenResourceError):
        pass  # the client has gone
    finally:
        headway.close()
