"""The steps of a turn: the answers of the model, numbered from 1, each with its tool calls and their results."""

import json
from typing import Any, NamedTuple

from headway.ledger.run import Run
from headway.storage.stores import forks as fork_store
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
    calls: tuple[StepCall, ...]  # those that were made, /agent writs included
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
    """Count the steps after which something else happened. The last answer of a turn that finished is complete, too."""
    if not steps:
        return 0
    last = steps[-1]
    is_last_complete = last.n + 1 < end or (run.status == "completed" and not last.has_calls)
    return len(steps) if is_last_complete else len(steps) - 1
