"""/mcp: the MCP server over streamable HTTP, with the same bearer tokens as the API.

The MCP library takes as long to import as the rest of the server, so it is loaded on the first request.
"""

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from headway.actions import conversations
from headway.agents.instructions.roles import READING_TOOLS
from headway.agents.tools.execution import ResolvedScope, resolve_scope
from headway.agents.tools.toolbox import Tool
from headway.assembly import Headway
from headway.ledger import scope as ledger_scope
from headway.ledger.errors import ReadOnlyToken
from headway.ledger.scope import TENANT_WIDE
from headway.ledger.tenancy import Token
from headway.storage.transaction import Transaction
from headway.surfaces.http.bodies import BODY_LIMIT, check_body, read_body
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import RequestContext

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from headway.surfaces.mcp.server import McpContext

VALUES_LIMIT = 10_000  # the MCP library compares a message with several shapes
TOKEN_SCOPE_KEY = "headway.mcp_token"  # noqa: S105  a key, not a token


class HttpTransport:
    """An ASGI app without sessions: the headers of each request give its scope."""

    def __init__(self, headway: Headway) -> None:
        self.headway = headway
        self.first_request = asyncio.Event()
        self.manager_future: asyncio.Future[StreamableHTTPSessionManager] | None = None

    async def keep(self) -> None:
        """Load the MCP server on the first request and keep it running as long as the HTTP server."""
        self.manager_future = asyncio.get_running_loop().create_future()
        await self.first_request.wait()
        try:
            manager = await asyncio.to_thread(self.load)
        except Exception as error:
            self.manager_future.set_exception(error)  # requests fail with this error instead of waiting
            raise
        async with manager.run():
            self.manager_future.set_result(manager)
            await asyncio.Event().wait()

    def load(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415

        from headway.surfaces.mcp.server import build_server  # noqa: PLC0415

        server = build_server(self.headway, self.resolve_scope, lift_time_limit)
        return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = RequestContext(Request(scope, receive))
        call.needs_write = False  # every message is a POST; tools that change something are refused below
        scope[TOKEN_SCOPE_KEY] = await call.read(lambda tx, _tenant_id: call.authenticate(tx))
        if scope["method"] == "GET":  # a stream that would never send anything
            raise Problem(405, "no_stream", "This endpoint has no event stream. Send POST.", {"Allow": "POST"})
        raw = await read_body(call.request)
        check_body(raw, VALUES_LIMIT)
        self.first_request.set()
        assert self.manager_future is not None
        manager = await asyncio.shield(self.manager_future)
        await manager.handle_request(scope, repeat_body(raw, receive), send)

    async def resolve_scope(self, context: "McpContext", tool: Tool | None) -> ResolvedScope:
        request: Request | None = context.request
        assert request is not None
        token: Token = request.scope[TOKEN_SCOPE_KEY]
        if tool is not None and tool.name not in READING_TOOLS and not token.can_write:
            raise ReadOnlyToken

        def resolve(tx: Transaction) -> ResolvedScope:
            tenant_id = token.tenant_id
            reference = request.headers.get("headway-conversation")
            conversation_id = conversations.resolve(tx, tenant_id, reference).id if reference else TENANT_WIDE
            turn_id = request.headers.get("headway-turn") or None
            return resolve_scope(
                tx, ledger_scope.Scope(tenant_id, conversation_id, turn_id, request.headers.get("headway-agent", "mcp"))
            )

        return await self.headway.database.of(token.tenant_id).read(resolve)


def repeat_body(raw: bytes, receive: Receive) -> Receive:
    """Return a function that receives the body that was read already, and then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def lift_time_limit(context: "McpContext") -> None:
    """Let a call wait for checks, which can take longer than other requests may."""
    assert context.request is not None
    context.request.scope["headway.deadline"].reschedule(None)
