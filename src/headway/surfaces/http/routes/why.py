"""/v1/why: the events and decisions that led to the present state of a todo, turn, goal or job"""

from typing import get_args

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.inspection import why
from headway.actions.inspection.why import WhyKind
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas.inspection import ExplanationQuery, ExplanationShape

routes = APIRouter(prefix="/v1/why", tags=["why"])

NUMBERED_KINDS: tuple[WhyKind, ...] = ("todo", "goal")


def add_route(kind: WhyKind) -> None:
    """Add the route GET /why/KIND/ID."""
    name = f"{kind}_id"

    async def handle(request: Request) -> Response:
        call = RequestContext(request)
        reference = str(await call.parse_path_id(name)) if kind in NUMBERED_KINDS else request.path_params[name]
        query = await call.query(ExplanationQuery)
        explanation = await call.read(lambda tx, tenant_id: why.explain(tx, tenant_id, kind, reference, query.limit))
        return to_json_response(explanation.as_json())

    described_as = document_route(
        {200: ExplanationShape}, also=(404,), query=ExplanationQuery, path={name: int if kind in NUMBERED_KINDS else str}
    )
    summary = f"Explain why a {kind} is in its present state, oldest event first"
    routes.get(f"/{kind}/{{{name}}}", summary=summary, **described_as)(handle)


for known_kind in get_args(WhyKind):
    add_route(known_kind)
