"""`headway mcp`: the MCP server on standard input and output, for one assistant on this machine."""

import asyncio

from mcp.server.stdio import stdio_server

from headway.actions import conversations
from headway.agents.execution import Place, find_place
from headway.agents.toolbox import Tool
from headway.assembly import Headway
from headway.ledger.scope import Scope
from headway.settings import Settings
from headway.storage.transaction import Transaction
from headway.surfaces.mcp.mcp_server import Context, mcp_server


class Session:
    """Where this assistant's calls belong: the ledger's verbs where it was started, its plans in a turn of its own,
    which is opened when it first needs one."""

    def __init__(self, headway: Headway, scope: Scope) -> None:
        self.headway = headway
        self.scope = scope
        self.plans = scope if scope.turn_id else None
        self.opening = asyncio.Lock()  # an assistant that calls several tools at once still has one plan

    async def locate(self, _context: Context, tool: Tool | None) -> Place:
        scope = self.scope if tool is None or tool.family == "ledger" else await self.planning()
        return await self.headway.database.read(lambda tx: find_place(tx, scope))

    async def planning(self) -> Scope:
        async with self.opening:
            if self.plans is None:
                self.plans = await self.headway.database.write(self.with_turn)
        return self.plans

    def with_turn(self, tx: Transaction) -> Scope:
        conversation_id = self.scope.conversation_id or conversations.add(tx, self.scope.tenant_id, "MCP session").id
        turn = conversations.open_turn(tx, self.scope.tenant_id, conversation_id)
        return self.scope._replace(conversation_id=conversation_id, turn_id=turn.id)


async def run(settings: Settings, scope: Scope) -> None:
    headway = Headway(settings)
    try:
        server = mcp_server(headway, Session(headway, scope).locate)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        headway.close()
