"""The steps of a turn or an agent, read from its transcript, and two turns compared step by step."""

import json
from typing import Any, Final, NamedTuple

from headway.actions.access import spending
from headway.actions.runs import jobs, runs
from headway.actions.todos import finding
from headway.ledger.run import Run
from headway.ledger.tenancy import Turn
from headway.ledger.todo import Todo
from headway.storage.stores import forks as fork_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.stores.forks import ShownCall
from headway.storage.transaction import Transaction


class StepCall(NamedTuple):
    tool: str
    arguments: str  # JSON
    state: str
    result: str
    is_replayed: bool


class TurnStep(NamedTuple):
    """One answer of the model. Answers that the runtime has withdrawn are not steps."""

    number: int
    n: int  # the number of the message in the transcript
    at: int
    text: str
    has_calls: bool
    calls: tuple[StepCall, ...]  # the calls that were made, /agent writs included
    input_tokens: int
    output_tokens: int


class Steps(NamedTuple):
    steps: list[TurnStep]
    complete: int  # how many of them have all their results
    facts: list[tuple[int, dict[str, Any]]]  # what the runtime's messages state, with the number of each message
    end: int  # the number of the message that comes next


def load_steps(tx: Transaction, run: Run) -> Steps:
    """Load the steps of a run from its transcript and its tool calls."""
    calls: dict[int, list[StepCall]] = {}
    for effect in fork_store.list_effects(tx, run.tenant_id, run.id):
        call = StepCall(effect.tool, effect.arguments, effect.state, effect.result, bool(effect.replayed))
        calls.setdefault(effect.n, []).append(call)
    steps: list[TurnStep] = []
    facts: list[tuple[int, dict[str, Any]]] = []
    end = 0
    for stored in fork_store.list_transcript(tx, run.tenant_id, run.id):
        message: dict[str, Any] = json.loads(stored.message)[0]
        end = stored.n + 1
        if message["kind"] == "response" and stored.sent:
            steps.append(build_step(len(steps) + 1, stored, message, tuple(calls.get(stored.n, ()))))
        elif known := (message.get("metadata") or {}).get("headway"):
            facts.append((stored.n, known))
    return Steps(steps, count_complete(run, steps, end), facts, end)


def build_step(number: int, stored: fork_store.StoredMessage, message: dict[str, Any], calls: tuple[StepCall, ...]) -> TurnStep:
    parts = message["parts"]
    text = "".join(part["content"] for part in parts if part["part_kind"] == "text")
    has_calls = any(part["part_kind"] == "tool-call" for part in parts)
    usage = message.get("usage") or {}
    tokens = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    return TurnStep(number, stored.n, stored.at, text, has_calls, calls, *tokens)


def count_complete(run: Run, steps: list[TurnStep], end: int) -> int:
    """Count the steps after which something else happened. The last answer of a finished turn also counts."""
    if not steps:
        return 0
    last = steps[-1]
    is_last_complete = last.n + 1 < end or (run.status == "completed" and not last.has_calls)
    return len(steps) if is_last_complete else len(steps) - 1


# Two turns side by side: plans, calls, results, answers, tokens, cost and time, and the first step that diverged.


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
    items: dict[str, int]  # the index of each plan item by the numbers and UUIDs that name it


