"""/v1/halt, /v1/costs and /v1/notices: what an operator watches, and the two switches only operators may touch."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import halts, notices, spending, tenants
from headway.ledger.run import NANOS
from headway.storage import halt_store
from headway.storage.transaction import Transaction
from headway.surfaces.http import operator_shapes as shapes
from headway.surfaces.http.calls import Call, rendered
from headway.surfaces.http.describing import described
from headway.surfaces.web.static_files import site

routes = APIRouter(prefix="/v1", tags=["operator"])

HALT = TypeAdapter(shapes.NewHalt)
LIMIT = TypeAdapter(shapes.CostLimit)


@routes.get("/halt", summary="Whether everything is halted", **described({200: shapes.OneHalt}))
async def get_halt(request: Request) -> Response:
    return rendered({"halt": halts.as_json(await Call(request).read(lambda tx, _tenant_id: halt_store.in_force(tx)))})


@routes.put("/halt", summary="Halt the whole installation", **described({200: shapes.OneHalt}, body=shapes.NewHalt))
async def put_halt(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(HALT)
    return rendered({"halt": halts.as_json(await call.write(lambda tx, _: halts.halt(tx, wanted.why), tenants.admit_operator))})


@routes.delete("/halt", summary="Let everything go on", **described({200: shapes.OneHalt}, also=(507,)))
async def delete_halt(request: Request) -> Response:
    await Call(request).write(lambda tx, _: halts.unhalt(tx), tenants.admit_operator)
    return rendered({"halt": halts.as_json(None)})


@routes.get("/costs", summary="What was spent in the last 24 hours", **described({200: shapes.OneCosts}))
async def get_costs(request: Request) -> Response:
    call = Call(request)
    budget = call.headway.settings.limits.budget
    return rendered({"costs": await call.read(lambda tx, tenant_id: spending.costs(tx, tenant_id, budget))})


@routes.put("/costs", summary="Set the tenant's limit", **described({200: shapes.OneCosts}, body=shapes.CostLimit))
async def put_costs(request: Request) -> Response:
    call = Call(request)
    wanted = await call.body(LIMIT)
    budget = call.headway.settings.limits.budget

    def change(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        spending.set_limit(tx, tenant_id, int(wanted.limit_usd * NANOS))
        return spending.costs(tx, tenant_id, budget)

    return rendered({"costs": await call.write(change, tenants.admit_operator)})


@routes.get(
    "/notices",
    summary="What the operator was told, the newest first",
    **described({200: shapes.ManyNotices}, query=shapes.NoticesQuery),
)
async def list_notices(request: Request) -> Response:
    call = Call(request)
    query = await call.query(shapes.NoticesQuery)
    return rendered(await call.read(lambda tx, tenant_id: notices.inbox(tx, tenant_id, query.limit, query.cursor)))


@routes.get("/session", summary="Whom this token lets in, and what it may do", **described({200: shapes.OneSession}))
async def get_session(request: Request) -> Response:
    call = Call(request)

    def look(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        token = tenants.admit(tx, call.digest)
        tenant = tenants.get(tx, tenant_id)
        return {"tenant": tenant.name, "operator": bool(token.operator), "expires_at": token.expires_at // 1000}

    return rendered({"session": {**await call.read(look), "model": call.headway.settings.model, "page": site().build}})
