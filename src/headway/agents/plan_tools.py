"""Tools of the turn's list: the plan, the queue with a current item, and shapes that agents know from elsewhere."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from headway.actions import turn_plan, turn_queue, whole_list
from headway.agents.execution import Execution
from headway.agents.toolbox import Arguments, Filled, StatusWord, Subject, Text, Tool, obeying
from headway.ledger import text
from headway.ledger.todo import Todo, parse_status
from headway.storage import todo_store
from headway.storage.transaction import Transaction


def turn_of(execution: Execution) -> str:
    assert execution.scope.turn_id is not None  # the toolbox asked has_turn first
    return execution.scope.turn_id


def has_turn(execution: Execution) -> bool:
    return execution.scope.turn_id is not None


# The plan


def agent_type(name: str | None, field: str) -> str | None:
    return text.name(name, field) if name else None


class NewItem(Arguments):
    title: Subject
    context: Text = ""
    completionCriteria: Text = ""
    agentType: Annotated[str | None, obeying(agent_type)] = None
    order: Annotated[int | None, Field(description="1-indexed place; default: the end")] = None


class CreateTodo(Arguments):
    items: Annotated[list[NewItem], Field(min_length=1)]


def create_todo(tx: Transaction, execution: Execution, wanted: CreateTodo) -> dict[str, Any]:
    items = [turn_plan.PlanItem(one.title, one.context, one.completionCriteria, one.agentType, one.order) for one in wanted.items]
    created, pending = turn_plan.create(tx, execution.scope, turn_of(execution), items)
    shown = [{"id": todo.uuid, "title": todo.subject, "order": todo.position + 1} for todo in created]
    return {"created": shown, "totalPending": pending}


class ListTodo(Arguments):
    status: Literal["pending", "in_progress", "completed", "cancelled", "canceled", "all"] | None = None


def list_todo(tx: Transaction, execution: Execution, wanted: ListTodo) -> dict[str, Any]:
    plan = todo_store.of_turn(tx, execution.scope.tenant_id, turn_of(execution))
    if wanted.status is None:
        shown = [todo for todo in plan if not todo.ended]
    elif wanted.status == "all":
        shown = plan
    else:
        shown = [todo for todo in plan if todo.status == parse_status(wanted.status)]
    return {"items": [plan_item(todo) for todo in shown], "summary": turn_plan.counts(plan)}


class StartTodo(Arguments):
    todoId: Filled


def start_todo(tx: Transaction, execution: Execution, wanted: StartTodo) -> dict[str, Any]:
    return plan_item(turn_plan.start(tx, execution.scope, turn_of(execution), wanted.todoId))


class CompleteTodo(Arguments):
    todoId: Filled
    outcome: Annotated[Filled, obeying(text.safe), Field(description="What was done, or why not")]
    status: Literal["completed", "cancelled", "canceled"] = "completed"


def complete_todo(tx: Transaction, execution: Execution, wanted: CompleteTodo) -> dict[str, Any]:
    status: Literal["completed", "canceled"] = "completed" if wanted.status == "completed" else "canceled"
    todo, remaining = turn_plan.complete(tx, execution.scope, turn_of(execution), wanted.todoId, wanted.outcome, status)
    return {
        "id": todo.uuid,
        "title": todo.subject,
        "status": turn_plan.SPELLING[todo.status],
        "outcome": todo.outcome,
        "completedAt": moment(todo.completed_at),
        "remaining": remaining,
    }


def plan_item(todo: Todo) -> dict[str, Any]:
    return {
        "id": todo.uuid,
        "title": todo.subject,
        "context": todo.description,
        "completionCriteria": todo.completion_criteria,
        "agentType": todo.agent_type,
        "status": turn_plan.SPELLING[todo.status],
        "priority": todo.position,
        "outcome": todo.outcome,
        "createdAt": moment(todo.created_at),
        "startedAt": moment(todo.started_at),
        "completedAt": moment(todo.completed_at),
    }


def moment(milliseconds: int) -> str | None:
    """ISO 8601, or nothing while it has not happened."""
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# The queue


def list_or_nothing(given: Any) -> list[Any] | None:
    return given if isinstance(given, list) else None


def description(given: Any, field: str) -> str:
    """An item's description; empty if what a model sent cannot be one, which adds nothing."""
    words = turn_queue.text_of(given).strip()
    return text.subject(words, field) if words else ""


class ManageTodos(Arguments):
    # Anything: what is not a list changes nothing, and the answer shows the state as it is.
    add: Annotated[
        list[Annotated[Any, obeying(description)]] | None,
        BeforeValidator(list_or_nothing),
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ] = None
    delete: Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}})] = None


def manage_todos(tx: Transaction, execution: Execution, wanted: ManageTodos) -> dict[str, Any]:
    state = turn_queue.manage(tx, execution.scope, turn_of(execution), wanted.add, wanted.delete)
    return {"success": True, "state": state.as_json()}


# Shapes known from elsewhere: the whole list at once


class KnownItem(Arguments):
    model_config = ConfigDict(extra="ignore", frozen=True)

    content: Subject
    status: StatusWord = "pending"


class WriteTodos(Arguments):
    todos: list[KnownItem]


def write_todos(tx: Transaction, execution: Execution, wanted: WriteTodos) -> dict[str, Any]:
    items = [whole_list.Wanted(one.content, parse_status(one.status)) for one in wanted.todos]
    return whole_list.write(tx, execution.scope, turn_of(execution), items).as_json()


class PlanStep(Arguments):
    model_config = ConfigDict(extra="ignore", frozen=True)

    step: Subject
    status: StatusWord = "pending"


class UpdatePlan(Arguments):
    plan: list[PlanStep]
    explanation: str | None = None


def update_plan(tx: Transaction, execution: Execution, wanted: UpdatePlan) -> dict[str, Any]:
    items = [whole_list.Wanted(one.step, parse_status(one.status)) for one in wanted.plan]
    return whole_list.write(tx, execution.scope, turn_of(execution), items).as_json()


PLAN_TOOLS = (
    Tool(
        "create_todo",
        "Plan this turn: add one or more items, all in one call. For work of several distinct steps; not for a simple question.",
        "turn_plan",
        CreateTodo,
        create_todo,
        needs=has_turn,
    ),
    Tool(
        "list_todo",
        "The turn's plan with a summary; by default what remains.",
        "turn_plan",
        ListTodo,
        list_todo,
        needs=has_turn,
    ),
    Tool("start_todo", "Mark an item of the plan as in progress.", "turn_plan", StartTodo, start_todo, needs=has_turn),
    Tool(
        "complete_todo",
        "End an item of the plan with its outcome. Every item must be ended before the final answer.",
        "turn_plan",
        CompleteTodo,
        complete_todo,
        needs=has_turn,
    ),
    Tool(
        "manage_todos",
        "The turn's list as a queue: add steps at the end, delete by id or exact description. The first open one is current.",
        "queue",
        ManageTodos,
        manage_todos,
        needs=has_turn,
    ),
    Tool(
        "write_todos",
        "Write the turn's whole list. Items that stay keep their history; ones left out are canceled and reported.",
        "turn_plan",
        WriteTodos,
        write_todos,
        needs=has_turn,
        borrowed=True,
    ),
    Tool("TodoWrite", "The same as write_todos.", "turn_plan", WriteTodos, write_todos, needs=has_turn, borrowed=True),
    Tool(
        "update_plan",
        "Write the turn's whole plan as steps; steps left out are canceled and reported.",
        "turn_plan",
        UpdatePlan,
        update_plan,
        needs=has_turn,
        borrowed=True,
    ),
)
