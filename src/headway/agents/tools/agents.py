"""Tools that start sub-agents, wait for them, check on them and cancel them."""

from typing import Annotated, Any

from pydantic import AliasChoices, Field

from headway.actions.runs import runs
from headway.actions.todos import todos
from headway.actions.turns import plan
from headway.agents.delegation import Assignment, delegate
from headway.agents.tools.arguments import Arguments, ItemId, NonEmptyText
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import InTransaction, Pending, Tool, Waits
from headway.ledger import text
from headway.ledger.errors import NotFound
from headway.ledger.run import Run
from headway.ledger.todo import Change
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

DEFAULT_WAIT_S = 300
REPORT_TOOL = "report_outcome"


class Delegate(Arguments):
    agent: Annotated[NonEmptyText, Field(description="Role of the worker")]
    task: Annotated[NonEmptyText, Field(description="All it needs to know: it does not see this conversation")]
    todoId: Annotated[ItemId | None, Field(validation_alias=AliasChoices("todoId", "todo_id"), description="Its plan item")] = None


def start_delegation(tx: Transaction, execution: Execution, arguments: Delegate) -> Pending:
    if arguments.todoId:
        plan.start_plan_item(tx, execution.scope, execution.scope.turn_id or "", arguments.todoId)
    child = delegate(
        tx, get_run(tx, execution), Assignment(execution.roles.find(arguments.agent), arguments.task), execution.limits
    )
    return Pending(child.id)


def poll_delegation(tx: Transaction, execution: Execution, arguments: Delegate, pending: Pending) -> dict[str, Any] | None:
    child = runs.get_run(tx, execution.scope.tenant_id, pending.id)
    if not child.ended:
        return None
    result = runs.build_result(tx, child)
    if arguments.todoId and result.get("status") == "completed":
        complete_item(tx, execution, arguments.todoId, str(result["summary"]))
    return result


def complete_item(tx: Transaction, execution: Execution, todo_uuid: str, outcome: str) -> None:
    """Complete the delegated plan item with the sub-agent's outcome, unless it has checks or was ended in the meantime."""
    todo = plan.get_plan_item(tx, execution.scope, execution.scope.turn_id or "", todo_uuid)
    if not todo.ended and not todo.checks:  # its checks run when the agent itself completes it
        completed = Change(status="completed", outcome=outcome[: text.TEXT_LIMIT] or "Done.", completed_by="agent")
        todos.change_todo(tx, execution.scope.tenant_id, todo.id, completed)


class SpawnAgent(Arguments):
    task: NonEmptyText
    context: Annotated[Any, Field(description="What it should know: an object or text")] = None
    role: NonEmptyText = "researcher"


def spawn_agent(tx: Transaction, execution: Execution, arguments: SpawnAgent) -> dict[str, Any]:
    assignment = Assignment(execution.roles.find(arguments.role), arguments.task, arguments.context)
    run_id = delegate(tx, get_run(tx, execution), assignment, execution.limits).id
    return {"run_id": run_id, "jobId": run_id}  # a run's job has the same id as the run


# Also accept jobId, for prompts written for a job queue.
ChildId = Annotated[NonEmptyText, Field(coerce_numbers_to_str=True, validation_alias=AliasChoices("run_id", "jobId"))]


class AwaitAgent(Arguments):
    run_id: ChildId
    timeout_s: Annotated[float, Field(gt=0, le=24 * 3600)] = DEFAULT_WAIT_S


def start_await(tx: Transaction, execution: Execution, arguments: AwaitAgent) -> Pending:
    get_child(tx, execution, arguments.run_id)
    return Pending(arguments.run_id, tx.now + tx.drift + int(arguments.timeout_s * 1000))


def poll_await(tx: Transaction, execution: Execution, arguments: AwaitAgent, pending: Pending) -> dict[str, Any] | None:
    child = get_child(tx, execution, arguments.run_id)
    if not child.ended and tx.now + tx.drift < pending.until:
        return None
    return runs.build_result(tx, child)


class RunId(Arguments):
    run_id: ChildId


def check_agent(tx: Transaction, execution: Execution, arguments: RunId) -> dict[str, Any]:
    child = get_child(tx, execution, arguments.run_id)
    return {
        **runs.build_result(tx, child),
        "iterations": child.iterations,
        "last_activity_s": (tx.now - child.updated_at) // 1000,
    }


def cancel_agent(tx: Transaction, execution: Execution, arguments: RunId) -> dict[str, Any]:
    return runs.build_result(tx, runs.cancel_tree(tx, get_child(tx, execution, arguments.run_id)))


class ReportOutcome(Arguments):
    summary: Annotated[NonEmptyText, Field(description="The outcome in words")]
    data: Annotated[Any, Field(description="The outcome as data")] = None
    success: bool = True


def report_outcome(_tx: Transaction, execution: Execution, arguments: ReportOutcome) -> dict[str, Any]:
    """Accept the reported outcome. The runtime ends the run with it in the same step."""
    text.check_numbers(arguments.data)
    return {"ok": True}


def get_run(tx: Transaction, execution: Execution) -> Run:
    return runs.get_run(tx, execution.scope.tenant_id, execution.run_id or "")


def get_child(tx: Transaction, execution: Execution, run_id: str) -> Run:
    """Return a sub-agent that the calling run started. Any other run's sub-agents are not found."""
    child = run_store.find_run(tx, execution.scope.tenant_id, text.check_text(run_id, "run_id"))
    if child is None or child.parent_run_id != execution.run_id:
        raise NotFound(f"You have no sub-agent {run_id[:80]!r}.")
    return child


def is_sub_agent(execution: Execution) -> bool:
    return execution.run_id is not None and execution.scope.turn_id is None


def has_run(execution: Execution) -> bool:
    return execution.run_id is not None


AGENT_TOOLS = (
    Tool(
        "delegate",
        "Hand a task to a worker and wait for its result.",
        "agents",
        Delegate,
        Waits(start_delegation, poll_delegation),
        needs=has_run,
    ),
    Tool(
        "spawn_agent", "Start a sub-agent that works in parallel.", "agents", SpawnAgent, InTransaction(spawn_agent), needs=has_run
    ),
    Tool(
        "await_agent",
        "Wait for a sub-agent. If it is still running at the timeout, you may wait again.",
        "agents",
        AwaitAgent,
        Waits(start_await, poll_await),
        needs=has_run,
    ),
    Tool("check_agent", "Check the state of a sub-agent.", "agents", RunId, InTransaction(check_agent), needs=has_run),
    Tool("cancel_agent", "Stop a sub-agent.", "agents", RunId, InTransaction(cancel_agent), needs=has_run),
    Tool(
        REPORT_TOOL,
        "End your task with its outcome. A plain answer also ends it.",
        "outcome",
        ReportOutcome,
        InTransaction(report_outcome),
        needs=is_sub_agent,
    ),
)
