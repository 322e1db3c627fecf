"""A conversation as people follow it: its messages, tool calls and turns, and what is happening now."""

import json
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from headway.actions.todos import finding
from headway.actions.todos.turn_state import load_queue_state
from headway.actions.turns import turns
from headway.actions.turns.live_text import LiveText
from headway.ledger.events import LoggedEvent, restore_texts
from headway.ledger.limits import Limits
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.events import LogBounds
from headway.storage.transaction import Transaction

TIMELINE_KINDS: Final = (
    "turn_started",
    "message",
    "tool_call",
    "tool_result",
    "agent_changed",
    "agent_message",
    "approval_requested",
    "approval_decided",
    "question_asked",
    "question_answered",
    "messages_read",
    "compacted",
    "todos_limit",
    "refused",
    "turn_delayed",
    "turn_paused",
    "turn_resumed",
    "turn_finished",
    "turn_failed",
    "turn_canceled",
)


class TimelineView(NamedTuple):
    """A conversation as it is shown: the page of past entries, the limits of its turns and the answers being written."""

    limits: Limits
    live_text: LiveText
    limit: int
    before: int = MAX_INTEGER


def list_old_messages(
    tx: Transaction, tenant_id: int, conversation_id: int, limit: int, bounds: LogBounds, known: Collection[int]
) -> list[dict[str, Any]]:
    """List the last messages whose events were deleted because of their age. They have no number in the log, so it is 0."""
    messages = turns.list_messages(tx, tenant_id, conversation_id, limit + len(known))
    old = [message for message in messages if message.created_at <= bounds.pruned_at and message.id not in known]
    return [{"seq": 0, "kind": "message", "data": message.as_json(), "at": message.created_at // 1000} for message in old[-limit:]]


def show_timeline(tx: Transaction, tenant_id: int, conversation_id: int, view: TimelineView) -> dict[str, Any]:
    """Return the last entries before a sequence number, oldest first. `seq` is the current end of the log: a reader that follows
    the log from there misses nothing and gets nothing twice."""
    finding.get_conversation(tx, tenant_id, conversation_id)
    events = event_store.list_by_kinds(tx, tenant_id, conversation_id, TIMELINE_KINDS, view.before, view.limit)
    bounds = event_store.get_bounds(tx, tenant_id)
    entries = [build_entry(tx, tenant_id, event) for event in events]
    if bounds.pruned and view.before > 0 and len(entries) < view.limit:
        known = {entry["data"]["id"] for entry in entries if entry["kind"] == "message"}
        entries = [*list_old_messages(tx, tenant_id, conversation_id, view.limit - len(entries), bounds, known), *entries]
    running = turns.find_running(tx, tenant_id, conversation_id)
    turn_id = running.turn_id if running else conversation_store.find_last_turn(tx, tenant_id, conversation_id)
    partial_answer = (
        view.live_text.of(running.id, run_store.get_next_message_number(tx, tenant_id, running.id)) if running else None
    )
    return {
        "seq": bounds.last_seq,
        "entries": entries,
        "running": turns.show_turn(tx, tenant_id, running.turn_id, view.limits) if running and running.turn_id else None,
        "saying": partial_answer._asdict() if partial_answer else None,
        "turn_id": turn_id,
        "todos": load_queue_state(tx, tenant_id, turn_id).as_json() if turn_id else None,
    }


def build_entry(tx: Transaction, tenant_id: int, event: LoggedEvent) -> dict[str, Any]:
    """Return an event as the timeline shows it. A sub-agent's task that the event left out is added, because the event that has it
    may be on an earlier page."""
    data: dict[str, Any] = json.loads(event.data)
    if event.kind == "agent_changed" and "omitted" in data:
        run = run_store.find_run(tx, tenant_id, data["run"]["id"])
        data = {"run": restore_texts(data, "run", run._asdict() if run else None)}
    return {"seq": event.seq, "kind": event.kind, "data": data, "at": event.at // 1000}
