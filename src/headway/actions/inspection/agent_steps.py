"""The transcript of one agent as people read it: its steps with their calls, and the sub-agents that it started."""

import json
from typing import Any, Final

from headway.actions import jobs, runs
from headway.actions.inspection.comparison import note_cut
from headway.actions.inspection.steps import build_step
from headway.ledger.run import Run
from headway.storage.stores import forks as fork_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.forks import ShownCall
from headway.storage.transaction import Transaction

TEXT_LIMIT: Final = 20_000  # characters of a model's answer
CALL_TEXT_LIMIT: Final = 4_000  # characters of the arguments or the result of a call
CHILDREN_LIMIT: Final = 100
STARTING_TOOLS: Final = frozenset(("delegate", "spawn_agent", "/agent"))


def list_page(tx: Transaction, tenant_id: int, run_id: str, after: int, limit: int) -> dict[str, Any]:
    """List up to `limit` steps after a message of the run's transcript, oldest first. Long texts are cut.

    Answers that were withdrawn are not steps. `next_after` is where the next page begins; None: this is the last page.
    """
    run = runs.get(tx, tenant_id, run_id)
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
                "text": cut(step.text, len(step.text), TEXT_LIMIT),
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
        "arguments": cut(call.arguments, call.arguments_length, CALL_TEXT_LIMIT),
        "state": call.state,
        "result": cut(call.result, call.result_length, CALL_TEXT_LIMIT) if has_ended else "",
        "run_id": run_id,
        "replayed": bool(call.replayed),
        "started_at": call.started_at / 1000,
        "ended_at": call.ended_at / 1000,
    }


def cut(text: str, length: int, limit: int) -> str:
    return text if length <= limit else note_cut(text[:limit], length - limit)
