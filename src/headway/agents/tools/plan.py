"""Tools for a turn's plan: the plan itself, the queue with a current item, and compatible forms of other agents' todo tools."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, WithJsonSchema

from headway.actions.turns import plan as plan_turn
from headway.agents.tools.arguments import (
    ID_SCHEMA,
    Arguments,
    Checks,
    ItemId,
    NonEmptyText,
    StatusWord,
    Subject,
    Text,
    build_validator,
)
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import InTransaction, Tool
from headway.ledger import text
from headway.ledger.parsing.checks import write_checks
from headway.ledger.todo import Todo, parse_status
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction


def get_turn_id(execution: Execution) -> str:
    assert execution.scope.turn_id is not None  # has_turn was checked by the toolbox
    return execution.scope.turn_id


def has_turn(execution: Execution) -> bool:
    return execution.scope.turn_id is not None


# The plan


def check_agent_type(name: str | None, field: str) -> str | None:
    return text.check_name(name, field) if name else None


class NewPlanItem(Arguments):
    title: Subject
    context: Annotated[Text, Field(description="what is needed to do it")] = ""
    completionCriteria: Annotated[Text, Field(description="how to tell that it is done")] = ""
    agentType: Annotated[str | None, build_validator(check_agent_type), Field(description="role of the worker for it")] = None
    order: Annotated[int | None, Field(description="1-indexed position; default: the end")] = None
    checks: Checks = None


class CreateTodo(Arguments):
    items: Annotated[list[NewPlanItem], Field(min_length=1)]


def create_todo(tx: Transaction, execution: Execution, arguments: CreateTodo) -> dict[str, Any]:
    items = [
        plan_turn.PlanItem(
            item.title,
            item.context,
            item.completionCriteria,
            item.agentType,
            item.order,
            write_checks(item.checks, "agent"),
        )
        for item in arguments.items
    ]
    created, pending = plan_turn.create_plan(tx, execution.scope, get_turn_id(execution), items)
    documents = [{"id": todo.uuid, "title": todo.subject, "order": todo.position + 1} for todo in created]
    return {"created": documents, "totalPending": pending}


def abridge_created(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "created": [{"id": item["id"], "title": item["title"]} for item in result["created"]]}


class ListTodo(Arguments):
    status: Literal[StatusWord, "all"] | None = None


def list_todo(tx: Transaction, execution: Execution, arguments: ListTodo) -> dict[str, Any]:
    plan = todo_store.list_by_turn(tx, execution.scope.tenant_id, get_turn_id(execution))
    if arguments.status is None:
        items = [todo for todo in plan if not todo.ended]
    elif arguments.status == "all":
        items = plan
    else:
        items = [todo for todo in plan if todo.status == parse_status(arguments.status)]
    return {"items": [encode_plan_item(todo) for todo in items], "summary": plan_turn.count_by_status(plan)}


def abridge_list(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "items": [abridge_item(item) for item in result["items"]]}


# Our own agents get an item's number as its id.
TodoId = Annotated[ItemId, Field(validation_alias=AliasChoices("todoId", "todo_id"))]


class StartTodo(Arguments):
    todoId: TodoId


def start_todo(tx: Transaction, execution: Execution, arguments: StartTodo) -> dict[str, Any]:
    return encode_plan_item(plan_turn.start_plan_item(tx, execution.scope, get_turn_id(execution), arguments.todoId))


class CompleteTodo(Arguments):
    todoId: TodoId
    outcome: Annotated[NonEmptyText, build_validator(text.check_text), Field(description="What was done, or why not")]
    status: Literal["completed", "cancelled", "canceled"] = "completed"
    startNext: Annotated[bool, Field(description="also start the next item")] = False


def complete_todo(tx: Transaction, execution: Execution, arguments: CompleteTodo) -> dict[str, Any]:
    status: Literal["completed", "canceled"] = "completed" if arguments.status == "completed" else "canceled"
    turn_id = get_turn_id(execution)
    todo, open_todos = plan_turn.complete_plan_item(tx, execution.scope, turn_id, arguments.todoId, arguments.outcome, status)
    started = plan_turn.start_next(tx, execution.scope, open_todos) if arguments.startNext else None
    return {
        "id": todo.uuid,
        "title": todo.subject,
        "status": plan_turn.STATUS_SPELLING[todo.status],
        "outcome": todo.outcome,
        "completedAt": format_timestamp(todo.completed_at),
        "remaining": len(open_todos),
        **({"started": encode_plan_item(started)} if started else {}),
    }


def abridge_completed(result: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the model wrote itself. The plan names the started item; its details are added if it has any."""
    started = abridge_item(result["started"]) if "started" in result else {}
    details = {"started": started} if started.keys() - {"id", "title", "status"} else {}
    return {"id": result["id"], "status": result["status"], "remaining": result["remaining"], **details}


def abridge_item(item: dict[str, Any]) -> dict[str, Any]:
    """Leave out empty fields and times."""
    kept = {name: item[name] for name in ("title", "context", "completionCriteria", "agentType", "status", "outcome") if item[name]}
    return {"id": item["id"], **kept}


