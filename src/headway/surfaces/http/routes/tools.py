"""/v1/tools and /v1/writs: the agents' tools and slash commands, for any framework."""

from typing import Any, Final

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.agents import writs
from headway.agents.instructions.roles import READING_TOOLS
from headway.agents.permission import find_refusal, find_writ_refusal
from headway.agents.tools.execution import Execution, build_agent_rights, resolve_scope, use_execution
from headway.agents.tools.external_loop import call_without_run
from headway.agents.tools.toolbox import Result, call_in_transaction, to_result
from headway.agents.writs import AgentAccess
from headway.ledger import text
from headway.ledger.errors import ChecksRequired
from headway.ledger.scope import Scope
from headway.operations import turns
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import AgentCaller, RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes

routes = HttpRoutes("/v1", "tools")

TOOL_CALL = TypeAdapter(turns.ToolCall)
WRIT_TEXT = TypeAdapter(turns.WritText)
SERVERS_TIMEOUT_S: Final = 2.0  # how long the list waits for MCP servers that start


@routes.get("/tools", summary="List the tools with their schemas", **document_route({200: turns.ManyTools}))
async def list_tools(request: Request) -> Response:
    call = RequestContext(request)
    headway = call.headway
    await call.read(lambda _tx, _tenant_id: None)
    await headway.prepare_tools(headway.roles.find("index"), timeout_s=SERVERS_TIMEOUT_S)
    mcp_tools = [{**tool.as_json(), "server": tool.server} for tools in headway.toolbox.extra.values() for tool in tools]
    return to_json_response({"tools": [*headway.remote_tools.catalogue(), *mcp_tools], "servers": headway.list_mcp_servers()})


@routes.post(
    "/tools/{name}",
    summary="Call a tool",
    **document_route({200: turns.ToolResult}, also=(404,), body=turns.ToolCall, path={"name": str}, idempotent=True),
)
async def call_tool(request: Request) -> Response:
    call = RequestContext(request)
    call.needs_write = request.path_params["name"] not in READING_TOOLS
    body = await call.body(TOOL_CALL)
    role = await call.known(call.headway.roles.find, body.role)
    tool = await call.known(call.headway.remote_tools.find, request.path_params["name"])

    def build_execution(tx: Transaction, tenant_id: int) -> Execution:
        scope = Scope(tenant_id, body.conversation_id, body.turn_id, body.agent_id)
        return call.headway.execution(resolve_scope(tx, scope), role)

    if not tool.changes_ledger and "idempotency-key" not in request.headers:
        with use_execution(await call.read(build_execution)):  # file access is slow and must not block the writer
            headway = call.headway
            result = await call_without_run(headway.remote_tools, tool.name, body.arguments, headway.checks)
            return to_json_response(result.as_json())
    agent = AgentCaller(body.agent_id, role, {})
    outside: list[Result] = []  # results of file access, kept so that a repeated transaction does not repeat it

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        execution = build_execution(tx, tenant_id)
        if refusal := find_refusal(tx, tool, body.arguments, execution):
            return to_result(tool.refuse(refusal)).as_json()
        try:
            result = outside[0] if outside else call_in_transaction(tool, body.arguments, execution, tx)
        except ChecksRequired as required:
            if required.todo_id not in agent.refusals:
                raise
            return to_result(tool.refuse(agent.refusals[required.todo_id])).as_json()
        if not tool.changes_ledger:
            outside[:] = [result]
        return result.as_json()

    return await call.post(act, 200, agent)


@routes.post(
    "/writs",
    summary="Run the writs in a text",
    **document_route({200: turns.WritResult}, also=(404,), body=turns.WritText, idempotent=True),
)
async def run_writs(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(WRIT_TEXT)
    role = await call.known(call.headway.roles.find, body.role)
    agent = AgentCaller(body.agent_id, role, {})

    def run(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        resolved_scope = resolve_scope(tx, Scope(tenant_id, body.conversation_id, None, body.agent_id))
        execution = call.headway.execution(resolved_scope, role)
        access = AgentAccess(
            find_refusal=lambda writ: find_writ_refusal(tx, writ.word, writ.rest, execution),
            refusals=agent.refusals,
            rights=build_agent_rights(tx, execution),
        )
        return writs.run_text(tx, resolved_scope.scope, role, text.check_text(body.text, "text"), access)._asdict()

    return await call.post(run, 200, agent)
