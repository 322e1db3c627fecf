"""The point at which a turn is forked: where its transcript is cut, and which events had happened by then."""

import json
from typing import NamedTuple

from headway.actions.inspection.steps import Steps, TurnStep
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.events import TURN_ENDS, LoggedEvent
from headway.ledger.run import Run
from headway.ledger.tenancy import Turn
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import events as event_store
from headway.storage.stores import forks as fork_store
from headway.storage.transaction import Transaction

AGENT_WRIT = "/agent"  # recorded like a tool call, but without events of its own


class ForkPoint(NamedTuple):
    end: int  # the number of the first message of the transcript that is not copied
    first_seq: int  # the event that started the turn
    seq: int  # the first event that is not copied
    last_message: int  # the first event of a message to people that is not copied
    at: int  # when the next step was stored, in milliseconds
    plan: dict[int, str] | None  # the statuses of the plan's items, as the model saw them; None: as the events tell


def find_point(tx: Transaction, turn: Turn, run: Run, steps: Steps, at: int) -> ForkPoint:
    """Find the point after a number of steps, just before the model gave its next answer."""
    if not 0 <= at <= steps.complete:
        raise Invalid(f"at must be between 0 and {steps.complete}, the number of completed steps of turn {turn.id}.")
    next_step = steps.steps[at] if at < len(steps.steps) else None
    first_seq = event_store.find_turn_start(tx, run.tenant_id, turn.conversation_id, turn.id)
    kinds = ("tool_call", "tool_result", "message", *TURN_ENDS)
    if not first_seq or fork_store.is_transcript_pruned(tx, run.tenant_id, run.id):
        raise Conflict(f"Turn {turn.id} cannot be forked: its history was deleted because of its age (HEADWAY_RETENTION).")
    events = [
        event
        for event in fork_store.list_events(tx, run.tenant_id, turn.conversation_id, kinds, first_seq - 1, MAX_INTEGER)
        if event.turn_id == turn.id
    ]
    seq = find_boundary(tx, turn, run, steps, events, at)
    unsaid = next_step or (steps.steps[-1] if at and not steps.steps[-1].has_calls else None)  # the fork says a last answer itself
    last_message = find_last_message(events, seq, unsaid)
    plans = [facts["plan"] for n, facts in steps.facts if next_step and n < next_step.n and "plan" in facts]
    plan = {int(item["id"]): str(item["status"]) for item in plans[-1]} if plans else None
    return ForkPoint(find_cut(steps, at), first_seq, seq, last_message, next_step.at if next_step else MAX_INTEGER, plan)


def find_cut(steps: Steps, at: int) -> int:
    """Return where to cut the transcript. A request to sum up, made at the step limit, is not copied: a fork has its own limit."""
    if at == 0:
        return 0
    end = steps.steps[at].n if at < len(steps.steps) else steps.end
    last_calls = {n for n, facts in steps.facts if "last_call" in facts}
    while end - 1 in last_calls:
        end -= 1
    return end


def find_boundary(tx: Transaction, turn: Turn, run: Run, steps: Steps, events: list[LoggedEvent], at: int) -> int:
    """Return the number of the first event that the next answer caused.

    An answer with calls is found by counting the events of the calls before it, an answer in words by the time of its storage.
    """
    next_step = steps.steps[at] if at < len(steps.steps) else None
    if next_step is None:
        ends = [event.seq for event in events if event.kind in TURN_ENDS]
        return ends[-1] if ends and run.ended else MAX_INTEGER
    made = sum(call.tool != AGENT_WRIT for step in steps.steps[:at] for call in step.calls)
    calls, results = list_of_run(events, "tool_call", run), list_of_run(events, "tool_result", run)
    if next_step.has_calls and len(calls) > made:
        return calls[made]
    first_seq = events[0].seq if events else 0
    last_seq = results[made - 1] if made and len(results) >= made else first_seq
    found = fork_store.find_first_event_since(tx, run.tenant_id, turn.conversation_id, last_seq, next_step.at)
    return found or MAX_INTEGER


def list_of_run(events: list[LoggedEvent], kind: str, run: Run) -> list[int]:
    """List the numbers of the events of this kind that the run itself caused, not its sub-agents."""
    return [event.seq for event in events if event.kind == kind and json.loads(event.data)["run_id"] == run.id]


def find_last_message(events: list[LoggedEvent], seq: int, step: TurnStep | None) -> int:
    """Return the first message that is not copied: the text of a step that is not copied, which is logged before its calls. How the
    turn ended early, or what it was saying when it was stopped, is not copied either."""
    messages = [event for event in events if event.kind == "message" and event.seq < seq]
    while messages and json.loads(messages[-1].data).get("kind", "text") != "text":
        seq = messages.pop().seq
    if not messages or step is None:
        return seq
    data = json.loads(messages[-1].data)
    first_line = next(iter(data["content"].strip().splitlines()), "")
    is_next = data["role"] == "assistant" and bool(first_line) and first_line in step.text
    return messages[-1].seq if is_next else seq
