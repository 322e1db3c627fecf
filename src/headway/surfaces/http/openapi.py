"""The OpenAPI document: routes, their schemas under stable names, and their answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from headway import __version__
from headway.actions.history.timeline import TIMELINE_KINDS
from headway.agents.instructions.roles import SUPERVISOR
from headway.agents.mcp.config import ServerStatus
from headway.feed import TENANT_MOVED
from headway.ledger import goal, inbox, permission
from headway.ledger.check import Author, Proof
from headway.ledger.events import EventKind, RowChange
from headway.ledger.job import JobState
from headway.ledger.parsing.todo_fields import Priority
from headway.ledger.run import EffectState, MessageKind, MessageRole, RunStatus, SpendingGroup, TurnMode, TurnOutcome
from headway.ledger.tenancy import ConversationState, PlanSource, TokenScope, TurnStatus
from headway.ledger.tiers import Tier
from headway.ledger.todo import CompletedBy, Status
from headway.ledger.webhook import WebhookState
from headway.operations import (
    agents,
    board,
    conversations,
    fields,
    files,
    forks,
    front_ends,
    goals,
    jobs,
    memory,
    operators,
    people,
    schedules,
    tokens,
    turns,
    webhooks,
    why,
)
from headway.operations import todos as todo_schemas
from headway.operations.fields import NullIsAbsent
from headway.operations.files import Obstacle
from headway.operations.front_ends import OnDisconnect
from headway.operations.goals import PAUSE_KINDS
from headway.operations.operation import Answers, AnswerShape, Choice, Shape, list_tables
from headway.surfaces.http.problems import MEDIA_TYPE, STATUS_TITLES
from headway.surfaces.http.routing import HttpRoute
from headway.values.events import CHANGED_STATES, TenantMovedData, TypedEvent
from headway.values.value import OMITTED_KEY, SCHEMA_KEY

SCHEMA_REF: Final = "#/components/schemas/{model}"
ENUMS: Final[dict[str, Any]] = {
    "ApprovalState": inbox.ApprovalState,
    "CallState": EffectState,
    "CheckAuthor": Author,
    "CompletedBy": CompletedBy,
    "ConversationState": ConversationState,
    "Divergence": goal.Divergence,
    "DiffObstacle": Obstacle,
    "EventKind": EventKind,
    "GoalDecision": goal.Decision,
    "GoalSource": goal.GoalSource,
    "GoalStatus": goal.GoalStatus,
    "JobState": JobState,
    "McpServerStatus": ServerStatus,
    "MessageKind": MessageKind,
    "MessageRole": MessageRole,
    "OnDisconnect": OnDisconnect,
    "PlanSource": PlanSource,
    "PolicyDecision": permission.Decision,
    "Proof": Proof,
    "QuestionState": inbox.QuestionState,
    "RequestKind": inbox.RequestKind,
    "RequestState": inbox.RequestState,
    "RowChange": RowChange,
    "RunStatus": RunStatus,
    "SpendingGroup": SpendingGroup,
    "SubGoalMode": goal.SubGoalMode,
    "SubGoalStatus": goal.SubGoalStatus,
    "Tier": Tier,
    "TodoPriority": Priority,
    "TodoStatus": Status,
    "TokenScope": TokenScope,
    "TurnMode": TurnMode,
    "TurnOutcome": TurnOutcome,
    "TurnStatus": TurnStatus,
    "WebhookState": WebhookState,
}
ENUM_NAMES: Final = {get_args(values): name for name, values in ENUMS.items()} | {tuple(PAUSE_KINDS): "PauseKind"}
ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}  # arguments of tools, JSON Schemas and the like
DATA_KEYS: Final = ("const", "default", "enum", "examples")  # hold values, not schemas
RULES: Final = ("additionalProperties", "items", "maxProperties", "minProperties", "properties", "required", "type")
KEPT_BESIDE_REFERENCE: Final = ("default", "description")


def name_schemas(document: Mapping[str, Any], roles: list[str]) -> dict[str, Any]:
    """Return the document with short names of schemas. Each enum is a separate schema, and so is an object with any content, so
    that clients have one type for it instead of one per field. Titles of fields are left out: generators would name types by them.
    """
    enums = {name: list(values) for values, name in ENUM_NAMES.items()} | {"Role": roles}
    components = document["components"]
    schemas = {name: tidy(schema) | {"title": name} for name, schema in components["schemas"].items()}
    shared: dict[str, Any] = {name: {"type": "string", "enum": values, "title": name} for name, values in enums.items()}
    shared["JsonObject"] = ANY_OBJECT | {"title": "JsonObject"}
    assert not schemas.keys() & shared.keys(), sorted(schemas.keys() & shared.keys())
    paths = tidy(document["paths"])
    return {**document, "paths": paths, "components": {**components, "schemas": dict(sorted((schemas | shared).items()))}}


def tidy(part: Any) -> Any:
    if isinstance(part, list):
        return [tidy(item) for item in part]
    if not isinstance(part, dict):
        return part
    if name := find_shared(part):
        return {"$ref": SCHEMA_REF.format(model=name)} | {key: part[key] for key in KEPT_BESIDE_REFERENCE if key in part}
    return {
        key: value if key in DATA_KEYS else tidy(value)
        for key, value in part.items()
        if key != "title" or not isinstance(value, str)
    }


def find_shared(schema: Mapping[str, Any]) -> str | None:
    """Return the name of the schema that many fields have."""
    if {key: value for key, value in schema.items() if key in RULES} == ANY_OBJECT:
        return "JsonObject"
    values = schema.get("enum")
    return ENUM_NAMES.get(tuple(values)) if isinstance(values, list) else None


# Describes values as REST writes them, for the OpenAPI document.


class AnswerSchema(GenerateJsonSchema):
    """The schema of a value: every field is there unless it is marked, and times are epoch seconds."""

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return {"type": "integer"}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        if schema["schema"]["type"] == "datetime":
            return {"type": "integer", "description": "Epoch seconds; 0: not yet"}
        return super().nullable_schema(schema)

    def dataclass_field_schema(self, schema: core_schema.DataclassField) -> JsonSchemaValue:
        inner = schema["schema"]
        return self.generate_inner(inner["schema"] if inner["type"] == "default" else inner)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        described = super().dataclass_schema(schema)
        fields = described.get("properties", {}).items()
        return {**described, "required": [name for name, field in fields if not field.pop(OMITTED_KEY, False)]}


def describe_shapes(shapes: Iterable[Shape], ref_template: str) -> dict[str, Any]:
    """Return the schemas of bodies and answers, and of everything in them, by name."""
    kinds: dict[str, Any] = {}
    for shape in shapes:
        add_kind(kinds, shape)
    mode: JsonSchemaMode = "validation"
    inputs = [(name, mode, TypeAdapter(kind)) for name, kind in kinds.items()]
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template=ref_template, schema_generator=AnswerSchema)
    choices = {name: found[name, mode] for name, kind in kinds.items() if not isinstance(kind, type)}
    described: dict[str, Any] = replace_references({**definitions["$defs"], **choices}, ref_template)
    return described


def add_kind(kinds: dict[str, Any], shape: Shape) -> Any:
    """Add the type of a shape, by its name, and return it."""
    if isinstance(shape, type):
        return kinds.setdefault(shape.__name__, shape)
    if isinstance(shape, AnswerShape):
        kind = kinds.setdefault(shape.name, make_dataclass(shape.name, shape.members.items()))
        assert [*kind.__annotations__.items()] == [*shape.members.items()], f"two answers are called {shape.name}"
        return kind
    assert isinstance(shape, Choice)
    return kinds.setdefault(shape.name, reduce(or_, [add_kind(kinds, option) for option in shape.options]))


def replace_references(part: Any, ref_template: str) -> Any:
    """Refer to the schemas that fields name."""
    if isinstance(part, list):
        return [replace_references(item, ref_template) for item in part]
    if not isinstance(part, dict):
        return part
    named = {"$ref": ref_template.format(model=part[SCHEMA_KEY])} if SCHEMA_KEY in part else {}
    return named | {key: replace_references(value, ref_template) for key, value in part.items() if key != SCHEMA_KEY}


# Builds the OpenAPI document from what each route declares.


# The error statuses of every route, and the ones added by routes that require a token or accept a body. A route may add more.
COMMON_STATUSES = (429, 500, 503)
TOKEN_STATUSES = (400, 401, 403, 421, 422)
BODY_STATUSES = (408, 409, 413, 415, 507)
SCHEMA_MODULES = (
    todo_schemas,
    board,
    conversations,
    turns,
    agents,
    front_ends,
    goals,
    forks,
    people,
    files,
    memory,
    jobs,
    schedules,
    operators,
    tokens,
    webhooks,
    why,
)
BASE_CLASSES = (
    todo_schemas.TodoChangeRow,
    front_ends.FrontEndModel,
    todo_schemas.NewCheck,
    todo_schemas.NamedCheck,
)
PROBLEM_CONTENT = {"schema": {"$ref": SCHEMA_REF.format(model="Problem")}}
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
    return {key: value for key, value in fields.build_json_schema(body).items() if key != "$defs"}


def build_success_response(shape: Shape | None) -> dict[str, Any]:
    if shape is None:
        return {"description": "No content"}
    return {"description": "Success", "content": {"application/json": {"schema": build_reference(shape)}}}


def build_reference(shape: Shape) -> dict[str, Any]:
    name = shape.__name__ if isinstance(shape, type) else shape.name
    return {"$ref": SCHEMA_REF.format(model=name)}


def build_path_parameter(name: str, kind: type[int] | type[str]) -> dict[str, Any]:
    schema = fields.build_json_schema(fields.Id) if kind is int else {"type": "string", "minLength": 1, "maxLength": 200}
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
    schemas = describe_shapes([*models, *list_answers(), *list_event_data()], SCHEMA_REF)
    requests = {model.__name__ for model in models if issubclass(model, NullIsAbsent)}
    for model_name, schema in schemas.items():
        for name, field in schema.get("properties", {}).items():
            is_omitted = model_name not in requests and name not in schema.get("required", ())
            schema["properties"][name] = describe_default(drop_null(field) if is_omitted else field)
    schemas |= describe_events(schemas, SCHEMA_REF)
    for shape in (turns.ToolCall, turns.WritText):
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
            yield from filter(None, operation.answers.values())


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
    return is_ours and model not in BASE_CLASSES and not issubclass(model, fields.QueryModel)


# The schemas of events.

TIMELINE_ENTRY: Final = "TimelineEntry"
STREAMED_EVENT: Final = "StreamedEvent"
KINDS_WITHOUT_NUMBER: Final = ("text_delta", TENANT_MOVED)
NUMBER: Final = {"type": "integer", "description": "The number of the event in the log, or of the last one before it"}
STREAM: Final[dict[str, Any]] = {
    "type": "string",
    "contentMediaType": "text/event-stream",
    "description": "Server-Sent Events. Each has the fields of `contentSchema`",
}


class DeclaredEvent(NamedTuple):
    kind: str
    data: type[Any]

    @property
    def meaning(self) -> str:
        return " ".join((self.data.__doc__ or "").split())

    @property
    def has_number(self) -> bool:
        """Whether a client can continue its stream after this event."""
        return self.kind not in KINDS_WITHOUT_NUMBER


def list_events() -> Iterator[DeclaredEvent]:
    """List the events that streams have, with the types of their data."""
    for declared in get_args(TypedEvent):
        kind, data = get_args(declared)
        yield DeclaredEvent(get_args(kind)[0], data)
    yield DeclaredEvent(TENANT_MOVED, TenantMovedData)  # the library raises WrongCell instead


def list_event_data() -> list[type[Any]]:
    return [event.data for event in list_events()]


def describe_events(schemas: Mapping[str, Any], ref_template: str) -> dict[str, Any]:
    """Return the schemas of events in streams and lists, and of the states in them. `schemas` has the data and the whole states."""
    described = {
        name: {**schemas[whole], "required": [field for field in schemas[whole]["required"] if field not in lacking]}
        for name, (whole, lacking) in CHANGED_STATES.items()
    }
    streamed = {event.kind: describe_streamed(event, ref_template) for event in list_events()}
    described |= build_choice(STREAMED_EVENT, "event", streamed, ref_template)
    entries = {event.kind: describe_entry(event, ref_template) for event in list_events() if event.kind in TIMELINE_KINDS}
    return described | build_choice(TIMELINE_ENTRY, "kind", entries, ref_template)


def build_choice(name: str, tag: str, options: Mapping[str, Any], ref_template: str) -> dict[str, Any]:
    """Return the schemas of the options and of their union."""
    names = {kind: name_of(kind) + name for kind in options}
    references = {kind: ref_template.format(model=option) for kind, option in names.items()}
    union = {
        "oneOf": [{"$ref": reference} for reference in references.values()],
        "discriminator": {"propertyName": tag, "mapping": references},
    }
    return {name: union} | {names[kind]: option for kind, option in options.items()}


def describe_streamed(event: DeclaredEvent, ref_template: str) -> dict[str, Any]:
    data = {"$ref": ref_template.format(model=event.data.__name__)}
    number = {"id": NUMBER} if event.has_number else {}
    return build_object({**number, "event": {"type": "string", "const": event.kind}, "data": data}, event.meaning)


def describe_entry(event: DeclaredEvent, ref_template: str) -> dict[str, Any]:
    data = {"$ref": ref_template.format(model=event.data.__name__)}
    fields = {"seq": NUMBER, "kind": {"type": "string", "const": event.kind}, "data": data, "at": {"type": "integer"}}
    return build_object(fields, event.meaning)


def build_object(fields: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "object", "description": description, "properties": fields, "required": [*fields]}


def name_of(kind: str) -> str:
    """Return the name of a kind in the names of schemas: `todo_changed` is TodoChanged."""
    return kind.title().replace("_", "")


def build_stream_schema(ref_template: str) -> dict[str, Any]:
    """Return the schema of a stream of events."""
    return {**STREAM, "contentSchema": {"$ref": ref_template.format(model=STREAMED_EVENT)}}
