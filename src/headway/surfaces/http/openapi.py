"""Builds the OpenAPI document from what each route declares."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel

from headway import __version__
from headway.agents.instructions.roles import SUPERVISOR
from headway.operations.operation import Answers, Shape
from headway.operations.schemas import (
    agents,
    board,
    checks,
    conversations,
    engine,
    files,
    forks,
    front_ends,
    goals,
    inspection,
    installation,
    job_queue,
    memory,
    openai,
    operators,
    people,
    tokens,
    webhooks,
)
from headway.operations.schemas import todos as todo_schemas
from headway.operations.schemas.strict_model import NullIsAbsent
from headway.operations.tables import list_tables
from headway.surfaces.http.answer_schemas import describe_shapes
from headway.surfaces.http.problems import MEDIA_TYPE, STATUS_TITLES
from headway.surfaces.http.routing import HttpRoute
from headway.surfaces.http.schema_names import name_schemas

# The error statuses of every route, and those added by routes that require a token or accept a body. A route may add more.
COMMON_STATUSES = (429, 500, 503)
TOKEN_STATUSES = (400, 401, 403, 421, 422)
BODY_STATUSES = (408, 409, 413, 415, 507)
SCHEMA_MODULES = (
    todo_schemas,
    board,
    conversations,
    checks,
    agents,
    front_ends,
    openai,
    goals,
    forks,
    people,
    files,
    memory,
    job_queue,
    engine,
    operators,
    tokens,
    installation,
    webhooks,
    inspection,
)
BASE_CLASSES = (
    todo_schemas.TodoChangeRow,
    front_ends.FrontEndModel,
    checks.NewCheck,
    checks.NamedCheck,
    operators.GroupTotals,
)
SCHEMA_REF = "#/components/schemas/{model}"
PROBLEM_CONTENT = {"schema": {"$ref": SCHEMA_REF.format(model="ProblemShape")}}
OPENAI_ERROR_CONTENT = {"schema": {"$ref": SCHEMA_REF.format(model="OpenAiError")}}

IDEMPOTENCY_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "For 24 hours, repeating a request with the same key and body returns the first response.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"},
}


def document_route(
    answers: Answers,
    *,
    also: tuple[int, ...] = (),
    body: Any = None,
    query: type[BaseModel] | None = None,
    path: dict[str, type[int] | type[str]] | None = None,
    headers: tuple[dict[str, Any], ...] = (),
    idempotent: bool = False,
    public: bool = False,
    openai_errors: bool = False,
) -> dict[str, Any]:
    """Return the documentation of a route as keyword arguments for the decorators of HttpRoutes."""
    statuses = {*COMMON_STATUSES, *also, *(() if public else TOKEN_STATUSES), *(() if body is None else BODY_STATUSES)}
    content = {"application/json": OPENAI_ERROR_CONTENT} if openai_errors else {MEDIA_TYPE: PROBLEM_CONTENT}
    problems = {status: {"description": STATUS_TITLES[status], "content": content} for status in sorted(statuses)}
    parameters = (
        [build_path_parameter(name, kind) for name, kind in (path or {}).items()] + build_query_parameters(query) + list(headers)
    )
    extra: dict[str, Any] = {} if public else {"security": [{"token": []}]}
    if idempotent:
        parameters.append(IDEMPOTENCY_KEY_PARAMETER)
    if parameters:
        extra["parameters"] = parameters
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": build_body_schema(body)}}}
    successes = {status: build_success_response(shape) for status, shape in answers.items()}
    return {"responses": {**successes, **problems}, **extra}


def build_body_schema(body: Any) -> dict[str, Any]:
    if is_document_schema(body):
        return build_reference(body)
    return {key: value for key, value in todo_schemas.build_json_schema(body).items() if key != "$defs"}


def build_success_response(shape: Shape | None) -> dict[str, Any]:
    if shape is None:
        return {"description": "No content"}
    return {"description": "Success", "content": {"application/json": {"schema": build_reference(shape)}}}


def build_reference(shape: Shape) -> dict[str, Any]:
    name = shape.__name__ if isinstance(shape, type) else shape.name
    return {"$ref": SCHEMA_REF.format(model=name)}


def build_path_parameter(name: str, kind: type[int] | type[str]) -> dict[str, Any]:
    schema = (
        todo_schemas.build_json_schema(todo_schemas.Id) if kind is int else {"type": "string", "minLength": 1, "maxLength": 200}
    )
    return {"name": name, "in": "path", "required": True, "schema": schema}


def build_query_parameters(query: type[BaseModel] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    schema = query.model_json_schema(ref_template=SCHEMA_REF)
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": drop_null(property_schema)}
        for name, property_schema in schema["properties"].items()
    ]


def drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from the types of a field that is omitted instead: a parameter of a query, or an optional field of an answer."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    fields = {key: value for key, value in schema.items() if key not in ("anyOf", "default") or value is not None}
    if not kinds:
        return fields
    fields.pop("anyOf")
    return {**fields, **kinds[0]} if len(kinds) == 1 else {**fields, "anyOf": kinds}


def build_openapi(routes: Sequence[HttpRoute], roles: Iterable[str]) -> dict[str, Any]:
    """Build the document of these routes, with the schemas they refer to, the configured roles and the security scheme."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.tag:
            paths.setdefault(route.documented_path, {})[route.method.lower()] = route.describe()
    models = [candidate for module in SCHEMA_MODULES for candidate in vars(module).values() if is_document_schema(candidate)]
    schemas = describe_shapes([*models, *list_answers()], SCHEMA_REF)
    requests = {model.__name__ for model in models if issubclass(model, NullIsAbsent)}
    for model_name, schema in schemas.items():
        for name, field in schema.get("properties", {}).items():
            is_omitted = model_name not in requests and name not in schema.get("required", ())
            schema["properties"][name] = describe_default(drop_null(field) if is_omitted else field)
    for shape in (agents.ToolCall, agents.WritText):
        role_field = schemas[shape.__name__]["properties"]["role"]
        role_field["anyOf"][0] = {"$ref": SCHEMA_REF.format(model="Role")}
    token = {"type": "http", "scheme": "bearer", "bearerFormat": "hw_…"}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Headway", "description": "A work ledger and runtime for LLM agents.", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": token}},
    }
    return name_schemas(document, [SUPERVISOR, *roles])


def list_answers() -> Iterator[Shape]:
    """List what operations answer, apart from the models."""
    for table in list_tables():
        for operation in table.operations:
            yield from (shape for shape in operation.answers.values() if shape and not isinstance(shape, type))


def describe_default(field: dict[str, Any]) -> dict[str, Any]:
    """Describe the default in words: generators of clients take a field with a `default` to be always there, and require it."""
    described = {key: value for key, value in field.items() if key != "default"}
    default = field.get("default")
    if default not in (None, "", []):
        described["description"] = (
            f"{field['description']}. Default: {default}" if "description" in field else f"Default: {default}"
        )
    return described


def is_document_schema(model: Any) -> bool:
    """Return whether a model describes a body or an answer. Queries are documented parameter by parameter, batch rows loosely."""
    is_ours = (
        isinstance(model, type)
        and issubclass(model, BaseModel)
        and model.__module__ in {module.__name__ for module in SCHEMA_MODULES}
    )
    is_ours = is_ours and model.__name__.isidentifier()  # excludes the generic models that pydantic adds to the module
    return is_ours and model not in BASE_CLASSES and not issubclass(model, todo_schemas.QueryModel)
