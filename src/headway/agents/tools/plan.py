"""Tools for a turn's plan: the plan itself, the queue with a current item, and compatible forms of other agents' todo tools."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from headway.actions import replace_list, turn_plan, turn_queue
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import Arguments, NonEmptyText, StatusWord, Subject, Text, Tool, build_validator
from headway.ledger import text
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
    context: Text = ""
    completionCriteria: Text = ""
    agentType: Annotated[str | None, build_validator(check_agent_type)] = None
    order: Annotated[int | None, Field(description="1-indexed position; default: the end")] = None


class CreateTodo(Arguments):
    items: Annotated[list[NewPlanItem], Field(min_length=1)]


def create_todo(tx: Transaction, execution: Execution, wanted: CreateTodo) -> dict[str, Any]:
    items = [turn_plan.PlanItem(one.title, one.context, one.completionCriteria, one.agentType, one.order) for one in wanted.items]
    created, pending = turn_plan.create(tx, execution.scope, get_turn_id(execution), items)
    shown = [{"id": todo.uuid, "title": todo.subject, "order": todo.position + 1} for todo in created]
    return {"created": shown, "totalPending": pending}


class ListTodo(Arguments):
    status: Literal["pending", "in_progress", "completed", "cancelled", "canceled", "all"] | None = None


def list_todo(tx: Transaction, execution: Execution, wanted: ListTodo) -> dict[str, Any]:
    plan = todo_store.list_by_turn(tx, execution.scope.tenant_id, get_turn_id(execution))
    if wanted.status is None:
        shown = [todo for todo in plan if not todo.ended]
    elif wanted.status == "all":
        shown = plan
    else:
        shown = [todo for todo in plan if todo.status == parse_status(wanted.status)]
    return {"items": [encode_plan_item(todo) for todo in shown], "summary": turn_plan.count_by_status(plan)}


class StartTodo(Arguments):
    todoId: NonEmptyText


def start_todo(tx: Transaction, execution: Execution, wanted: StartTodo) -> dict[str, Any]:
    return encode_plan_item(turn_plan.start(tx, execution.scope, get_turn_id(execution), wanted.todoId))


class CompleteTodo(Arguments):
    todoId: NonEmptyText
    outcome: Annotated[NonEmptyText, build_validator(text.check_text), Field(description="What was done, or why not")]
    status: Literal["completed", "cancelled", "canceled"] = "completed"


def complete_todo(tx: Transaction, execution: Execution, wanted: CompleteTodo) -> dict[str, Any]:
    status: Literal["completed", "canceled"] = "completed" if wanted.status == "completed" else "canceled"
    todo, remaining = turn_plan.complete(tx, execution.scope, get_turn_id(execution), wanted.todoId, wanted.outcome, status)
    return {
        "id": todo.uuid,
        "title": todo.subject,
        "status": turn_plan.STATUS_SPELLING[todo.status],
        "outcome": todo.outcome,
        "completedAt": format_timestamp(todo.completed_at),
        "remaining": remaining,
    }


def encode_plan_item(todo: Todo) -> dict[str, Any]:
    return {
        "id": todo.uuid,
        "title": todo.subject,
        "context": todo.description,
        "completionCriteria": todo.completion_criteria,
        "agentType": todo.agent_type,
        "status": turn_plan.STATUS_SPELLING[todo.status],
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


def to_list_or_none(given: Any) -> list[Any] | None:
    return given if isinstance(given, list) else None


def check_description(given: Any, field: str) -> str:
    """Return an item's description. Input that cannot be a description gives an empty string, which adds no item."""
    words = turn_queue.parse_text(given).strip()
    return text.check_subject(words, field) if words else ""


class ManageTodos(Arguments):
    # Any type: a value that is not a list changes nothing, and the result shows the current state.
    add: Annotated[
        list[Annotated[Any, build_validator(check_description)]] | None,
        BeforeValidator(to_list_or_none),
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ] = None
    delete: Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}})] = None


def manage_todos(tx: Transaction, execution: Execution, wanted: ManageTodos) -> dict[str, Any]:
    state = turn_queue.manage(tx, execution.scope, get_turn_id(execution), wanted.add, wanted.delete)
    return {"success": True, "state": state.as_json()}


# Compatible tools that replace the whole list at once


class TodoItem(Arguments):
    model_config = ConfigDict(extra="ignore", frozen=True)

    content: Subject
    status: StatusWord = "pending"


class WriteTodos(Arguments):
    todos: list[TodoItem]


def write_todos(tx: Transaction, execution: Execution, wanted: WriteTodos) -> dict[str, Any]:
    items = [replace_list.ReplacementItem(one.content, parse_status(one.status)) for one in wanted.todos]
    return replace_list.replace(tx, execution.scope, get_turn_id(execution), items).as_json()


class PlanStep(Arguments):
    model_config = ConfigDict(extra="ignore", frozen=True)

    step: Subject
    status: StatusWord = "pending"


class UpdatePlan(Arguments):
    plan: list[PlanStep]
    explanation: str | None = None


def update_plan(tx: Transaction, execution: Execution, wanted: UpdatePlan) -> dict[str, Any]:
    items = [replace_list.ReplacementItem(one.step, parse_status(one.status)) for one in wanted.plan]
    return replace_list.replace(tx, execution.scope, get_turn_id(execution), items).as_json()


PLAN_TOOLS = (
    Tool(
        "create_todo",
        "Plan this turn: add all items in one call. For work with several distinct steps, not for a simple question.",
        "turn_plan",
        CreateTodo,
        create_todo,
        needs=has_turn,
    ),
    Tool(
        "list_todo",
        "Show the turn's plan with a summary; by default the open items.",
        "turn_plan",
        ListTodo,
        list_todo,
        needs=has_turn,
    ),
    Tool("start_todo", "Mark a plan item as in progress.", "turn_plan", StartTodo, start_todo, needs=has_turn),
    Tool(
        "complete_todo",
        "End a plan item with its outcome. End every item before the final answer.",
        "turn_plan",
        CompleteTodo,
        complete_todo,
        needs=has_turn,
    ),
    Tool(
        "manage_todos",
        "Use the turn's list as a queue: add items at the end, delete by id or exact description. The first open item is current.",
        "queue",
        ManageTodos,
        manage_todos,
        needs=has_turn,
    ),
    Tool(
        "write_todos",
        "Replace the turn's whole list. Items that stay keep their history; items left out are canceled and reported.",
        "turn_plan",
        WriteTodos,
        write_todos,
        needs=has_turn,
        is_hidden=True,
    ),
    Tool("TodoWrite", "Same as write_todos.", "turn_plan", WriteTodos, write_todos, needs=has_turn, is_hidden=True),
    Tool(
        "update_plan",
        "Replace the turn's whole plan; steps left out are canceled and reported.",
        "turn_plan",
        UpdatePlan,
        update_plan,
        needs=has_turn,
        is_hidden=True,
    ),
)
