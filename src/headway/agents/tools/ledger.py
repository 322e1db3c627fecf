"""Tools for the shared todo ledger: add, list and update todos."""

from typing import Annotated, Any, Literal

from pydantic import Field

from headway.actions.todos import claims, references, todo_lists, todos
from headway.agents.tools.arguments import (
    Arguments,
    Checks,
    NonEmptyText,
    StatusWord,
    TodoFieldArguments,
    TodoFieldFilters,
    TodoNumber,
)
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import InTransaction, Tool
from headway.ledger.parsing.checks import write_checks
from headway.ledger.scope import Selection
from headway.ledger.todo import (
    OPEN_STATUSES,
    UNSET,
    Change,
    Draft,
    Status,
    check_not_already_ended,
    parse_status,
    refuse_start_of_ended,
)
from headway.storage.transaction import Transaction

PageLimit = Annotated[int, Field(ge=1, le=100)]


class TodoAddArguments(TodoFieldArguments, Arguments):
    subject: NonEmptyText
    description: str = ""
    completion_criteria: str = ""
    depends_on: Annotated[tuple[TodoNumber, ...], Field(description="ids it waits for")] = ()
    tenant_wide: Annotated[bool, Field(description="visible from every conversation, not only this one")] = False
    checks: Checks = None


def todo_add(tx: Transaction, execution: Execution, arguments: TodoAddArguments) -> dict[str, Any]:
    draft = Draft(
        arguments.subject,
        arguments.description,
        arguments.completion_criteria,
        agent_id=execution.scope.agent_id,
        conversation_id=execution.scope.home(tenant_wide=arguments.tenant_wide).conversation_id,
        depends_on=tuple(references.find_own_id(tx, execution.scope, todo_id) for todo_id in arguments.depends_on),
        checks=write_checks(arguments.checks, "agent"),
        **arguments.list_fields(),
    )
    return {"todo": todos.add_todo(tx, execution.scope.tenant_id, draft).as_json()}


class TodoListArguments(TodoFieldFilters, Arguments):
    status: Literal[StatusWord, "all"] | None = None
    limit: PageLimit = 50
    cursor: Annotated[str | None, Field(description="next_cursor of the previous page")] = None


def todo_list(tx: Transaction, execution: Execution, arguments: TodoListArguments) -> dict[str, Any]:
    statuses: tuple[Status, ...] = OPEN_STATUSES
    if arguments.status is not None:
        statuses = () if arguments.status == "all" else (parse_status(arguments.status),)
    list_id = find_list_id(execution)
    selection = arguments.choose(Selection(list_id, statuses=statuses, with_plans=list_id is not None), tx.now)
    page = todo_lists.list_todos(tx, execution.scope.tenant_id, selection, arguments.limit, arguments.cursor)
    return {"todos": [todo.as_json() for todo in page.todos], "next_cursor": page.next_cursor}


class TodoUpdateArguments(TodoFieldArguments, Arguments):
    id: TodoNumber
    status: StatusWord | None = None
    subject: NonEmptyText | None = None
    description: str | None = None
    outcome: str | None = None
    lease_token: Annotated[str | None, Field(description="from your claim")] = None


def todo_update(tx: Transaction, execution: Execution, arguments: TodoUpdateArguments) -> dict[str, Any]:
    tenant_id, todo_id = execution.scope.tenant_id, references.find_own_id(tx, execution.scope, arguments.id)
    changes = Change(
        subject=UNSET if arguments.subject is None else arguments.subject,
        description=UNSET if arguments.description is None else arguments.description,
        outcome=UNSET if arguments.outcome is None else arguments.outcome,
        **arguments.list_fields(),
    )
    status = parse_status(arguments.status) if arguments.status else None
    if status is not None:
        todo = todos.get_locked_todo(tx, tenant_id, todo_id)
        if status == "in_progress":
            refuse_start_of_ended(todo)
        check_not_already_ended(todo, status)
        changes = changes._replace(status=status)
    return {"todo": todos.change_todo(tx, tenant_id, todo_id, changes, arguments.lease_token).as_json()}


class EditChecksArguments(Arguments):
    id: TodoNumber
    checks: Annotated[list[dict[str, Any]], Field(description="the whole new list; checks that people wrote must stay")]


def edit_checks(tx: Transaction, execution: Execution, arguments: EditChecksArguments) -> dict[str, Any]:
    tenant_id = execution.scope.tenant_id
    todo = todos.get_locked_todo(tx, tenant_id, references.find_own_id(tx, execution.scope, arguments.id))
    change = Change(checks=write_checks(arguments.checks, "agent", todo.checks))
    return {"todo": todos.change_todo(tx, tenant_id, todo.id, change).as_json()}


class TodoReadyArguments(Arguments):
    limit: PageLimit = 20


def todo_ready(tx: Transaction, execution: Execution, arguments: TodoReadyArguments) -> dict[str, Any]:
    ready_todos = todo_lists.list_ready_todos(tx, execution.scope.tenant_id, find_list_id(execution), arguments.limit)
    return {"todos": [todo.as_json() for todo in ready_todos]}


class TodoClaimArguments(Arguments):
    agent_id: Annotated[NonEmptyText | None, Field(description="who gets it, if not you")] = None
    lease_s: Annotated[float, Field(ge=1, le=claims.MAX_LEASE_S)] = claims.DEFAULT_LEASE_S


def todo_claim(tx: Transaction, execution: Execution, arguments: TodoClaimArguments) -> dict[str, Any]:
    scope = execution.scope
    claim = claims.claim(tx, scope.tenant_id, arguments.agent_id or scope.agent_id, find_list_id(execution), arguments.lease_s)
    return claim.as_json() if claim else {"todo": None, "lease": None}


def find_list_id(execution: Execution) -> int | None:
    """Return the conversation whose todos to list, besides the tenant-wide ones. None, outside a conversation, means all."""
    return execution.scope.conversation_id or None


LEDGER_TOOLS = (
    Tool(
        "todo_add", "Add a todo to the ledger, where it outlives this session.", "ledger", TodoAddArguments, InTransaction(todo_add)
    ),
    Tool(
        "todo_list",
        "List the todos of the ledger; by default the open ones.",
        "ledger",
        TodoListArguments,
        InTransaction(todo_list),
        idempotent=True,
    ),
    Tool("todo_update", "Change a todo.", "ledger", TodoUpdateArguments, InTransaction(todo_update)),
    Tool(
        "edit_checks",
        "Replace the checks of a todo. A person has to approve it.",
        "people",
        EditChecksArguments,
        InTransaction(edit_checks),
        needs_approval=True,
        key_arguments=("id",),
    ),
    Tool(
        "todo_ready",
        "List todos that can start now: pending and not waiting for others.",
        "ledger",
        TodoReadyArguments,
        InTransaction(todo_ready),
        idempotent=True,
    ),
    Tool(
        "todo_claim",
        "Take the next ready todo with a lease, so that no one else works on it. If none is ready, there is no todo in the result.",
        "ledger",
        TodoClaimArguments,
        InTransaction(todo_claim),
    ),
)
