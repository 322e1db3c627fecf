"""Fields, queries and base classes that the bodies of several operations have."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Optional, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, WithJsonSchema
from pydantic.fields import FieldInfo

from headway.actions.todos.todo_lists import PAGE_LIMIT
from headway.ledger.text import MAX_INTEGER, NAME_LIMIT, NAME_PATTERN, SUBJECT_LIMIT, SUBJECT_PATTERN, TEXT_LIMIT, TEXT_PATTERN
from headway.ledger.todo import POSITION_LIMIT
from headway.ledger.todo import Status as TodoStatus


def to_whole_number(number: Any) -> Any:
    """Convert 3.0 to 3. JSON does not distinguish integers from floats."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class NullIsAbsent(BaseModel):
    """A body in which null for an optional field means that the field is absent. The OpenAPI document shows such fields as
    nullable.

    The fields themselves are made nullable. A validator in front of the model would turn JSON arrays into Python lists, which
    strict types do not accept as tuples. A field whose default is null already defines what null means.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name in cls.__annotations__:
            field = cls.model_fields.get(name)
            if field and not field.is_required() and field.default is not None:
                make_nullable(field)
        cls.model_rebuild(force=True)


def make_nullable(field: FieldInfo) -> None:
    """Make a field accept null. Its constraints move inside, so that they apply to the other values only."""
    annotation = (field.annotation, *field.metadata, Field(json_schema_extra=field.json_schema_extra))
    field.annotation = Optional[Annotated[annotation]]  # type: ignore[assignment]  # noqa: UP045  the type is built at run time
    field.metadata = [AfterValidator(lambda value: field.get_default() if value is None else value)]
    field.json_schema_extra = None


class StrictModel(NullIsAbsent):
    """A body with strict types and no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def milliseconds(seconds: float) -> int:
    """Convert seconds to the milliseconds that the ledger stores."""
    return round(seconds * 1000)


# The patterns are documentation. The ledger enforces the rules, for every surface.
Id = Annotated[int, Field(ge=1, le=MAX_INTEGER), BeforeValidator(to_whole_number)]
ListId = Annotated[int, Field(ge=0, le=MAX_INTEGER, description="0: the tenant-wide list"), BeforeValidator(to_whole_number)]
Revision = Annotated[int, Field(ge=0, le=MAX_INTEGER), BeforeValidator(to_whole_number)]
Subject = Annotated[str, Field(min_length=1, max_length=SUBJECT_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]
Text = Annotated[str, Field(max_length=TEXT_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, json_schema_extra={"pattern": NAME_PATTERN})]
Position = Annotated[int, Field(ge=0, le=POSITION_LIMIT), BeforeValidator(to_whole_number)]
STATUS_SCHEMA = {"type": "string", "enum": [*get_args(TodoStatus)], "description": "`cancelled` is also accepted"}
Status = Annotated[Literal["pending", "in_progress", "completed", "canceled", "cancelled"], WithJsonSchema(STATUS_SCHEMA)]


class QueryModel(BaseModel):
    """A query string. All values arrive as text, so numbers are parsed from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lists: ClassVar[frozenset[str]] = frozenset()  # parameters that may be repeated

    @classmethod
    def parse(cls, parameters: Iterable[tuple[str, str]]) -> Self:
        """Parse the names and values of a query string. The last value of a name counts, unless it may be repeated."""
        values: dict[str, Any] = {}
        for name, value in parameters:
            values[name] = [*values.get(name, ()), value] if name in cls.lists else value
        return cls.model_validate(values)


def parse_list_id(value: int | str | None) -> int | None:
    """Parse the filter by list: 0 means no filter, the word `tenant` means the tenant-wide list."""
    return 0 if value == "tenant" else int(value or 0) or None


def parse_boolean(text: Any) -> Any:
    """Parse `true` and `false` as JSON spells them, and nothing else."""
    return {"true": True, "false": False}.get(text, text)


class PageQuery(QueryModel):
    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT)] = 50


CURSOR_DESCRIPTION = "next_cursor of the page before, unchanged; empty: from the start. Any other is refused as `bad_cursor`"


class CursorQuery(PageQuery):
    cursor: Annotated[str | None, Field(json_schema_extra={"format": "cursor"}, description=CURSOR_DESCRIPTION)] = None


def build_json_schema(shape: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, with references into the document's components."""
    schema: dict[str, Any] = TypeAdapter(shape).json_schema(ref_template="#/components/schemas/{model}")
    return schema
