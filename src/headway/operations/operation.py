"""Operations: functions over one transaction, each with its route, its parameters and its answer."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, TypeAdapter

from headway.actions.access.rights import Right
from headway.actions.turns.live_text import LiveText
from headway.agents.instructions.roles import Roles
from headway.agents.permission import Permission
from headway.agents.tools.toolbox import Toolbox
from headway.ledger.tenancy import Token
from headway.operations.fields import QueryModel
from headway.settings import Settings
from headway.storage.transaction import Transaction
from headway.values.value import Value

Document = Mapping[str, Any]
Function = TypeVar("Function", bound=Callable[..., Document | None])
PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class AnswerShape(NamedTuple):
    """A JSON object. It has a name in the OpenAPI document, where generated clients take the names of their types from."""

    name: str
    members: dict[str, Any]  # their types


class Choice(NamedTuple):
    """One of several answers, depending on the request."""

    name: str
    options: tuple[AnswerShape, ...]


Shape = type[BaseModel] | type[Value] | AnswerShape | Choice
Answers = Mapping[int, Shape | None]  # by status


def one(member: str, kind: type) -> AnswerShape:
    """Declare an answer with one value: {"todo": {…}}, called OneTodo."""
    return AnswerShape(f"One{kind.__name__}", {member: kind})


def many(member: str, kind: type, **more: Any) -> AnswerShape:
    """Declare an answer with a list: {"todos": […]}, called ManyTodos."""
    return AnswerShape(f"Many{member.capitalize()}", {member: list[kind], **more})  # type: ignore[valid-type]


def page(member: str, kind: type, **more: Any) -> AnswerShape:
    """Declare an answer with a part of a list, and the cursor of the next part."""
    return many(member, kind, next_cursor=str | None, **more)


class OperationHost(Protocol):
    """The parts of a running Headway that operations use."""

    settings: Settings
    live_text: LiveText
    permission: Permission
    roles: Roles
    toolbox: Toolbox

    @property
    def unpriced_models(self) -> Sequence[str]: ...

    def interrupt(self, run_ids: Iterable[str]) -> None: ...

    def nudge(self) -> None: ...


class Caller(Protocol):
    """The person or program that makes a request. A program that embeds Headway has no token, and every right."""

    def find_token(self, tx: Transaction) -> Token | None: ...

    def get_name(self, tx: Transaction) -> str:
        """Return the name under which changes are recorded."""
        ...

    def has_right(self, tx: Transaction, right: Right) -> bool: ...


class OperationCall(NamedTuple):
    """One call of an operation, inside its transaction."""

    host: OperationHost
    caller: Caller
    tx: Transaction
    tenant_id: int
    after_commit: list[Callable[[], object]]

    @property
    def caller_name(self) -> str:
        return self.caller.get_name(self.tx)

    @property
    def token(self) -> Token | None:
        """The caller's token; None for a program that embeds Headway."""
        return self.caller.find_token(self.tx)

    def has_right(self, right: Right) -> bool:
        return self.caller.has_right(self.tx, right)

    def nudge(self) -> None:
        """Let the engine look for jobs when the change is stored."""
        self.after_commit.append(self.host.nudge)

    def interrupt(self, run_ids: Sequence[str]) -> None:
        """Interrupt these runs in this process when the change is stored, so that they do not wait for a model or a tool."""
        self.after_commit.append(lambda: self.host.interrupt(run_ids))


