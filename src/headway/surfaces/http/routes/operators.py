"""/v1/halt, /v1/costs, /v1/audit and /v1/notices: what an operator monitors and controls."""

import asyncio
from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import halts, notices, spending
from headway.actions.access import audit, quotas, tenants, tokens
from headway.actions.operations import spending_history
from headway.ledger.run import NANOS_PER_DOLLAR
from headway.ledger.tenancy import AuditFilter
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import operators as shapes
from headway.surfaces.http.schemas.installation import QuotaUse
from headway.surfaces.web.static_files import load_site

routes = APIRouter(prefix="/v1", tags=["operator"])

HALT = TypeAdapter(shapes.NewHalt)
LIMIT = TypeAdapter(shapes.CostLimit)
MARKS = TypeAdapter(shapes.NoticeMarks)


@routes.get("/halt", summary="Get the state of the halt", **document_route({200: shapes.OneHalt}))
async def get_halt(request: Request) -> Response:
    return to_json_response(
        {"halt": halts.as_json(await RequestContext(request).read(lambda tx, _tenant_id: halts.find_active(tx)))}
    )


@routes.put("/halt", summary="Halt the whole installation", **document_route({200: shapes.OneHalt}, body=shapes.NewHalt))
async def put_halt(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(HALT)
    return to_json_response(
        {"halt": halts.as_json(await call.write(lambda tx, _: halts.halt(tx, body.why), tokens.authenticate_operator))}
    )


@routes.delete("/halt", summary="Lift the halt", **document_route({200: shapes.OneHalt}, also=(507,)))
async def delete_halt(request: Request) -> Response:
    await RequestContext(request).write(lambda tx, _: halts.unhalt(tx), tokens.authenticate_operator)
    return to_json_response({"halt": halts.as_json(None)})


@routes.get("/costs", summary="Get the costs of the last 24 hours", **document_route({200: shapes.OneCosts}))
async def get_costs(request: Request) -> Response:
    call = RequestContext(request)
    budget, unpriced = call.headway.settings.limits.budget, await list_unpriced(call)
    return to_json_response({"costs": await call.read(lambda tx, tenant_id: spending.build_costs(tx, tenant_id, budget, unpriced))})


@routes.get(
    "/costs/history",
    summary="Get what agents spent per day, by model, role or goal",
    **document_route({200: shapes.OneHistory}, query=shapes.HistoryQuery),
)
async def get_history(request: Request) -> Response:
    """Days are in UTC. The eight groups that cost the most are named, and all others are one group."""
    call = RequestContext(request)
    query = await call.query(shapes.HistoryQuery)
    history = await call.read(lambda tx, tenant_id: spending_history.build_history(tx, tenant_id, query.days, query.by))
    return to_json_response({"history": history})


async def list_unpriced(call: RequestContext) -> list[str]:
    """List the models without a price, on another thread: right after the start, the price list has yet to be loaded."""
    return await asyncio.to_thread(lambda: call.headway.unpriced_models)


@routes.put("/costs", summary="Set the tenant's cost limit", **document_route({200: shapes.OneCosts}, body=shapes.CostLimit))
async def put_costs(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(LIMIT)
    budget, unpriced = call.headway.settings.limits.budget, await list_unpriced(call)

    def change(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        spending.set_limit(tx, tenant_id, int(body.limit_usd * NANOS_PER_DOLLAR))
        return spending.build_costs(tx, tenant_id, budget, unpriced)

    return to_json_response({"costs": await call.write(change, tokens.authenticate_operator)})


@routes.get("/quotas", summary="Get what the tenant uses of its quotas", **document_route({200: QuotaUse}))
async def get_quotas(request: Request) -> Response:
    return to_json_response(await RequestContext(request).read(quotas.describe_usage))


@routes.get(
    "/audit",
    summary="List who changed access, limits or rules, newest first",
    **document_route({200: shapes.ManyAuditEntries}, query=shapes.AuditQuery),
)
async def list_audit(request: Request) -> Response:
    """The entries of the tenant and of the installation, for a token with the operator scope. With a filter, a page may have fewer
    entries than `limit`, also none, although more follow: continue until `next_cursor` is null."""
    call = RequestContext(request)
    query = await call.query(shapes.AuditQuery)
    chosen = AuditFilter(query.action, query.since * 1000, query.who, query.target, query.until * 1000)

    def load(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        tokens.authenticate_operator(tx, call.digest)
        return audit.list_page(tx, tenant_id, chosen, query.limit, query.cursor)

    return to_json_response(await call.read(load))


@routes.get(
    "/notices",
    summary="List notices to the operator, newest first",
    **document_route({200: shapes.ManyNotices}, query=shapes.NoticesQuery),
)
async def list_notices(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.NoticesQuery)
    is_done = None if query.state is None else query.state == "done"
    page = query.limit, query.cursor
    return to_json_response(await call.read(lambda tx, tenant_id: notices.get_inbox(tx, tenant_id, *page, is_done=is_done)))


@routes.post(
    "/notices/done",
    summary="Mark notices as done, or open them again",
    **document_route({200: shapes.MarkedNotices}, body=shapes.NoticeMarks, idempotent=True),
)
async def mark_notices(request: Request) -> Response:
    """Those with the given `ids`, or all up to the number `up_to`. Ids that do not exist are skipped."""
    call = RequestContext(request)
    body = await call.body(MARKS)

    def mark(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"changed": notices.mark(tx, tenant_id, body.ids, body.up_to, is_done=body.done)}

    return await call.post(mark, 200)


@routes.get("/session", summary="Get the tenant and the permissions of the token", **document_route({200: shapes.OneSession}))
async def get_session(request: Request) -> Response:
    call = RequestContext(request)

    def load(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        token = tokens.authenticate(tx, call.digest)
        tenant = tenants.get(tx, tenant_id)
        rights = {"operator": token.operator, "host": tokens.is_host(token, tenant), "scopes": token.scopes.split(",")}
        workspace = settings.get_workspace(tenant_id) if token.operator else None
        return {"tenant": tenant.name, **rights, "expires_at": token.expires_at // 1000, "workspace": workspace}

    settings = call.headway.settings
    return to_json_response({"session": {**await call.read(load), "model": settings.model, "page": load_site().build}})
