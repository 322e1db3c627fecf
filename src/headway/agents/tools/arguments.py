"""The arguments of tools: their base class, the types of their fields, and the JSON schema that a model gets."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.parsing.todo_fields import (
    FIELDS,
    FILTERS,
    LABEL_LIMIT,
    LABEL_PATTERN,
    LABELS_LIMIT,
    LATEST_SECOND,
    Priority,
    parse_filters,
)
from headway.ledger.scope import Selection
from headway.ledger.text import check_numbers, format_path


class Arguments(BaseModel):
    """Base class of tool arguments. Unknown arguments are rejected, and null for an optional argument means absent.

    Numbers may arrive as text, and lists and objects as JSON text, because models often send them that way.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def normalise_arguments(cls, arguments: Any) -> Any:
        arguments = parse_json_text(arguments)
        if not isinstance(arguments, dict):
            return arguments
        optional = {field.alias or name for name, field in cls.model_fields.items() if not field.is_required()}
        present = {name: value for name, value in arguments.items() if value is not None or name not in optional}
        return {name: parse_json_text(value, name) if cls.takes_json(name) else value for name, value in present.items()}

    @classmethod
    def takes_json(cls, name: str) -> bool:
        """Return whether this argument can only be a list or an object."""
        return build_input_schema(cls)["properties"].get(name, {}).get("type") in ("array", "object")


Label = Annotated[str, Field(max_length=LABEL_LIMIT, json_schema_extra={"pattern": LABEL_PATTERN})]
TIME_SCHEMA: Final = {
    "anyOf": [{"type": "integer", "minimum": 1, "maximum": LATEST_SECOND}, {"type": "string", "format": "iso-time"}],
    "description": "an ISO date or time (UTC), or epoch seconds",
}
OVERDUE: Final = "only open todos whose `due` has passed"
Time = Annotated[int | float | str, WithJsonSchema(TIME_SCHEMA)]


class TodoFieldArguments(BaseModel):
    """The fields of `ledger.parsing.todo_fields`, for tools and REST."""

    priority: Priority | None = None
    due: Time | None = None
    labels: Annotated[list[Label], Field(max_length=LABELS_LIMIT)] | None = None

    def list_fields(self) -> dict[str, Any]:
        """Return the fields that were given, as they are stored. Null removes `due`, and is ignored for the others."""
        given = {field: getattr(self, field.name) for field in FIELDS if field.name in self.model_fields_set}
        return {field.name: field.parse(value) for field, value in given.items() if value is not None or field.name == "due"}


class TodoFieldFilters(BaseModel):
    """Selects todos by the fields of `ledger.parsing.todo_fields`."""

    priority: Priority | None = None
    label: Annotated[list[Label], Field(max_length=LABELS_LIMIT, description="all of them")] = []
    due_before: Time | None = None
    overdue: Annotated[bool, Field(description=OVERDUE)] = False

    def choose(self, selection: Selection, now: int) -> Selection:
        """Narrow a selection."""
        given = {option.name: getattr(self, option.name) for option in FILTERS}
        return selection._replace(fields=parse_filters(given, now))


class ViewFieldFilters(BaseModel):
    """Selects todos by one value of each of these fields, in the saved views of the board."""

    priority: Priority | None = None
    label: Label | None = None
    overdue: Annotated[bool | None, Field(description=OVERDUE)] = None


class AnyArguments(Arguments):
    """The arguments of a tool that an MCP server or a client runs, which checks them itself."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @classmethod
    def takes_json(cls, name: str) -> bool:
        return False


def parse_json_text(value: Any, name: str = "") -> Any:
    """Parse text that holds a JSON list or object; return any other value unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    check_numbers(parsed, (name,) if name else ())
    return parsed