class Operation(NamedTuple):
    """An operation as REST and the library offer it. A GET reads; every other method changes something."""

    name: str
    method: str
    path: str  # below /v1, with the names of its parameters: /todos/{todo_id}
    summary: str
    function: Callable[..., Document | None]  # of the call, the path's parameters, and the query or the body
    path_types: Mapping[str, type[int] | type[str]]
    query: type[QueryModel] | None
    body: Any  # the type of the request's body; None if it has none
    answers: Answers
    errors: tuple[int, ...]  # statuses of refusals, beside the common ones
    right: Right | None  # that the caller needs, beside reading or changing the tenant's rows
    is_idempotent: bool  # whether it honours an Idempotency-Key
    has_secret: bool  # whether its answer has a `secret`, which is shown once and not stored
    is_served_apart: bool  # whether REST has a handler of its own, because the request or the answer carries files
    check: Callable[..., None] | None  # takes the same arguments in a transaction that reads, before the one that writes
    prepare: Callable[[OperationHost], object] | None  # slow work that runs on another thread before the transaction

    @property
    def status(self) -> int:
        return min(self.answers)

    @property
    def route(self) -> str:
        """Its name in the library's requests: `GET /todos/{}`."""
        return f"{self.method} {PATH_PARAMETER.sub('{}', self.path)}"

    @property
    def body_adapter(self) -> TypeAdapter[Any]:
        return build_adapter(self.function)


@cache
def build_adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Build the parser of a body when it is used first: few processes use many operations."""
    shape: Any = inspect.signature(function).parameters["body"].annotation
    return TypeAdapter(shape)


class OperationTable:
    """The operations of one subject, in the order in which routes are matched."""

    def __init__(self, tag: str) -> None:
        self.tag = tag  # groups them in the OpenAPI document
        self.operations: list[Operation] = []

    def add(
        self,
        route: str,
        summary: str,
        answers: Shape | Answers,
        *,
        errors: tuple[int, ...] = (),
        right: Right | None = None,
        is_idempotent: bool | None = None,
        has_secret: bool = False,
        is_served_apart: bool = False,
        check: Callable[..., None] | None = None,
        prepare: Callable[[OperationHost], object] | None = None,
    ) -> Callable[[Function], Function]:
        """Declare a function as an operation. Its parameters `query` and `body` are parsed by their types. A POST is idempotent
        unless it says otherwise, and answers with 200 unless `answers` is a mapping of statuses."""

        def declare(function: Function) -> Function:
            assert right or not has_secret, "a secret is shown to callers with a certain right"
            method, _, path = route.partition(" ")
            types = {name: parameter.annotation for name, parameter in inspect.signature(function).parameters.items()}
            operation = Operation(
                name=function.__name__,
                method=method,
                path=path,
                summary=summary,
                function=function,
                path_types={name: types[name] for name in PATH_PARAMETER.findall(path)},
                query=types.get("query"),
                body=types.get("body"),
                answers=answers if isinstance(answers, Mapping) else {200: answers},
                errors=errors,
                right=right,
                is_idempotent=method == "POST" if is_idempotent is None else is_idempotent,
                has_secret=has_secret,
                is_served_apart=is_served_apart,
                check=check,
                prepare=prepare,
            )
            self.operations.append(operation)
            return function

        return declare


# The modules in this package that have the operations whose paths begin with a word. REST mounts them in this order.
MODULES: Final = {
    "todos": ("todos", "board"),
    "views": ("board",),
    "conversations": ("conversations",),
    "turns": ("turns",),
    "goals": ("goals",),
    "inbox": ("people",),
    "approvals": ("people",),
    "questions": ("people",),
    "files": ("files",),
    "memory": ("memory",),
    "agents": ("agents",),
    "schedules": ("schedules",),
    "jobs": ("jobs",),
    "queue": ("jobs",),
    "webhooks": ("webhooks",),
    "tokens": ("tokens",),
    "halt": ("operators",),
    "costs": ("operators",),
    "quotas": ("operators",),
    "audit": ("operators",),
    "notices": ("operators",),
    "why": ("why",),
}


def list_tables() -> list[OperationTable]:
    names = dict.fromkeys(name for names in MODULES.values() for name in names)
    return [load_table(name) for name in names]


def find_operation(route: str) -> Operation:
    """Return the operation of a route such as `GET /todos/{}`."""
    return index_routes(route.split("/")[1])[route]


@cache
def index_routes(subject: str) -> dict[str, Operation]:
    return {operation.route: operation for name in MODULES[subject] for operation in load_table(name).operations}


def load_table(name: str) -> OperationTable:
    table: OperationTable = import_module(f"headway.operations.{name}").table
    return table
