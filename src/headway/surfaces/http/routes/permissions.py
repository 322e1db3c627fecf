"""GET /v1/session: what the caller's token may do."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import rights, tokens
from headway.actions.installation import tenants
from headway.operations import operators as shapes
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.web.static_files import load_site

routes = HttpRoutes("/v1", "operator")


@routes.get("/session", summary="Get the tenant and the permissions of the token", **document_route({200: shapes.OneSession}))
async def get_session(request: Request) -> Response:
    call = RequestContext(request)

    def load(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        token = tokens.authenticate(tx, call.digest)
        tenant = tenants.get_tenant(tx, tenant_id)
        scope = rights.get_scope(tx, token)
        is_operator = scope == "operator"
        may = {"admin": scope in ("admin", "operator"), "operator": is_operator, "host": is_operator}
        workspace = settings.get_workspace(tenant_id) if rights.has_right(tx, token, "see_host_paths") else None
        return {
            "tenant": tenant.name,
            **may,
            "scopes": tokens.list_scopes(scope).split(","),
            "expires_at": token.expires_at // 1000,
            "workspace": workspace,
        }

    settings = call.headway.settings
    return to_json_response({"session": {**await call.read(load), "model": settings.model, "page": load_site().build}})
