"""Operations on todos: /todos. Their checks and receipts are here as well."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, TypeAdapter, WithJsonSchema
from pydantic.config import JsonDict
from typing_extensions import TypeAliasType

from headway.actions.todos import claims, proof, todo_checks, todo_lists, todos
from headway.actions.todos.claims import DEFAULT_LEASE_S, MAX_LEASE_S
from headway.actions.todos.todos import BATCH_LIMIT, DEPENDENCY_LIMIT, NO_OVERRIDE, POSITIONED_LIMIT
from headway.agents.tools.arguments import OVERDUE, TodoFieldArguments, TodoFieldFilters
from headway.ledger import todo as ledger
from headway.ledger.check import Author, Proof
from headway.ledger.check import Check as LedgerCheck
from headway.ledger.parsing.checks import CHECKS_LIMIT, DEFINITION_LIMIT, TIMEOUT_LIMIT_S, write_checks
from headway.ledger.parsing.todo_fields import FILTERS, LATEST_SECOND
from headway.ledger.scope import Selection
from headway.ledger.text import SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.todo import DEFAULT_AGENT, UNSET, Change, Draft, parse_status
from headway.ledger.wording import QUERY_LIMIT
from headway.operations.fields import (
    CursorQuery,
    Id,
    ListId,
    Name,
    PageQuery,
    Position,
    QueryModel,
    Status,
    StrictModel,
    Subject,
    Text,
    milliseconds,
    parse_boolean,
    parse_list_id,
    to_whole_number,
)
from headway.operations.operation import AnswerShape, Choice, Document, OperationCall, OperationTable, many, one
from headway.values.todos import Lease, Receipt, Todo
from headway.values.value import Meaning

CheckText = Annotated[str, Field(min_length=1, max_length=DEFINITION_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]
ExitCode = Annotated[int, Field(ge=0, le=255), BeforeValidator(to_whole_number)]
TimeoutSeconds = Annotated[int, Field(ge=1, le=TIMEOUT_LIMIT_S), BeforeValidator(to_whole_number)]
HttpStatus = Annotated[int, Field(ge=100, le=599), BeforeValidator(to_whole_number)]
Folder = Annotated[
    CheckText, Field(description="An absolute path, instead of the workspace. Only the operator's checks can have it")
]


class NewCheck(StrictModel):
    """The fields of every kind of check. A check that an answer contains can be sent back as it is."""

    by: Annotated[Author | None, Field(description="Who wrote it. Ignored in requests: the caller is the author")] = None


class NamedCheck(NewCheck):
    name: CheckText | None = None


class CommandCheck(NamedCheck):
    kind: Literal["command"]
    run: CheckText
    exit: Annotated[ExitCode | None, Field(description="The expected exit code; omitted: 0")] = None
    expect: Annotated[CheckText | None, Field(description="Text that the output must contain")] = None
    timeout_s: TimeoutSeconds | None = None
    folder: Folder | None = None


class FileCheck(NamedCheck):
    kind: Literal["file"]
    path: Annotated[CheckText, Field(description="Relative to the workspace")]
    exists: bool | None = None
    contains: CheckText | None = None
    sha256: Annotated[str | None, Field(json_schema_extra={"pattern": "^[0-9a-fA-F]{64}$"})] = None
    schema_: Annotated[dict[str, Any] | bool | None, Field(alias="schema", description="A JSON Schema")] = None
    folder: Folder | None = None


class HttpCheck(NamedCheck):
    kind: Literal["http"]
    url: CheckText
    status: Annotated[HttpStatus | None, Field(description="Omitted: 200")] = None
    json_: Annotated[
        dict[str, Any] | None, Field(alias="json", description="Expected values by path, such as {'items.0.name': 'x'}")
    ] = None


class OutcomeCheck(NamedCheck):
    kind: Literal["outcome"]
    schema_: Annotated[dict[str, Any] | bool, Field(alias="schema", description="A JSON Schema for the outcome")]


class ToolCheck(NewCheck):
    kind: Literal["tool"]
    name: CheckText
    arguments: dict[str, Any] | None = None
    expect: Annotated[CheckText | None, Field(description="Text that the result must contain")] = None


class JudgeCheck(NamedCheck):
    kind: Literal["judge"]
    rubric: CheckText


AnyCheck = CommandCheck | FileCheck | HttpCheck | OutcomeCheck | ToolCheck | JudgeCheck
Check = TypeAliasType("Check", Annotated[AnyCheck, Discriminator("kind")])  # a schema with this name
NewChecks = Annotated[list[Check], Field(max_length=CHECKS_LIMIT)]


def list_checks(checks: list[Check]) -> list[LedgerCheck]:
    """Return the definitions as the ledger parses them."""
    return [check.model_dump(by_alias=True, exclude_unset=True) for check in checks]


# Answers


class CheckFailure(BaseModel):
    check: Annotated[str, Field(description="Its name, or its kind and what it looks at")]
    detail: str


# Schemas of todos, and what the schemas of other resources share.


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
        apart = {"status", "completed_at", "checks", *TodoFieldArguments.model_fields}
        return Draft(
            **{name: getattr(self, name) for name in type(self).model_fields if name not in apart},
            status=parse_status(self.status),
            completed_at=None if self.completed_at is None else milliseconds(self.completed_at),
            checks=write_checks(list_checks(self.checks), by) if self.checks else "",
            **self.list_fields(),
        )


# For the OpenAPI document: only a limited number of rows in a batch may set a position.
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


class TodoFilter(TodoFieldFilters, QueryModel):
    """Filters for todos, beside their status."""

    lists: ClassVar = frozenset(option.name for option in FILTERS if option.is_list)

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
        Field(strict=True, description=OVERDUE),
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


# A union is resolved by its tag before validation, so that errors refer to the variant that the caller meant.
ONE_TAG, MANY_TAG = "(one)", "(many)"


def choose_tag(body: Any) -> str:
    return MANY_TAG if isinstance(body, dict) and "todos" in body else ONE_TAG


TodoCreation = Annotated[Annotated[NewTodo, Tag(ONE_TAG)] | Annotated[NewTodos, Tag(MANY_TAG)], Discriminator(choose_tag)]
TodoChanges = Annotated[Annotated[RowList, Tag(ONE_TAG)] | Annotated[Rows, Tag(MANY_TAG)], Discriminator(choose_tag)]

CHANGES: TypeAdapter[list[LooseRow] | Rows] = TypeAdapter(TodoChanges)


# Operations on todos: /todos


table = OperationTable("todos")

ONE_TODO = one("todo", Todo)
MANY_TODOS = many("todos", Todo)
CLAIM_ANSWER = AnswerShape("Claimed", {"todo": Todo, "lease": Lease})
TODO_PAGE = AnswerShape(
    "TodoPage",
    {
        "todos": list[Todo],
        "next_cursor": str | None,
        "searched_all": Annotated[bool, Meaning("False: a search stopped before the end. It continues with `next_cursor`")],
        "open_dependencies": Annotated[list[int], Meaning("The dependencies of open todos that have not ended")],
    },
)
ONE_OR_MANY_TODOS = Choice("OneOrManyTodos", (ONE_TODO, MANY_TODOS))  # like the request


def encode_todos(found: list[ledger.Todo]) -> list[dict[str, Any]]:
    return [todo.as_json() for todo in found]


@table.add("POST /todos", "Add one todo, or several in one transaction", {201: ONE_OR_MANY_TODOS}, errors=(404,))
def create_todo(call: OperationCall, body: TodoCreation) -> Document:
    if isinstance(body, NewTodos):
        drafts = [row.draft(call.tx.author) for row in body.todos]
        return {"todos": encode_todos(todos.add_many(call.tx, call.tenant_id, drafts))}
    return {"todo": todos.add_todo(call.tx, call.tenant_id, body.draft(call.tx.author)).as_json()}


@table.add("GET /todos", "List todos: in progress, pending by position, ended by most recent", TODO_PAGE, errors=(404,))
def list_todos(call: OperationCall, query: ListQuery) -> Document:
    selection = query.selection(call.tx.now, query.status)
    page = todo_lists.search_todos(call.tx, call.tenant_id, selection, query.q, query.limit, query.cursor)
    return {
        "todos": encode_todos(page.todos),
        "next_cursor": page.next_cursor,
        "searched_all": page.searched_all,
        "open_dependencies": todo_lists.list_open_dependencies(call.tx, call.tenant_id, page.todos),
    }


@table.add("GET /todos/counts", "Count todos by status", TodoCounts, errors=(404,))
def count_todos(call: OperationCall, query: TodoFilter) -> Document:
    return {"counts": todo_lists.count_todos(call.tx, call.tenant_id, query.selection(call.tx.now))}


@table.add(
    "GET /todos/ready",
    "List todos that can start now: pending, with all dependencies ended",
    MANY_TODOS,
    errors=(404,),
)
def list_ready_todos(call: OperationCall, query: ReadyQuery) -> Document:
    return {"todos": encode_todos(todo_lists.list_ready_todos(call.tx, call.tenant_id, query.to_list_id(), query.limit))}


@table.add("POST /todos/claim", "Claim the next ready todo for an agent", {200: CLAIM_ANSWER, 204: None}, errors=(404,))
def claim_todo(call: OperationCall, body: NewClaim) -> Document | None:
    claim = claims.claim(call.tx, call.tenant_id, body.agent_id, body.conversation_id or None, body.lease_s)
    return claim.as_json() if claim else None


@table.add("GET /todos/{todo_id}", "Get a todo", ONE_TODO, errors=(404,))
def get_todo(call: OperationCall, todo_id: int) -> Document:
    return {"todo": todos.get_todo(call.tx, call.tenant_id, todo_id).as_json()}


@table.add("PATCH /todos/{todo_id}", "Change a todo", ONE_TODO, errors=(404,))
def change_todo(call: OperationCall, todo_id: int, body: TodoFields) -> Document:
    return {"todo": apply_fields(call, todo_id, body).as_json()}


def apply_fields(call: OperationCall, todo_id: int, fields: TodoFields) -> ledger.Todo:
    tx, tenant_id = call.tx, call.tenant_id
    changes = todos.place_beside(tx, tenant_id, todo_id, fields.change(), fields.before, fields.after)
    if fields.checks is not None:
        changes = todo_checks.set_checks(tx, tenant_id, todo_id, changes, list_checks(fields.checks), tx.author)
    override = NO_OVERRIDE
    if fields.override is not None:
        override = todos.build_override(fields.override, changes, call.caller_name)
    return todos.change_todo(tx, tenant_id, todo_id, changes, fields.lease_token, force=fields.force, override=override)


@table.add(
    "GET /todos/{todo_id}/receipts", "List what the checks of a todo found, newest first", many("receipts", Receipt), errors=(404,)
)
def list_todo_receipts(call: OperationCall, todo_id: int) -> Document:
    todos.get_todo(call.tx, call.tenant_id, todo_id)
    return {"receipts": [receipt.as_json() for receipt in proof.list_newest_receipts(call.tx, call.tenant_id, "todo", todo_id)]}


@table.add("POST /todos/{todo_id}/verify", "Run the checks of a todo again", one("receipt", Receipt), errors=(404, 409))
def verify_todo(call: OperationCall, todo_id: int) -> Document:
    """A completed todo whose checks do not pass is `broken`. The response waits for the checks, which can take minutes."""
    return {"receipt": proof.verify(call.tx, call.tenant_id, todo_id).as_json()}


@table.add("DELETE /todos/{todo_id}", "Delete a todo for good", Deleted, errors=(404, 409, 507))
def delete_todo(call: OperationCall, todo_id: int, query: DeleteQuery) -> Document:
    todos.remove_todo(call.tx, call.tenant_id, todo_id, query.lease_token, force=query.force)
    return {"deleted": True}


@table.add("POST /todos/{todo_id}/heartbeat", "Extend the lease on a claimed todo", CLAIM_ANSWER, errors=(404,))
def heartbeat_todo(call: OperationCall, todo_id: int, body: Heartbeat) -> Document:
    return claims.heartbeat(call.tx, call.tenant_id, todo_id, body.lease_token, body.lease_s).as_json()