def build_validator(rule: Callable[[Any, str], Any]) -> AfterValidator:
    """Turn one of the ledger's text rules into a validator, so that the error names the argument as the caller wrote it."""

    def check(value: Any) -> Any:
        try:
            return rule(value, "it")
        except Invalid as error:
            raise PydanticCustomError("refused_text", "{said}", {"said": str(error)}) from None

    return AfterValidator(check)


def parse_number(value: Any) -> Any:
    """Accept `#12`, as lists show a number. Pydantic reads the digits of a text."""
    return value.strip().removeprefix("#") if isinstance(value, str) else value


NonEmptyText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Subject = Annotated[NonEmptyText, build_validator(text.check_subject)]
Text = Annotated[str, build_validator(text.check_text)]
# Ids of items and tasks are text and numbers of todos are numbers, but models send each as the other. Not as a list of types, which
# some clients do not understand.
ID_SCHEMA: Final = {"anyOf": [{"type": "string"}, {"type": "number"}]}
ItemId = Annotated[NonEmptyText, Field(coerce_numbers_to_str=True), WithJsonSchema(ID_SCHEMA)]
TodoNumber = Annotated[int, Field(ge=1, le=text.MAX_INTEGER), BeforeValidator(parse_number), WithJsonSchema(ID_SCHEMA)]
# Lists what must hold before an item counts as done. The runtime runs these checks when the item is completed.
CHECKS_HINT: Final = (
    'checks that prove it done: {"kind": "command", "run": "pytest -q"}, {"kind": "file", "path": "a.md", "contains": "x"}'
)
Checks = Annotated[list[dict[str, Any]] | None, Field(description=CHECKS_HINT)]
# Words for models, who know JSON and not Python.
ERROR_WORDS: Final = {
    "tuple_type": "Input should be a list",
    "list_type": "Input should be a list",
    "dict_type": "Input should be an object",
    "model_type": "Input should be an object",
    "model_attributes_type": "Input should be an object",
}
StatusWord = Literal["pending", "in_progress", "completed", "canceled", "cancelled"]  # both spellings are accepted everywhere


# The ledger says what is wrong with a text; the longest limits are never reached.
UNNEEDED_LIMITS: Final = (
    ("minLength", 1),
    ("maximum", text.MAX_INTEGER),
    ("maximum", LATEST_SECOND),
    ("format", "iso-time"),
    ("pattern", LABEL_PATTERN),
)


@lru_cache(maxsize=512)
def build_input_schema(arguments: type[Arguments]) -> dict[str, Any]:
    """Build the JSON schema of a tool's arguments. Cached, because it takes milliseconds and there are dozens of tools."""
    return compact_schema(arguments.model_json_schema())


def describe_validation_error(error: ValidationError) -> str:
    """Describe which arguments are invalid, in one sentence, without repeating their values."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    descriptions = "; ".join(
        f"{format_path(detail['loc'])}: {ERROR_WORDS.get(detail['type'], detail['msg'])}" for detail in errors[:5]
    )
    return f"Invalid arguments: {descriptions}"


def compact_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the parts of a schema that a model does not need, because every request pays for each character."""
    definitions = schema.pop("$defs", {})

    def tidy(part: Any) -> Any:
        if isinstance(part, list):
            return [tidy(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return tidy(definitions[part["$ref"].rpartition("/")[2]])
        kinds = [kind for kind in part.get("anyOf", ()) if kind != {"type": "null"}]
        if kinds:  # optional: the model omits the argument instead of sending null
            part = {**part, "anyOf": kinds}
        if len(kinds) == 1:
            part = {key: value for key, value in part.items() if key != "anyOf"} | kinds[0]
        return {key: tidy(value) for key, value in part.items() if not is_unneeded(key, value)}

    def is_unneeded(key: str, value: Any) -> bool:
        """Whether a keyword says what a model knows anyway. A property may have the same name as a keyword."""
        is_vacuous_limit = (key, value) in UNNEEDED_LIMITS
        return is_vacuous_limit or (key in ("title", "default") and not isinstance(value, dict))

    return tidy(schema)  # type: ignore[no-any-return]