def compare_turns(tx: Transaction, tenant_id: int, first_id: str, second_id: str) -> dict[str, Any]:
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
    turn = finding.get_turn(tx, tenant_id, turn_id)
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    plan = todo_store.list_by_turn(tx, tenant_id, turn.id)
    numbers = {todo.id: index for index, todo in enumerate(plan)}
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
        "text": cut_step_text(step.text),
        "calls": [
            {
                "tool": call.tool,
                "arguments": cut_step_text(call.arguments),
                "state": call.state,
                "result": cut_step_text(call.result),
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
        "request": cut_step_text(turn.request),
        "status": turn.shown_status,
        "outcome": turn.outcome,
        "forked_from": {"turn_id": turn.forked_from, "at": turn.fork_at} if turn.forked_from else None,
        "role": run.role if run else None,
        "steps": len(side.steps),
        "answer": cut_step_text((run.result if run else None) or ""),
        "plan": [
            {"title": todo.subject, "status": todo.status, "outcome": cut_step_text(todo.outcome or "")}
            for todo in side.plan[:PLAN_LIMIT]
        ],
        **spent.as_json(),
        "duration_s": turn._replace(ended_at=turn.ended_at or tx.now).duration_s,
    }


def cut_step_text(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else note_cut(text[:TEXT_LIMIT], len(text) - TEXT_LIMIT)


def note_cut(text: str, left_out: int) -> str:
    return f"{text}… ({left_out:,} more characters)"


# The transcript of one agent as people read it: its steps with their calls, and the sub-agents that it started.


AGENT_TEXT_LIMIT: Final = 20_000  # characters of a model's answer
CALL_TEXT_LIMIT: Final = 4_000  # characters of the arguments or the result of a call
CHILDREN_LIMIT: Final = 100
STARTING_TOOLS: Final = frozenset(("delegate", "spawn_agent", "/agent"))


def list_agent_steps(tx: Transaction, tenant_id: int, run_id: str, after: int, limit: int) -> dict[str, Any]:
    """List up to `limit` steps after a message of the run's transcript, oldest first. Long texts are cut.

    Answers that were withdrawn are not steps. `next_after` is where the next page begins, or None on the last page.
    """
    run = runs.get_run(tx, tenant_id, run_id)
    children = run_store.list_children(tx, tenant_id, run.id, CHILDREN_LIMIT)
    window = 2 * limit + 1  # after most answers comes a message with the results of their calls
    stored = fork_store.list_transcript(tx, tenant_id, run.id, after, window)
    answers = [(row, message) for row in stored if row.sent and (message := json.loads(row.message)[0])["kind"] == "response"]
    page = answers[:limit]
    last = page[-1][0].n if page else after
    calls = group_calls(fork_store.list_shown_calls(tx, tenant_id, run.id, after, last, CALL_TEXT_LIMIT), children)
    has_more = len(answers) > limit or len(stored) == window
    retry_times = jobs.retry_times(tx, tenant_id, [child.id for child in children if not child.ended])
    steps = [build_step(0, row, message, ()) for row, message in page]
    return {
        "steps": [
            {
                "n": step.n,
                "at": step.at / 1000,
                "text": cut_agent_text(step.text, len(step.text), AGENT_TEXT_LIMIT),
                "calls": calls.get(step.n, []),
                "input_tokens": step.input_tokens,
                "output_tokens": step.output_tokens,
            }
            for step in steps
        ],
        "agents": [runs.as_json(child, retry_times.get(child.id, 0)) for child in children],
        "next_after": (last if len(answers) > limit else stored[-1].n) if has_more else None,
        "pruned": is_pruned(tx, run),
    }


def is_pruned(tx: Transaction, run: Run) -> bool:
    return run.ended and fork_store.is_transcript_pruned(tx, run.tenant_id, run.id)


def group_calls(calls: list[ShownCall], children: list[Run]) -> dict[int, list[dict[str, Any]]]:
    """Return the calls of each message. A call that started a sub-agent names it: both were stored at the same time."""
    unmatched = list(children)
    grouped: dict[int, list[dict[str, Any]]] = {}
    for call in calls:
        is_start = call.tool in STARTING_TOOLS
        child = next((child for child in unmatched if is_start and child.created_at == call.started_at), None)
        if child:
            unmatched.remove(child)
        grouped.setdefault(call.n, []).append(show_call(call, child.id if child else None))
    return grouped


def show_call(call: ShownCall, run_id: str | None) -> dict[str, Any]:
    has_ended = call.ended_at != 0  # what is stored before the end is for the runtime only
    return {
        "call_id": call.call_id,
        "tool": call.tool,
        "arguments": cut_agent_text(call.arguments, call.arguments_length, CALL_TEXT_LIMIT),
        "state": call.state,
        "result": cut_agent_text(call.result, call.result_length, CALL_TEXT_LIMIT) if has_ended else "",
        "run_id": run_id,
        "replayed": bool(call.replayed),
        "started_at": call.started_at / 1000,
        "ended_at": call.ended_at / 1000,
    }


def cut_agent_text(text: str, length: int, limit: int) -> str:
    return text if length <= limit else note_cut(text[:limit], length - limit)
