"""/v1/tenants: those who run the installation see all tenants and create new ones."""

from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import tenants, tokens
from headway.operations.schemas import installation as shapes
from headway.operations.schemas.todos import CursorQuery
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.secret_answers import post_secret

routes = HttpRoutes("/v1", "operator")

NEW_TENANT = TypeAdapter(shapes.NewTenant)


@routes.get(
    "/tenants",
    summary="List all tenants with what each uses, oldest first",
    **document_route({200: shapes.ManyTenants}, query=CursorQuery),
)
async def list_tenants(request: Request) -> Response:
    """Needs the operator scope."""
    call = RequestContext(request)
    query, budget = await call.query(CursorQuery), call.headway.settings.limits.budget

    def view(tx: Transaction, _tenant_id: int) -> dict[str, Any]:
        tokens.authenticate_for("see_tenants")(tx, call.digest)
        return tenants.list_page(tx, budget, query.limit, query.cursor)

    return to_json_response(await call.read(view))


@routes.post(
    "/tenants",
    summary="Create a tenant with a token for its administrator",
    **document_route({201: shapes.CreatedTenant}, body=shapes.NewTenant, idempotent=True),
)
async def create_tenant(request: Request) -> Response:
    """Needs the operator scope. The new token cannot outlive that one. A repeated Idempotency-Key gets the
    same answer without the secret."""
    call = RequestContext(request)
    body = await call.body(NEW_TENANT)

    def create(tx: Transaction, _tenant_id: int) -> dict[str, Any]:
        tenant, created = tenants.add_with_token(tx, tokens.authenticate(tx, call.digest), body.name)
        return {"tenant": tenant.as_json(), "token": created.token.as_json(), "secret": created.secret}

    return await post_secret(call, create, tokens.authenticate_for("add_tenants"))
