"""The OpenAPI document: what FastAPI cannot see of handlers that take the plain request, said beside each route."""

from collections.abc import Iterable, Sequence
from typing import Any

from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from headway import __version__
from headway.agents.roles import SUPERVISOR
from headway.surfaces.http import agent_shapes, engine_shapes, front_shapes, goal_shapes, operator_shapes, shapes
from headway.surfaces.http.problems import MEDIA_TYPE, TITLES

# What every route can answer with, what one that lets in by token adds, and one that takes a body. A route adds its own.
ALWAYS = (429, 500, 503)
BY_TOKEN = (400, 401, 403, 422)
WITH_BODY = (408, 409, 413, 415, 507)
SHAPES = (shapes, agent_shapes, front_shapes, goal_shapes, engine_shapes, operator_shapes)
SCHEMA_REF = "#/components/schemas/{model}"
PROBLEM = {"schema": {"$ref": SCHEMA_REF.format(model="ProblemShape")}}

IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body give the same answer again for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"},
}


def described(
    answers: dict[int, type[BaseModel] | None],
    *,
    also: tuple[int, ...] = (),
    body: Any = None,
    query: type[BaseModel] | None = None,
    path: dict[str, type[int] | type[str]] | None = None,
    headers: tuple[dict[str, Any], ...] = (),
    idempotent: bool = False,
    public: bool = False,
) -> dict[str, Any]:
    """The documentation of a route, as arguments for FastAPI's decorator."""
    statuses = {*ALWAYS, *also, *(() if public else BY_TOKEN), *(() if body is None else WITH_BODY)}
    problems = {status: {"description": TITLES[status], "content": {MEDIA_TYPE: PROBLEM}} for status in sorted(statuses)}
    parameters = [path_parameter(name, kind) for name, kind in (path or {}).items()] + query_parameters(query) + list(headers)
    extra: dict[str, Any] = {} if public else {"security": [{"token": []}]}
    if idempotent:
        parameters.append(IDEMPOTENCY_KEY)
    if parameters:
        extra["parameters"] = parameters
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": body_schema(body)}}}
    good = {status: good_answer(shape) for status, shape in answers.items()}
    return {"status_code": min(answers), "responses": {**good, **problems}, "openapi_extra": extra, "response_model": None}


def body_schema(body: Any) -> dict[str, Any]:
    if is_shape(body):
        return reference(body)
    return {key: value for key, value in shapes.documented(body).items() if key != "$defs"}


def good_answer(shape: type[BaseModel] | None) -> dict[str, Any]:
    if shape is None:
        return {"description": "Nothing to say"}
    return {"description": "Done", "content": {"application/json": {"schema": reference(shape)}}}


def reference(shape: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": SCHEMA_REF.format(model=shape.__name__)}


def path_parameter(name: str, kind: type[int] | type[str]) -> dict[str, Any]:
    schema = shapes.documented(shapes.Id) if kind is int else {"type": "string", "minLength": 1, "maxLength": 200}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def query_parameters(query: type[BaseModel] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    schema = query.model_json_schema(ref_template=SCHEMA_REF)
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": without_null(one)}
        for name, one in schema["properties"].items()
    ]


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query cannot say null; leaving a parameter out is how it is not given."""
    kinds = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default") or value is not None}
    if not kinds:
        return rest
    rest.pop("anyOf")
    return {**rest, **kinds[0]} if len(kinds) == 1 else {**rest, "anyOf": kinds}


def document(routes: Sequence[BaseRoute], roles: Iterable[str]) -> dict[str, Any]:
    """FastAPI's document of these routes, with the shapes they refer to, the roles of this installation, and the way in."""
    about = "The work ledger and the engine room of LLM agents."
    document = get_openapi(title="Headway", version=__version__, description=about, routes=routes)
    models = [one for module in SHAPES for one in vars(module).values() if is_shape(one)]
    _, schemas = models_json_schema([(one, "validation") for one in models], ref_template=SCHEMA_REF)
    components = document.setdefault("components", {})
    components["schemas"] = components.get("schemas", {}) | schemas["$defs"]
    for shape in (agent_shapes.ToolCall, agent_shapes.WritText):
        components["schemas"][shape.__name__]["properties"]["role"]["enum"] = [SUPERVISOR, *roles, None]
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "hw_…"}}
    return document


def is_shape(one: Any) -> bool:
    """Whether a body or an answer looks like this. Queries are described parameter by parameter, rows as loosely as taken in."""
    ours = isinstance(one, type) and issubclass(one, BaseModel) and one.__module__ in {module.__name__ for module in SHAPES}
    ours = ours and one.__name__.isidentifier()  # pydantic leaves generic ones of its own making beside ours
    return (
        ours
        and one not in (shapes.NullIsAbsent, shapes.Sent, shapes.TodoRow, front_shapes.FromFront)
        and not issubclass(one, shapes.Query)
    )
