"""Describes the changes of a todo, from the states that its events recorded."""

import json
from collections.abc import Sequence
from typing import Any

from headway.actions.inspection.event_sentences import WhyLine, format_actor, format_name
from headway.actions.inspection.journal_sentences import shorten
from headway.ledger.events import restore_texts
from headway.ledger.text import to_one_line
from headway.ledger.todo import ENDED_STATUSES, Todo
from headway.storage.stores.events import CausedEvent

State = dict[str, Any]


def describe_changes(events: Sequence[CausedEvent]) -> list[WhyLine]:
    """Describe each event by what it changed."""
    changes = [(event, json.loads(event.data)) for event in events]
    lines: list[WhyLine] = []
    old: State | None = None
    for event, data in changes:
        new: State = restore_texts(data, "todo", old)
        sentence, is_key = describe_change(old, new, data["change"], format_actor(event.actor))
        if sentence:
            lines.append(WhyLine(event.seq, event.at, to_one_line(sentence), is_key))
        old = new
    return lines


def describe_plan(events: Sequence[CausedEvent]) -> list[WhyLine]:
    """Describe how the items of a turn's plan were added, started and ended. These are details of the turn."""
    states: dict[int, State] = {}
    lines: list[WhyLine] = []
    for event in events:
        data = json.loads(event.data)
        old = states.get(data["todo"]["id"])
        new: State = restore_texts(data, "todo", old)
        states[new["id"]] = new
        by = format_actor(event.actor)
        if old is None:
            sentence = f"“{shorten(new['subject'])}” became item #{new['id']} of the plan{by}."
        elif old["status"] != new["status"]:
            sentence = f"Item #{new['id']}{describe_status(old, new, by).removeprefix('It')}"
        else:
            continue
        lines.append(WhyLine(event.seq, event.at, to_one_line(sentence), is_key=False))
    return lines


def describe_change(old: State | None, new: State, change: str, by: str) -> tuple[str, bool]:
    """Return a sentence and whether it is a key step."""
    if change == "created":
        return (
            f"“{shorten(new['subject'])}” was created{by or ' without a named author'} {describe_place(new)}{describe_waits(new)}.",
            True,
        )
    if old is None:
        return f"It was changed{by}; its status was {new['status']}.", True
    if old["status"] != new["status"]:
        return describe_status(old, new, by), True
    if old["depends_on"] != new["depends_on"]:
        return f"Its dependencies changed{by}: it {describe_waits(new).removeprefix(', ') or 'depends on nothing'}.", True
    if old["turn_id"] and new["turn_id"] and old["turn_id"] != new["turn_id"]:
        return f"It moved to turn {new['turn_id']}, which continues turn {old['turn_id']}{by}.", True
    if old["agent_id"] != new["agent_id"]:
        return f"It was given to agent {format_name(new['agent_id'])}{by}.", True
    fields = [name for name in new if name != "updated_at" and new[name] != old.get(name)]
    if len(fields) > 1 and "position" in fields:  # others may have moved it in the meantime; their event is not one of the todo
        fields.remove("position")
    return (f"Its {', '.join(fields).replace('_', ' ')} changed{by}.", False) if fields else ("", False)


def describe_place(todo: State) -> str:
    if todo["turn_id"]:
        return f"in the plan of turn {todo['turn_id']}"
    return f"in conversation {todo['conversation_id']}" if todo["conversation_id"] else "in the tenant's list"


def describe_waits(todo: State) -> str:
    return f", waits for {', '.join(f'#{number}' for number in todo['depends_on'])}" if todo["depends_on"] else ""


def describe_status(old: State, new: State, by: str) -> str:
    outcome = f": {shorten(new['outcome'])}" if new["outcome"] and new["outcome"] != old["outcome"] else "."
    if new["status"] in ENDED_STATUSES:
        return f"It was {new['status']}{by}{outcome}"
    if old["status"] in ENDED_STATUSES:
        return f"It was reopened{by}: from {old['status']} to {new['status']}."
    if new["status"] == "in_progress":
        agent = f" as agent {format_name(new['agent_id'])}" if new["agent_id"] != old["agent_id"] else ""
        return f"It was started{by}{agent}."
    return f"It was set back from {old['status']} to {new['status']}{by}."


def describe_last_end(todo: Todo, events: Sequence[CausedEvent]) -> WhyLine:
    """Describe when a dependency ended."""
    ends = [event for event in events if json.loads(event.data)["todo"]["status"] == todo.status]
    earlier = [event for event in ends if event.at >= todo.completed_at]
    event = earlier[0] if earlier else None
    sentence = f"Dependency #{todo.id} “{shorten(todo.subject)}” was {todo.status}{format_actor(event.actor if event else '')}."
    return WhyLine(event.seq if event else None, todo.completed_at, to_one_line(sentence))
