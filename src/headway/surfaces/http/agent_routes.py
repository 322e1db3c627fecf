"""/v1/tools and /v1/writs: what agents hold in their hands, for any framework."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.agents import writs
from headway.agents.execution import Execution, executing, find_place
from headway.agents.toolbox import Result, perform
from headway.ledger import text
from headway.ledger.scope import Scope
from headway.storage.transaction import Transaction
from headway.surfaces.http import agent_shapes
from headway.surfaces.http.calls import Call, rendered
from headway.surfaces.http.describing import described

routes = APIRouter(prefix="/v1", tags=["agents' hands"])

TOOL_CALL = TypeAdapter(agent_shapes.ToolCall)
WRIT_TEXT = TypeAdapter(agent_shapes.WritText)


@routes.get("/tools", summary="The tools, with their schemas", **described({200: agent_shapes.ManyTools}))
async def list_tools(request: Request) -> Response:
    call = Call(request)
    await call.read(lambda _tx, _tenant_id: None)
    return rendered({"tools": call.headway.hands.catalogue()})


@routes.post(
    "/tools/{name}",
    summary="Call a tool",
    **described({200: agent_shapes.ToolResult}, also=(404,), body=agent_shapes.ToolCall, path={"name": str}, idempotent=True),
)
async def call_tool(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(TOOL_CALL)
    role = await call.known(call.headway.roles.find, wanted.role)
    tool = await call.known(call.headway.hands.find, request.path_params["name"])

    def place(tx: Transaction, tenant_id: int) -> Execution:
        scope = Scope(tenant_id, wanted.conversation_id, wanted.turn_id, wanted.agent_id)
        return call.headway.execution(find_place(tx, scope), role)

    if tool.in_transaction is None and "idempotency-key" not in request.headers:
        with executing(await call.read(place)):  # files are slow: not while others wait for the writer
            return rendered((await call.headway.hands.call(tool.name, wanted.arguments)).as_json())
    outside: list[Result] = []  # what was done to files: a transaction that is run again does not do it again

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        result = outside[0] if outside else perform(tool, wanted.arguments, place(tx, tenant_id), tx)
        if tool.in_transaction is None:
            outside[:] = [result]
        return result.as_json()

    return await call.post(act, 200)


@routes.post(
    "/writs",
    summary="Run the slash commands in a text",
    **described({200: agent_shapes.WritResult}, also=(404,), body=agent_shapes.WritText, idempotent=True),
)
async def run_writs(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(WRIT_TEXT)
    role = await call.known(call.headway.roles.find, wanted.role)

    def run(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        scope = find_place(tx, Scope(tenant_id, wanted.conversation_id, None, wanted.agent_id)).scope
        return writs.run_text(tx, scope, role, text.safe(wanted.text, "text"))._asdict()

    return await call.post(run, 200)
