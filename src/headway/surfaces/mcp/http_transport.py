"""/mcp: the MCP server over streamable HTTP, with the same bearer tokens as the API.

The MCP library takes as long to import as the rest of the server, so it is loaded on the first request.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from headway.extras import require_extra
from headway.ledger.errors import Forbidden
from headway.ledger.tenancy import Token
from headway.operations.requests import BODY_LIMIT, check_body
from headway.process.assembly import Headway
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import LOOPBACK_NAMES, RequestContext, parse_host_name, read_body
from headway.surfaces.mcp.early_answers import parse_message
from headway.surfaces.mcp.offer import DEFAULT_GROUPS, ToolOffer, choose_offer
from headway.surfaces.mcp.scopes import McpCaller

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from headway.surfaces.mcp.server import McpContext

VALUES_LIMIT = 10_000  # the MCP library compares a message with several shapes
TOKEN_SCOPE_KEY = "headway.mcp_token"  # noqa: S105  a key, not a token
CALL_SCOPE_KEY = "headway.mcp_call"
OFFER_SCOPE_KEY = "headway.mcp_offer"


class HttpTransport:
    """An ASGI app without sessions: the headers of each request give its scope."""

    def __init__(self, headway: Headway) -> None:
        self.headway = headway
        self.first_request = asyncio.Event()
        self.manager_future: asyncio.Future[StreamableHTTPSessionManager] | None = None
        addresses = (headway.settings.host, parse_host_name(headway.settings.url.partition("://")[2].partition("/")[0]))
        self.page_hosts = frozenset((*LOOPBACK_NAMES, *addresses))  # pages of these hosts may use it

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

        from headway.surfaces.mcp.server import McpHandlers, Transport, build_server  # noqa: PLC0415

        server = build_server(McpHandlers(self.headway, Transport(find_caller, find_offer, lift_time_limit, is_admitted)))
        return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.check_origin(scope)
        call = scope[CALL_SCOPE_KEY] = RequestContext(Request(scope, receive))
        call.needs_write = False  # every message is a POST; tools that change something are refused later
        scope[TOKEN_SCOPE_KEY] = await call.read(lambda tx, _tenant_id: call.authenticate(tx))
        if scope["method"] == "GET":  # a stream that would never send anything
            raise Problem(405, "no_stream", "This endpoint has no event stream. Send POST.", {"Allow": "POST"})
        scope[OFFER_SCOPE_KEY] = choose_offer(call.request.query_params.get("tools", DEFAULT_GROUPS))
        raw = await read_body(call.request)
        check_body(raw, VALUES_LIMIT)
        if scope["method"] == "POST" and (refusal := find_refusal(raw)):
            await refusal(scope, receive, send)
            return
        require_extra("mcp", "The MCP server")
        self.first_request.set()
        assert self.manager_future is not None
        manager = await asyncio.shield(self.manager_future)
        await manager.handle_request(scope, repeat_body(raw, receive), send)

    def check_origin(self, scope: Scope) -> None:
        """Refuse requests of pages of other hosts, which could reach this server through a name that they made resolve to it."""
        origin = Request(scope).headers.get("origin")
        if origin is not None and parse_host_name(origin.partition("://")[2]) not in self.page_hosts:
            raise Forbidden("Pages of other hosts may not use this endpoint. Set HEADWAY_URL to the address of this Headway.")


def find_refusal(raw: bytes) -> Response | None:
    """Return the answer to a body that is not one message, with the code that JSON-RPC has for it."""
    _message, refusal = parse_message(raw)
    return None if refusal is None else JSONResponse(refusal, 400)


def find_caller(context: "McpContext") -> McpCaller:
    request = get_request(context)
    token: Token = request.scope[TOKEN_SCOPE_KEY]
    return McpCaller(
        token.tenant_id,
        request.headers.get("headway-conversation") or None,
        request.headers.get("headway-turn") or None,
        request.headers.get("headway-agent", "mcp"),
        f"mcp token {token.id}",
        token.name,
        token.can_write,
    )


def find_offer(context: "McpContext") -> ToolOffer:
    offer: ToolOffer = get_request(context).scope[OFFER_SCOPE_KEY]
    return offer


def lift_time_limit(context: "McpContext") -> None:
    get_request(context).scope["headway.deadline"].reschedule(None)


async def is_admitted(context: "McpContext") -> bool:
    call: RequestContext = get_request(context).scope[CALL_SCOPE_KEY]
    return await call.is_still_admitted()


def get_request(context: "McpContext") -> Any:
    assert context.request is not None
    return context.request


def repeat_body(raw: bytes, receive: Receive) -> Receive:
    """Return a function that receives the body that was read already, and then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
