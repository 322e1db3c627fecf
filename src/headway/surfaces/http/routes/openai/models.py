"""/v1/models: the roles of the agents, as models."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from headway.agents.instructions.roles import Role, UnknownRole
from headway.operations.schemas import openai
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes

routes = HttpRoutes("/v1", "openai")


@routes.get(
    "/models", summary="List the roles of the agents, as models", **document_route({200: openai.OpenAiModels}, openai_errors=True)
)
async def list_models(request: Request) -> Response:
    call = RequestContext(request)
    await call.read(lambda _tx, _tenant_id: None)
    models = [describe_role(role) for role in call.headway.roles.by_name.values()]
    return to_json_response({"object": "list", "data": models})


@routes.get(
    "/models/{model}",
    summary="Get a role, as a model",
    **document_route({200: openai.OpenAiModel}, also=(404,), path={"model": str}, openai_errors=True),
)
async def get_model(request: Request) -> Response:
    call = RequestContext(request)
    await call.read(lambda _tx, _tenant_id: None)
    try:
        return to_json_response(describe_role(call.headway.roles.find(request.path_params["model"])))
    except UnknownRole:
        raise Problem(404, "model_not_found", "There is no such model. GET /v1/models lists them.") from None


def describe_role(role: Role) -> dict[str, Any]:
    return {"id": role.name, "object": "model", "created": 0, "owned_by": "headway", "description": role.description}
