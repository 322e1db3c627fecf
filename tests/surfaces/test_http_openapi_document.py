"""The OpenAPI document lists every route of the API, and every route it lists exists."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from headway.surfaces.http.problems import is_openai_path
from tests.surfaces.in_process_app import open_app
from tests.surfaces.openapi_routes import get_document, list_operations
from tests.surfaces.server_harness import LOCAL_OPTIONS, Client, Service

# Not in the document: the web pages, the document itself, and MCP, which has its own protocol.
PAGES = (
    "/",
    "/c/{conversation_id}",
    "/board",
    "/todos/{todo_id}",
    "/goals",
    "/goals/{goal_id}",
    "/compare/{turn_id}/{other}",
    "/inbox",
    "/inbox/{request_id}",
    "/memory",
    "/todos/{todo_id}",
    "/files",
    "/files/{file_id}",
    "/operations",
    "/operations/{tab}",
    "/static/{build}/{name}",
    "/login",
)
NOT_DESCRIBED = {("GET", page) for page in PAGES}
NOT_DESCRIBED |= {("POST", "/login"), ("POST", "/logout"), ("GET", "/openapi.json")}
NOT_DESCRIBED |= {(method, "/mcp") for method in ("GET", "POST", "DELETE")}
PROMISED = {
    "POST /v1/todos",
    "GET /v1/todos",
    "PATCH /v1/todos",
    "GET /v1/todos/ready",
    "POST /v1/todos/claim",
    "GET /v1/todos/{todo_id}",
    "PATCH /v1/todos/{todo_id}",
    "DELETE /v1/todos/{todo_id}",
    "POST /v1/todos/{todo_id}/heartbeat",
    "POST /v1/conversations",
    "GET /v1/conversations",
    "GET /v1/conversations/{conversation_id}",
    "GET /v1/conversations/{conversation_id}/events",
    "GET /v1/conversations/{conversation_id}/messages",
    "GET /v1/conversations/{conversation_id}/timeline",
    "GET /v1/audit",
    "GET /v1/notices",
    "GET /v1/session",
    "POST /v1/conversations/{conversation_id}/messages",
    "POST /v1/ag-ui",
    "POST /v1/ui-stream",
    "GET /v1/models",
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "GET /v1/responses/{response_id}",
    "POST /v1/turns",
    "POST /v1/turns/{turn_id}/cancel",
    "GET /v1/turns/{turn_id}",
    "POST /v1/turns/{turn_id}/messages",
    "POST /v1/agents/{run_id}/messages",
    "POST /v1/goals",
    "GET /v1/goals",
    "GET /v1/goals/{goal_id}",
    "GET /v1/goals/{goal_id}/journal",
    "POST /v1/goals/{goal_id}/decision",
    "GET /v1/events",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
}


def find_references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for below in part.values():
            yield from find_references(below)
    elif isinstance(part, list):
        for below in part:
            yield from find_references(below)


def test_every_route_of_the_app_is_in_the_document(tmp_path: Path, sqlite_client: Client) -> None:
    async def list_served_routes() -> set[tuple[str, str]]:
        async with open_app(tmp_path) as (app, _, _):
            return {(method, route.path_format) for route in app.routes for method in route.methods or ()}

    served = asyncio.run(list_served_routes())
    assert served - NOT_DESCRIBED == {(operation.method, operation.path) for operation in list_operations(sqlite_client)}
    assert served >= NOT_DESCRIBED


def test_the_promised_routes_exist(sqlite_client: Client) -> None:
    routes = {f"{operation.method} {operation.path}" for operation in list_operations(sqlite_client)}

    assert routes >= PROMISED


def test_every_reference_leads_somewhere_and_every_shape_is_referred_to(sqlite_client: Client) -> None:
    document = get_document(sqlite_client)
    schemas = document["components"]["schemas"]
    referred, waiting = set[str](), set(find_references(document["paths"]))
    while waiting:
        name = waiting.pop().removeprefix("#/components/schemas/")
        assert name in schemas
        referred.add(name)
        waiting |= {below for below in find_references(schemas[name]) if below.rpartition("/")[2] not in referred}

    assert referred == set(schemas)


def test_streams_declare_the_data_of_their_events(sqlite_client: Client) -> None:
    """Except the streams in protocols of others."""
    streams = [operation for operation in list_operations(sqlite_client) if operation.streams]
    contents = {one.path: one.definition["responses"]["200"]["content"]["text/event-stream"] for one in streams}
    declared = {path for path, content in contents.items() if content}

    assert contents.keys() - declared == {
        "/v1/ag-ui",
        "/v1/ui-stream",
        "/v1/ui-stream/{key}/stream",
        "/v1/chat/completions",
        "/v1/responses",
    }
    assert {contents[path]["schema"]["contentSchema"]["$ref"] for path in declared} == {"#/components/schemas/StreamedEvent"}


def test_every_operation_documents_its_purpose_security_and_errors(sqlite_client: Client) -> None:
    operations = list_operations(sqlite_client)
    for operation in operations:
        definition = operation.definition
        assert definition["summary"]
        assert definition["tags"]
        assert ("security" in definition) == operation.path.startswith("/v1/")
        in_path = {parameter["name"] for parameter in definition.get("parameters", ()) if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"\{(.*?)\}", operation.path))
        statuses = set(map(int, definition["responses"]))
        assert statuses >= {429, 500, 503} | ({401, 403, 422} if "security" in definition else set())
        assert not operation.takes_body or statuses >= {400, 408, 413, 415}
        for status, answer in definition["responses"].items():
            if int(status) >= 400:
                is_openai = is_openai_path(operation.path)
                assert answer["content"].keys() == {"application/json" if is_openai else "application/problem+json"}
    names = [operation.definition["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    assert {"list_todos", "create_todo", "get_todo", "pause_goal", "steer_turn", "list_turn_messages", "explain_job"} <= set(names)
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+){1,3}", name)] == []


def test_fields_with_defaults_are_optional_in_generated_types(sqlite_client: Client) -> None:
    """Generators require a field that has a `default`, even if it is not required."""
    schemas = get_document(sqlite_client)["components"]["schemas"]
    assert [
        name for name, schema in schemas.items() if any("default" in field for field in schema.get("properties", {}).values())
    ] == []
    assert schemas["NewGoal"]["properties"]["priority"]["description"].endswith("50")


def walk_schemas(part: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a part of the document with its place. Values in it are no schemas."""
    if isinstance(part, dict):
        yield place, part
        for key, below in part.items():
            if key not in ("const", "default", "enum", "examples", "mapping"):
                yield from walk_schemas(below, f"{place}/{key}")
    elif isinstance(part, list):
        for index, below in enumerate(part):
            yield from walk_schemas(below, f"{place}/{index}")


