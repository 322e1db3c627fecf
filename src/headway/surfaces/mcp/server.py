"""The MCP server: all tools, the todo list as resources, and a prompt for planning. Transports only provide a call's scope."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from headway import __version__
from headway.actions import todos, views
from headway.agents.permission import call_without_run
from headway.agents.tools.execution import ResolvedScope, use_execution
from headway.agents.tools.toolbox import Result, Tool
from headway.assembly import Headway
from headway.ledger.errors import HeadwayError, NotFound
from headway.ledger.scope import Selection
from headway.ledger.todo import OPEN_STATUSES
from headway.storage.transaction import Transaction

McpContext = ServerRequestContext[Any]
# Returns the scope of a call. It depends on the tool, which may need a turn or a conversation.
ScopeResolver = Callable[[McpContext, Tool | None], Awaitable[ResolvedScope]]

TODO_URI_PREFIX = "headway://todos/"
JSON_MEDIA_TYPE = "application/json"

INSTRUCTIONS = (
    "Headway keeps a todo list that outlives this session. Add work with todo_add, list it with todo_list, "
    "mark progress with todo_update. For the steps of the current task, use create_todo and complete_todo."
)
PLANNING_PROMPT = """Plan and carry out this objective: {objective}

1. Break it into distinct steps and call create_todo once with all of them.
2. Work through them in order: start_todo, do it, complete_todo with the outcome.
3. Answer only when list_todo shows no open items; cancel unnecessary items with a reason.
Skip the plan if a single step is enough."""


def build_server(
    headway: Headway, resolve_scope: ScopeResolver, before_checks: Callable[[McpContext], None] = lambda _context: None
) -> Server[Any]:
    """Build the server. `before_checks` is called before the checks of a todo run, which can take minutes."""
    ledger = McpHandlers(headway, resolve_scope, before_checks)
    return Server(
        "headway",
        version=__version__,
        title="Headway",
        instructions=INSTRUCTIONS,
        on_list_tools=ledger.list_tools,
        on_call_tool=ledger.call_tool,
        on_list_resources=ledger.list_resources,
        on_list_resource_templates=ledger.list_templates,
        on_read_resource=ledger.read_resource,
        on_list_prompts=ledger.list_prompts,
        on_get_prompt=ledger.get_prompt,
    )


class McpHandlers:
    def __init__(self, headway: Headway, resolve_scope: ScopeResolver, before_checks: Callable[[McpContext], None]) -> None:
        self.headway = headway
        self.before_checks = before_checks
        self.resolve_scope = resolve_scope
        self.role = headway.roles.find("index")
        self.tools = [types.Tool.model_validate(to_mcp_tool(tool)) for tool in headway.remote_tools.catalogue()]

    async def list_tools(self, _context: McpContext, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.tools)

    async def call_tool(self, context: McpContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool = self.headway.remote_tools.find(params.name)
        except NotFound:
            raise MCPError(types.INVALID_PARAMS, f"No tool named {params.name[:80]!r}.") from None
        resolved_scope = await self.resolve(context, tool)
        headway, arguments, before_checks = self.headway, params.arguments or {}, partial(self.before_checks, context)
        with use_execution(headway.execution(resolved_scope, self.role)):
            result = await call_without_run(
                headway.remote_tools, tool.name, arguments, headway.checks, before_checks, lambda: headway.feed.closed
            )
            return to_mcp_result(result)

    async def list_resources(self, _context: McpContext, _params: Any) -> types.ListResourcesResult:
        descriptions = {"open": "Todos in progress or pending", "ready": "Todos that can start now"}
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    name=f"{name} todos", uri=f"{TODO_URI_PREFIX}{name}", mime_type=JSON_MEDIA_TYPE, description=description
                )
                for name, description in descriptions.items()
            ]
        )

    async def list_templates(self, _context: McpContext, _params: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            name="todo", uri_template=f"{TODO_URI_PREFIX}{{id}}", mime_type=JSON_MEDIA_TYPE, description="A todo by its id"
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, context: McpContext, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        resolved_scope = await self.resolve(context, None)
        try:
            database = self.headway.database.of(resolved_scope.scope.tenant_id)
            document = await database.read(lambda tx: load_resource(tx, resolved_scope, params.uri))
        except HeadwayError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        text = json.dumps(document, ensure_ascii=False)
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, mime_type=JSON_MEDIA_TYPE, text=text)])

    async def list_prompts(self, _context: McpContext, _params: Any) -> types.ListPromptsResult:
        argument = types.PromptArgument(name="objective", description="What to achieve", required=True)
        prompt = types.Prompt(name="plan", description="Plan an objective as todos and work through them", arguments=[argument])
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(self, _context: McpContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        objective = (params.arguments or {}).get("objective", "").strip()
        if params.name != "plan" or not objective:
            raise MCPError(types.INVALID_PARAMS, "The only prompt is `plan`, and it needs an `objective`.")
        content = types.TextContent(type="text", text=PLANNING_PROMPT.format(objective=objective))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def resolve(self, context: McpContext, tool: Tool | None) -> ResolvedScope:
        try:
            return await self.resolve_scope(context, tool)
        except HeadwayError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None


def load_resource(tx: Transaction, resolved_scope: ResolvedScope, uri: str) -> dict[str, Any]:
    tenant_id, conversation_id = resolved_scope.scope.tenant_id, resolved_scope.scope.conversation_id or None
    name = uri.removeprefix(TODO_URI_PREFIX)
    if name == "open":
        page = views.list_todos(tx, tenant_id, Selection(conversation_id, statuses=OPEN_STATUSES), 100)
        return {"todos": [todo.as_json() for todo in page.todos], "next_cursor": page.next_cursor}
    if name == "ready":
        return {"todos": [todo.as_json() for todo in views.list_ready(tx, tenant_id, conversation_id, 100)]}
    if uri.startswith(TODO_URI_PREFIX) and name.isascii() and name.isdigit() and len(name) <= 18:
        return {"todo": todos.get(tx, tenant_id, int(name)).as_json()}
    raise NotFound(f"There is no resource {uri[:120]!r}.")


def to_mcp_tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "inputSchema": tool["input_schema"]}


def to_mcp_result(result: Result) -> types.CallToolResult:
    """Return a tool's result as structured content and as text, for clients that read only text."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=result.as_text)],
        structured_content=result.value if isinstance(result.value, dict) else None,
        is_error=result.is_error,
    )
