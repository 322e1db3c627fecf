"""Schemas of todos, and what the schemas of other resources share."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, TypeAdapter, WithJsonSchema
from pydantic.config import JsonDict

from headway.actions.claims import DEFAULT_LEASE_S, MAX_LEASE_S
from headway.actions.todos import BATCH_LIMIT, DEPENDENCY_LIMIT, POSITIONED_LIMIT
from headway.actions.views import PAGE_LIMIT
from headway.agents.tools.arguments import TodoFieldArguments, TodoFieldFilters
from headway.ledger.check import Author, Proof
from headway.ledger.parsing.calendar_time import LATEST_SECOND
from headway.ledger.scope import Selection
from headway.ledger.text import MAX_INTEGER, NAME_LIMIT, NAME_PATTERN, SUBJECT_LIMIT, SUBJECT_PATTERN, TEXT_LIMIT, TEXT_PATTERN
from headway.ledger.todo import (
    DEFAULT_AGENT,
    POSITION_LIMIT,
    UNSET,
    Change,
    Draft,
    parse_status,
    write_checks,
)
from headway.ledger.todo import Status as TodoStatus
from headway.ledger.wording.words import QUERY_LIMIT
from headway.operations.schemas.checks import CheckFailure, NewChecks, list_checks
from headway.operations.schemas.strict_model import StrictModel, to_whole_number
from headway.values.todos import Todo


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
STATUS_SCHEMA = {"type": "string", "enum": [*get_args(TodoStatus)], "description": "`cancelled` is accepted, too"}
Status = Annotated[Literal["pending", "in_progress", "completed", "canceled", "cancelled"], WithJsonSchema(STATUS_SCHEMA)]
LeaseSeconds = Annotated[float, Field(ge=1, le=MAX_LEASE_S, allow_inf_nan=False)]
CompletedAt = Annotated[
    float,
    Field(ge=1, le=LATEST_SECOND, allow_inf_nan=False, description="Epoch seconds; only with an ended status. Omitted: now"),
]
Dependencies = Annotated[tuple[Id, ...], Field(max_length=DEPENDENCY_LIMIT)]


class NewTodo(TodoFieldArguments, StrictModel):
    subject: Subject
    description: Text = ""
    completion_criteria: Text = ""
    agent_type: Name | None = None
    agent_id: Name = DEFAULT_AGENT
    conversation_id: ListId = 0
    turn_id: Name | None = None
    status: Status = "pending"
    position: Position | None = None
    depends_on: Dependencies = ()
    completed_at: CompletedAt | None = None
    checks: NewChecks = []

    def draft(self, by: Author) -> Draft:
        return Draft(
            subject=self.subject,
            description=self.description,
            completion_criteria=self.completion_criteria,
            agent_type=self.agent_type,
            agent_id=self.agent_id,
            conversation_id=self.conversation_id,
            turn_id=self.turn_id,
            status=parse_status(self.status),
            position=self.position,
            depends_on=self.depends_on,
            completed_at=None if self.completed_at is None else milliseconds(self.completed_at),
            checks=write_checks(list_checks(self.checks), by) if self.checks else "",
            **self.list_fields(),
        )


# Documentation, too: only a limited number of rows in a batch may set a position.
PLACED_ROWS_SCHEMA: JsonDict = {"contains": {"required": ["position"]}, "minContains": 0, "maxContains": POSITIONED_LIMIT}


class NewTodos(StrictModel):
    todos: Annotated[list[NewTodo], Field(min_length=1, max_length=BATCH_LIMIT, json_schema_extra=PLACED_ROWS_SCHEMA)]


class TodoFields(TodoFieldArguments, StrictModel):
    """The fields that can be changed. Omitted fields keep their values."""

    subject: Subject | None = None
    description: Text | None = None
    completion_criteria: Text | None = None
    agent_type: Name | None = None
    status: Status | None = None
    position: Position | None = None
    before: Annotated[Id | None, Field(description="Put it directly before this todo. Others in the way are moved")] = None
    after: Annotated[Id | None, Field(description="Put it directly after this todo")] = None
    outcome: Text | None = None
    depends_on: Dependencies | None = None
    completed_at: CompletedAt | None = None
    checks: Annotated[NewChecks | None, Field(description="The whole new list. Checks of a higher rank must stay")] = None
    override: Annotated[
        Subject | None, Field(description="Why the todo is completed without its checks. Only with the status completed")
    ] = None
    lease_token: Name | None = None
    force: bool = False

    def change(self) -> Change:
        """Return the requested change, without the checks. Null clears agent_type and outcome, and is ignored for other fields."""
        apart = {"checks", *TodoFieldArguments.model_fields}
        fields = {name: getattr(self, name) for name in Change._fields if name in self.model_fields_set - apart}
        clearable = ("agent_type", "outcome")
        changes = {name: value for name, value in fields.items() if value is not None or name in clearable} | self.list_fields()
        if "status" in changes:
            changes["status"] = parse_status(changes["status"])
        if "completed_at" in changes:
            changes["completed_at"] = milliseconds(changes["completed_at"])
        return Change(**{name: changes.get(name, UNSET) for name in Change._fields})


class TodoChangeRow(TodoFields):
    """One row of a batch of changes. Everything but the id is validated row by row."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: Id