def list_unions(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Every place where a value has one of several types, null aside, with these types."""
    schemas = document["components"]["schemas"]
    for place, schema in walk_schemas({"paths": document["paths"], "schemas": schemas}):
        options = [option for option in schema.get("oneOf", schema.get("anyOf", ())) if option.get("type") != "null"]
        if len(options) > 1:
            yield place, schema, [schemas[option["$ref"].rpartition("/")[2]] if "$ref" in option else option for option in options]


def can_be_told_apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether programs can tell two objects apart: by a constant, or by a field that only one of them has."""
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    constants = [(mine[name].get("const"), theirs[name].get("const")) for name in mine.keys() & theirs.keys()]
    owns = [set(first.get("required", ())) - second.keys() for first, second in ((one, theirs), (other, mine))]
    return any(a is not None and b is not None and a != b for a, b in constants) or all(owns)


def test_unions_narrow_in_generated_types(sqlite_client: Client) -> None:
    unions = list(list_unions(get_document(sqlite_client)))
    assert len(unions) > 5
    for place, schema, options in unions:
        kinds = [option["type"] for option in options]
        if "discriminator" in schema:
            name = schema["discriminator"]["propertyName"]
            assert {option["properties"][name]["const"] for option in options} == set(schema["discriminator"]["mapping"]), place
        elif len(set(kinds)) < len(kinds):
            assert all(can_be_told_apart(one, other) for i, one in enumerate(options) for other in options[:i]), place


def test_types_have_names(sqlite_client: Client) -> None:
    """Generators make up names for what has none: `NewTodoStatus`, `TodoStatus1`, `ArgumentsType0`."""
    document = get_document(sqlite_client)
    schemas = document["components"]["schemas"]
    enums = dict[str, list[str]]()
    for place, schema in walk_schemas({"paths": document["paths"], "schemas": schemas}):
        is_field = place.count("/") > 2
        assert not is_field or isinstance(schema.get("title", {}), dict), place
        assert not {"ge", "gt", "le", "lt"} & schema.keys() or "/properties" in place[-12:], place
        if is_field and isinstance(schema.get("enum"), list):
            enums.setdefault(json.dumps(schema["enum"]), []).append(place)
        if is_field and schema.get("type") == "object":
            assert "properties" not in schema, place
            assert schema["additionalProperties"] is not True or "maxProperties" in schema, place
    assert {values: places for values, places in enums.items() if len(places) > 1} == {}
    assert {"Todo", "TodoStatus", "Goal", "GoalStatus", "Check", "Problem", "JsonObject", "NewTodo"} <= schemas.keys()
    assert [name for name in schemas if name.endswith(("Shape", "Body"))] == []
    for name, schema in schemas.items():
        assert schema["title"] == name
        # A generated class that has a local variable for each of its fields, and one for itself, needs two names.
        own = schema.get("properties", {}).get(re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower(), {})
        assert "$ref" not in own, name
        assert "items" not in own, name


def test_bodies_refuse_unknown_fields(sqlite_client: Client) -> None:
    document = get_document(sqlite_client)
    bodies = [
        operation.definition["requestBody"]["content"]["application/json"]["schema"]
        for operation in list_operations(sqlite_client)
        if operation.takes_body
    ]
    names = {reference.rpartition("/")[2] for body in bodies for reference in find_references(body)}
    closed = [document["components"]["schemas"][name] for name in names] + [body for body in bodies if "properties" in body]

    assert len(closed) > 5
    # The rows of a batch update are validated one by one when applied, and the front-end protocols are third-party.
    loose = {schema["title"] for schema in closed if schema["additionalProperties"] is not False}
    assert loose == {"LooseRow", "RunAgentInput", "UiMessages", "ChatCompletionRequest", "ResponseRequest"}


def test_the_document_needs_no_token_and_is_the_same_for_all(sqlite_service: Service) -> None:
    first, second = (httpx.get(f"{sqlite_service.url}/openapi.json", **LOCAL_OPTIONS) for _ in range(2))

    assert first.headers["content-type"] == "application/json"
    assert first.content == second.content
    assert json.loads(first.content)["openapi"].startswith("3.1")
