"""Two turns side by side: plans, calls, results, answers, tokens, cost and time, and the first step that diverged."""

import json
from typing import Any, Final, NamedTuple

from headway.actions import conversations, spending
from headway.actions.inspection.steps import StepCall, TurnStep, load_steps
from headway.ledger.run import Run
from headway.ledger.tenancy import Turn
from headway.ledger.todo import Todo
from headway.storage.stores import forks as fork_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

TEXT_LIMIT: Final = 2_000  # characters of a request, an answer, a result or arguments
STEPS_LIMIT: Final = 500
PLAN_LIMIT: Final = 500
# Their results name rows and times, which differ between a turn and its fork.
UNCOMPARED_RESULTS: Final = frozenset(
    (
        *("create_todo", "list_todo", "complete_todo", "start_todo", "manage_todos", "write_todos", "TodoWrite", "update_plan"),
        *("todo_add", "todo_update", "todo_list", "todo_ready", "now"),
    )
)


class Side(NamedTuple):
    turn: Turn
    run: Run | None
    steps: list[TurnStep]
    plan: list[Todo]
    items: dict[str, int]  # the place of each plan item by the numbers and UUIDs that name it


def compare(tx: Transaction, tenant_id: int, first_id: str, second_id: str) -> dict[str, Any]:
    """Compare two turns of a tenant. Long texts are cut."""
    first, second = load_side(tx, tenant_id, first_id), load_side(tx, tenant_id, second_id)
    count = max(len(first.steps), len(second.steps))
    same = [is_same(first, second, index) for index in range(count)]
    return {
        "a": show_side(tx, first),
        "b": show_side(tx, second),
        "diverged_at": same.index(False) + 1 if False in same else None,
        "steps": [
            {"step": index + 1, "same": same[index], "a": find_step(first, index), "b": find_step(second, index)}
            for index in range(min(count, STEPS_LIMIT))
        ],
    }


def list_steps(tx: Transaction, tenant_id: int, turn_id: str) -> list[dict[str, Any]]:
    """List the steps of a turn, numbered as forks count them. Long texts are cut."""
    side = load_side(tx, tenant_id, turn_id)
    return [{"step": step.number, **show_step(step)} for step in side.steps[:STEPS_LIMIT]]


def load_side(tx: Transaction, tenant_id: int, turn_id: str) -> Side:
    turn = conversations.get_turn(tx, tenant_id, turn_id)
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    plan = todo_store.list_by_turn(tx, tenant_id, turn.id)
    numbers = {todo.id: place for place, todo in enumerate(plan)}
    items = {str(todo.id): numbers[todo.id] for todo in plan} | {todo.uuid: numbers[todo.id] for todo in plan}
    former = fork_store.list_former_names(tx, tenant_id, turn.conversation_id) if turn.forked_from else []
    items |= {name: numbers[todo_id] for name, todo_id in former if todo_id in numbers}
    return Side(turn, run, load_steps(tx, run).steps if run else [], plan, items)


def is_same(first: Side, second: Side, index: int) -> bool:
    """Whether both turns said and did the same in a step, and got the same results."""
    if index >= len(first.steps) or index >= len(second.steps):
        return False
    return normalize_step(first, first.steps[index]) == normalize_step(second, second.steps[index])


def normalize_step(side: Side, step: TurnStep) -> tuple[Any, ...]:
    return (step.text.strip(), *(normalize_call(side, call) for call in step.calls))


def normalize_call(side: Side, call: StepCall) -> tuple[Any, ...]:
    """Return what is compared of a call. A plan's item is named by its place, because its number differs in a fork."""
    arguments = json.loads(call.arguments)
    if isinstance(arguments, dict) and isinstance(arguments.get("todoId"), str):
        name = arguments["todoId"].removeprefix("#")
        arguments["todoId"] = side.items.get(name, name)
    result = "" if call.tool in UNCOMPARED_RESULTS else call.result
    return call.tool, json.dumps(arguments, sort_keys=True), call.state, result


def find_step(side: Side, index: int) -> dict[str, Any] | None:
    return show_step(side.steps[index]) if index < len(side.steps) else None


def show_step(step: TurnStep) -> dict[str, Any]:
    return {
        "text": cut(step.text),
        "calls": [
            {
                "tool": call.tool,
                "arguments": cut(call.arguments),
                "state": call.state,
                "result": cut(call.result),
                "replayed": call.is_replayed,
            }
            for call in step.calls
        ],
        "input_tokens": step.input_tokens,
        "output_tokens": step.output_tokens,
    }


def show_side(tx: Transaction, side: Side) -> dict[str, Any]:
    turn, run = side.turn, side.run
    spent = spending.get_turn_spending(tx, run.tenant_id, turn.id) if run else spending.TurnSpending()
    return {
        "id": turn.id,
        "conversation_id": turn.conversation_id,
        "request": cut(turn.request),
        "status": turn.shown_status,
        "outcome": turn.outcome,
        "forked_from": {"turn_id": turn.forked_from, "at": turn.fork_at} if turn.forked_from else None,
        "role": run.role if run else None,
        "steps": len(side.steps),
        "answer": cut((run.result if run else None) or ""),
        "plan": [
            {"title": todo.subject, "status": todo.status, "outcome": cut(todo.outcome or "")} for todo in side.plan[:PLAN_LIMIT]
        ],
        **spent.as_json(),
        "duration_s": turn._replace(ended_at=turn.ended_at or tx.now).duration_s,
    }


def cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else note_cut(text[:TEXT_LIMIT], len(text) - TEXT_LIMIT)


def note_cut(text: str, left_out: int) -> str:
    return f"{text}… ({left_out:,} more characters)"