def encode_plan_item(todo: Todo) -> dict[str, Any]:
    return {
        "id": todo.uuid,
        "title": todo.subject,
        "context": todo.description,
        "completionCriteria": todo.completion_criteria,
        "agentType": todo.agent_type,
        "status": plan_turn.STATUS_SPELLING[todo.status],
        "priority": todo.position,
        "outcome": todo.outcome,
        "createdAt": format_timestamp(todo.created_at),
        "startedAt": format_timestamp(todo.started_at),
        "completedAt": format_timestamp(todo.completed_at),
    }


def format_timestamp(milliseconds: int) -> str | None:
    """Format a timestamp as ISO 8601; None if it is 0, which means that the event has not happened."""
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# The queue


def to_list_or_none(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None


def check_description(value: Any, field: str) -> str:
    """Return an item's description. Input that cannot be a description gives an empty string, which adds no item."""
    description = plan_turn.parse_text(value).strip()
    return text.check_subject(description, field) if description else ""


class ManageTodos(Arguments):
    # Any type: a value that is not a list changes nothing, and the result shows the current state.
    add: Annotated[
        list[Annotated[Any, build_validator(check_description)]] | None,
        BeforeValidator(to_list_or_none),
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ] = None
    delete: Annotated[Any, WithJsonSchema({"type": "array", "items": ID_SCHEMA})] = None


def manage_todos(tx: Transaction, execution: Execution, arguments: ManageTodos) -> dict[str, Any]:
    state, unknown = plan_turn.manage(tx, execution.scope, get_turn_id(execution), arguments.add, arguments.delete)
    missing = ", ".join(repr(text.to_one_line(name)[:80]) for name in unknown[:5])
    reason = {"error": f"Not in the list, so not deleted: {missing}."} if unknown else {}
    return {"success": not unknown, **reason, "state": state.as_json()}


# Compatible tools that replace the whole list at once


class TodoItem(Arguments):
    model_config = ConfigDict(extra="ignore", frozen=True)

    content: Subject
    status: StatusWord = "pending"


class WriteTodos(Arguments):
    todos: list[TodoItem]


def write_todos(tx: Transaction, execution: Execution, arguments: WriteTodos) -> dict[str, Any]:
    items = [plan_turn.ReplacementItem(todo.content, parse_status(todo.status)) for todo in arguments.todos]
    return plan_turn.replace(tx, execution.scope, get_turn_id(execution), items).as_json()


class PlanStep(Arguments):
    model_config = ConfigDict(extra="ignore", frozen=True)

    step: Subject
    status: StatusWord = "pending"


class UpdatePlan(Arguments):
    plan: list[PlanStep]
    explanation: str | None = None


def update_plan(tx: Transaction, execution: Execution, arguments: UpdatePlan) -> dict[str, Any]:
    items = [plan_turn.ReplacementItem(item.step, parse_status(item.status)) for item in arguments.plan]
    return plan_turn.replace(tx, execution.scope, get_turn_id(execution), items).as_json()


PLAN_TOOLS = (
    Tool(
        "create_todo",
        "Add items to this turn's plan, all in one call.",
        "turn_plan",
        CreateTodo,
        InTransaction(create_todo),
        abridge=abridge_created,
        needs=has_turn,
    ),
    Tool(
        "list_todo",
        "Show the turn's plan with a summary; by default the open items.",
        "turn_plan",
        ListTodo,
        InTransaction(list_todo),
        idempotent=True,
        abridge=abridge_list,
        needs=has_turn,
    ),
    Tool(
        "start_todo",
        "Mark a plan item as in progress.",
        "turn_plan",
        StartTodo,
        InTransaction(start_todo),
        abridge=abridge_item,
        needs=has_turn,
    ),
    Tool(
        "complete_todo",
        "End a plan item with its outcome.",
        "turn_plan",
        CompleteTodo,
        InTransaction(complete_todo),
        abridge=abridge_completed,
        needs=has_turn,
    ),
    Tool(
        "manage_todos",
        "Use the turn's list as a queue: add items at the end, delete by id or exact description. The first open item is current.",
        "queue",
        ManageTodos,
        InTransaction(manage_todos),
        needs=has_turn,
    ),
    Tool(
        "write_todos",
        "Replace the turn's whole list. Items that stay keep their history; items left out are canceled and reported.",
        "turn_plan",
        WriteTodos,
        InTransaction(write_todos),
        needs=has_turn,
        is_hidden=True,
    ),
    Tool("TodoWrite", "Same as write_todos.", "turn_plan", WriteTodos, InTransaction(write_todos), needs=has_turn, is_hidden=True),
    Tool(
        "update_plan",
        "Replace the turn's whole plan; steps left out are canceled and reported.",
        "turn_plan",
        UpdatePlan,
        InTransaction(update_plan),
        needs=has_turn,
        is_hidden=True,
    ),
)
