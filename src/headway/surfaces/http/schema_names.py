"""Names the schemas of the OpenAPI document. Generated clients have types with these names."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from headway.agents.mcp.config import ServerStatus
from headway.ledger import goal, inbox, permission
from headway.ledger.check import Author, Proof
from headway.ledger.job import JobState
from headway.ledger.parsing.todo_fields import Priority
from headway.ledger.run import EffectState, MessageKind, MessageRole, RunStatus, SpendingGroup, TurnMode, TurnOutcome
from headway.ledger.tenancy import ConversationState, PlanSource, TokenScope, TurnStatus
from headway.ledger.tiers import Tier
from headway.ledger.todo import CompletedBy, Status
from headway.ledger.webhook import WebhookState
from headway.operations.schemas.files import Obstacle
from headway.operations.schemas.front_ends import OnDisconnect
from headway.operations.schemas.goals import PAUSE_KINDS

PREFIX: Final = "#/components/schemas/"
SUFFIXES: Final = ("Shape", "Body")  # distinguish our classes from those of the ledger, and mean nothing to others
ENUMS: Final[dict[str, Any]] = {
    "ApprovalState": inbox.ApprovalState,
    "CallState": EffectState,
    "CheckAuthor": Author,
    "CompletedBy": CompletedBy,
    "ConversationState": ConversationState,
    "Divergence": goal.Divergence,
    "DiffObstacle": Obstacle,
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
    schemas = {shorten(name): tidy(schema) | {"title": shorten(name)} for name, schema in components["schemas"].items()}
    shared: dict[str, Any] = {name: {"type": "string", "enum": values, "title": name} for name, values in enums.items()}
    shared["JsonObject"] = ANY_OBJECT | {"title": "JsonObject"}
    assert not schemas.keys() & shared.keys(), sorted(schemas.keys() & shared.keys())
    paths = tidy(document["paths"])
    return {**document, "paths": paths, "components": {**components, "schemas": dict(sorted((schemas | shared).items()))}}


def tidy(part: Any) -> Any:
    if isinstance(part, list):
        return [tidy(item) for item in part]
    if isinstance(part, str) and part.startswith(PREFIX):
        return PREFIX + shorten(part.removeprefix(PREFIX))
    if not isinstance(part, dict):
        return part
    if name := find_shared(part):
        return {"$ref": PREFIX + name} | {key: part[key] for key in KEPT_BESIDE_REFERENCE if key in part}
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


def shorten(name: str) -> str:
    """Return the name of a schema without a suffix: `TodoShape` is `Todo`."""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name