class LooseRow(BaseModel):
    """A row as the batch accepts it: an id and any other fields, which are validated when the row is processed."""

    # Constants keep NaN as NaN until the row is validated. Null would pass as "not given".
    model_config = ConfigDict(extra="allow", strict=True, ser_json_inf_nan="constants")

    id: Id


RowList = Annotated[list[LooseRow], Field(min_length=1, max_length=BATCH_LIMIT, json_schema_extra=PLACED_ROWS_SCHEMA)]


class Rows(StrictModel):
    todos: RowList


class NewClaim(StrictModel):
    agent_id: Name
    conversation_id: ListId | None = None
    lease_s: LeaseSeconds = DEFAULT_LEASE_S


class Heartbeat(StrictModel):
    lease_token: Name
    lease_s: LeaseSeconds = DEFAULT_LEASE_S


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


class TodoFilter(TodoFieldFilters, QueryModel):
    """What selects todos, beside their status."""

    lists: ClassVar = frozenset({"label"})

    conversation_id: Annotated[
        ListId | Literal["tenant"] | None,
        Field(description="an id: the conversation's todos and the tenant-wide ones; `tenant`: only those; 0 or omitted: all"),
    ] = None
    own: Annotated[
        bool,
        Field(strict=True, description="with a conversation_id: leave out the tenant-wide todos"),
        BeforeValidator(parse_boolean),
    ] = False
    turn_id: Name | None = None
    agent_id: Name | None = None
    proof: Proof | None = None
    overdue: Annotated[
        bool,
        Field(strict=True, description="only open todos whose `due` has passed"),
        BeforeValidator(lambda value: parse_boolean({"1": "true", "0": "false"}.get(value, value))),
        WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 1}]}),
    ] = False

    def selection(self, now: int, status: str | None = None) -> Selection:
        selection = Selection(
            conversation_id=parse_list_id(self.conversation_id),
            turn_id=self.turn_id,
            statuses=(parse_status(status),) if status else (),
            agent_id=self.agent_id,
            proof=self.proof,
            own_only=self.own,
        )
        return self.choose(selection, now)


class ListQuery(TodoFilter, CursorQuery):
    status: Status | None = None
    q: Annotated[
        str,
        Field(
            max_length=QUERY_LIMIT,
            description="words that must all occur in the texts, in any case; #12 finds that number",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = ""


class ReadyQuery(PageQuery):
    conversation_id: ListId | Literal["tenant"] | None = None

    def to_list_id(self) -> int | None:
        return parse_list_id(self.conversation_id)


class DeleteQuery(QueryModel):
    """The options of a DELETE. They are in the query because not all clients can send a body with it."""

    lease_token: Annotated[Name | None, Field(description="Required while an agent holds a lease, unless `force` is set")] = None
    force: Annotated[bool, Field(strict=True), BeforeValidator(parse_boolean)] = False


AFTER_DESCRIPTION = "0: all events. Overrides Last-Event-ID, so omit it if the client reconnects to the same URL automatically"


class StreamQuery(QueryModel):
    after: Annotated[str | None, Field(pattern=r"^[0-9]{1,18}$", description=AFTER_DESCRIPTION)] = None


# Answers. Handlers render them by hand, for speed; these models document them.


class StatusCounts(BaseModel):
    pending: int
    in_progress: int
    completed: int
    canceled: int


class TodoCounts(BaseModel):
    counts: StatusCounts


class ChangedRow(BaseModel):
    id: int
    ok: Literal[True]
    todo: Todo


class RefusedRow(BaseModel):
    id: int
    ok: Literal[False]
    error: str
    failures: Annotated[list[CheckFailure] | None, Field(description="The checks that failed, if it was refused for them")] = None


class BatchResult(BaseModel):
    ok: int
    errors: int
    results: list[ChangedRow | RefusedRow]


class Deleted(BaseModel):
    deleted: Literal[True]


class Alive(BaseModel):
    ok: Literal[True]


class Checks(BaseModel):
    database: Literal[True]
    migrations: Literal[True]
    feed: Literal[True]
    worker: Literal[True]
    loop: Literal[True]


class Ready(BaseModel):
    ready: Literal[True]
    checks: Checks


class ProblemShape(BaseModel):
    """The body of every error response."""

    title: str
    status: int
    detail: str
    code: str
    failures: Annotated[list[CheckFailure] | None, Field(description="With the code check_failed: the checks that failed")] = None
    cell: Annotated[str | None, Field(description="With the code wrong_cell: the tenant's cell")] = None
    location: Annotated[str | None, Field(description="With the code wrong_cell: the address of the tenant's cell")] = None


# A union is resolved by its tag before validation, so that errors refer to the variant that the caller meant.
ONE_TAG, MANY_TAG = "(one)", "(many)"


def choose_tag(body: Any) -> str:
    return MANY_TAG if isinstance(body, dict) and "todos" in body else ONE_TAG


TodoCreation = Annotated[Annotated[NewTodo, Tag(ONE_TAG)] | Annotated[NewTodos, Tag(MANY_TAG)], Discriminator(choose_tag)]
TodoChanges = Annotated[Annotated[RowList, Tag(ONE_TAG)] | Annotated[Rows, Tag(MANY_TAG)], Discriminator(choose_tag)]

CHANGES: TypeAdapter[list[LooseRow] | Rows] = TypeAdapter(TodoChanges)


def build_json_schema(shape: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, with references into the document's components."""
    schema: dict[str, Any] = TypeAdapter(shape).json_schema(ref_template="#/components/schemas/{model}")
    return schema
