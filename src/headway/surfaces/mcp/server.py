"""The MCP server: tools, the todos as resources, and a prompt for planning. Transports know who calls."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from mcp import types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from headway import __version__
from headway.agents.tools.execution import ResolvedScope, use_execution
from headway.agents.tools.external_loop import call_without_run
from headway.agents.tools.toolbox import Tool
from headway.ledger.errors import HeadwayError, NotFound
from headway.process.assembly import Headway
from headway.surfaces.mcp.changes import ChangeStream, SessionChanges, is_always_admitted, listen
from headway.surfaces.mcp.offer import (
    ALL_GROUPS,
    JSON_MEDIA_TYPE,
    PLANNING_PROMPT,
    TEMPLATES,
    ToolOffer,
    choose_offer,
    load_catalogue,
)
from headway.surfaces.mcp.resources import build_call_result, encode_text, find_name, list_resources, load_resource
from headway.surfaces.mcp.scopes import McpCaller, place_call

McpContext = ServerRequestContext[Any]


class Transport(NamedTuple):
    """The client of a message, as its transport knows it."""

    find_caller: Callable[[McpContext], McpCaller]
    find_offer: Callable[[McpContext], ToolOffer]
    # Called before work that can take longer than other requests may: checks, and streams of notifications.
    lift_time_limit: Callable[[McpContext], None] = lambda _context: None
    is_admitted: Callable[[McpContext], Awaitable[bool]] = lambda _context: is_always_admitted()
    # Where in the event log the notifications begin that a request asks for, or None for the end.
    find_position: Callable[[McpContext], int | None] = lambda _context: None
    can_push: bool = False  # whether clients of older protocols can get messages outside of a request


def build_server(handlers: "McpHandlers") -> Server[Any]:
    can_push = handlers.transport.can_push
    server: Server[Any] = Server(
        "headway",
        version=__version__,
        title="Headway",
        instructions=choose_offer(ALL_GROUPS).instructions,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe if can_push else None,
        on_unsubscribe_resource=handlers.unsubscribe if can_push else None,
        on_subscriptions_listen=handlers.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    server.get_tool_input_schema = INPUT_SCHEMAS.get  # the library before 2.3 takes no such argument, and lists the tools instead
    server.middleware.append(handlers.give_instructions)
    return server


INPUT_SCHEMAS: Mapping[str, dict[str, Any]] = {tool["name"]: tool["inputSchema"] for tool in load_catalogue()}


class McpHandlers:
    def __init__(self, headway: Headway, transport: Transport) -> None:
        self.headway = headway
        self.transport = transport
        self.role = headway.roles.find("index")
        self.changes = SessionChanges(headway.feed)

    async def give_instructions(self, ctx: McpContext, call_next: CallNext) -> HandlerResult:
        """Replace the instructions in the answer by the ones for the tools that this client gets."""
        result = await call_next(ctx)
        if isinstance(result, dict) and "instructions" in result:
            result["instructions"] = self.transport.find_offer(ctx).instructions
        return result

    async def list_tools(self, context: McpContext, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate({"tools": self.transport.find_offer(context).tools})

    async def call_tool(self, context: McpContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self.find_tool(context, params.name)
        resolved_scope = await self.resolve(context, tool)
        headway, arguments = self.headway, params.arguments or {}
        before_checks = partial(self.transport.lift_time_limit, context)
        with use_execution(headway.execution(resolved_scope, self.role)):
            result = await call_without_run(
                headway.remote_tools, tool.name, arguments, headway.checks, before_checks, lambda: headway.feed.closed
            )
            return types.CallToolResult.model_validate(build_call_result(result))

    def find_tool(self, context: McpContext, name: str) -> Tool:
        try:
            tool = self.headway.remote_tools.find(name)
        except NotFound:
            raise MCPError(types.INVALID_PARAMS, f"No tool named {name[:80]!r}.") from None
        if not self.transport.find_offer(context).has_tool(tool.name):
            raise MCPError(types.INVALID_PARAMS, f"The tool {tool.name} is not offered here: its group of tools was not chosen.")
        return tool

    async def list_resources(self, context: McpContext, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        resolved_scope = await self.resolve(context, None)
        if self.transport.can_push and context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            with refusals():
                position = self.transport.find_position(context)
                await self.changes.start(resolved_scope.scope, context.session, position)
        cursor = params.cursor if params else None
        page = await self.read(resolved_scope, partial(list_resources, scope=resolved_scope.scope, cursor=cursor))
        return types.ListResourcesResult.model_validate(page)

    async def list_templates(self, _context: McpContext, _params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": TEMPLATES})

    async def read_resource(self, context: McpContext, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        resolved_scope = await self.resolve(context, None)
        document = await self.read(resolved_scope, partial(load_resource, scope=resolved_scope.scope, uri=params.uri))
        text = encode_text(document)
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, mime_type=JSON_MEDIA_TYPE, text=text)])

    async def subscribe(self, context: McpContext, params: types.SubscribeRequestParams) -> types.EmptyResult:
        resolved_scope = await self.resolve(context, None)
        await self.read(resolved_scope, lambda _tx: find_name(params.uri))
        self.changes.uris.add(params.uri)
        with refusals():
            await self.changes.start(resolved_scope.scope, context.session)
        return types.EmptyResult()

    async def unsubscribe(self, _context: McpContext, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.changes.uris.discard(params.uri)
        return types.EmptyResult()

    async def listen(self, context: McpContext, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
        resolved_scope = await self.resolve(context, None)
        self.transport.lift_time_limit(context)
        is_admitted = partial(self.transport.is_admitted, context)
        with refusals():
            changes = ChangeStream(self.headway.feed, resolved_scope.scope, self.transport.find_position(context), is_admitted)
            return await listen(changes, context, params)

    async def list_prompts(self, context: McpContext, _params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult.model_validate({"prompts": self.transport.find_offer(context).prompts})

    async def get_prompt(self, _context: McpContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        objective = (params.arguments or {}).get("objective", "").strip()
        if params.name != "plan" or not objective:
            raise MCPError(types.INVALID_PARAMS, "The only prompt is `plan`, and it needs an `objective`.")
        content = types.TextContent(type="text", text=PLANNING_PROMPT.format(objective=objective))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def resolve(self, context: McpContext, tool: Tool | None) -> ResolvedScope:
        caller = self.transport.find_caller(context)
        with refusals():
            return await place_call(self.headway.database.of(caller.tenant_id), caller, tool)

    async def read(self, resolved_scope: ResolvedScope, work: Any) -> Any:
        with refusals():
            return await self.headway.database.of(resolved_scope.scope.tenant_id).read(work)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn refusals into errors of the protocol."""
    try:
        yield
    except HeadwayError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None
