"""Events of the append-only log. Each is written in the same transaction as the change it describes."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

import orjson

from headway.ledger.errors import Invalid
from headway.ledger.todo import Todo

EventKind = Literal[
    "agent_changed",
    "agent_message",
    "approval_decided",
    "approval_requested",
    "checks_ran",
    "comment_changed",
    "compacted",
    "conversation_changed",
    "conversation_deleted",
    "cost_changed",
    "cost_limit_changed",
    "decision_made",
    "decision_requested",
    "goal_changed",
    "goal_deleted",
    "halted",
    "job_dead",
    "job_recovered",
    "journal_appended",
    "memory_changed",
    "message",
    "messages_read",
    "operator_notice",
    "question_answered",
    "question_asked",
    "recovered",
    "refused",
    "schedule_changed",
    "sub_goal_changed",
    "todo_changed",
    "todos_assessed",
    "todos_current",
    "todos_limit",
    "todos_moved",
    "todos_resubmitting",
    "todos_updated",
    "tool_call",
    "tool_result",
    "turn_canceled",
    "turn_delayed",
    "turn_failed",
    "turn_finished",
    "turn_paused",
    "turn_resumed",
    "turn_started",
    "unhalted",
    "view_changed",
    "waiting_changed",
    "webhook_changed",
]
RowChange = Literal["created", "updated", "deleted"]
# Of streams, and not in the log.
StreamedKind = Literal[EventKind, "log_pruned", "ping", "text_delta"]


EVENT_KINDS: Final[tuple[str, ...]] = get_args(EventKind)
STREAMED_KINDS: Final[tuple[str, ...]] = get_args(StreamedKind)
SHOWN_LENGTH: Final = 60  # of a kind that does not exist


def check_kinds(kinds: Iterable[str], known: Collection[str]) -> None:
    """Raise Invalid for a kind that no event has. It would never arrive, and nothing would say so."""
    for kind in kinds:
        if kind not in known:
            from difflib import get_close_matches  # noqa: PLC0415  only for a mistake

            similar = get_close_matches(str(kind)[:SHOWN_LENGTH], known, n=2)
            hint = f"Did you mean {' or '.join(similar)}?" if similar else "Examples: turn_finished, todo_changed."
            raise Invalid(f"{str(kind)[:SHOWN_LENGTH]!r} is not the kind of an event. {hint}")


class Event(NamedTuple):
    """An event that is not stored yet. The log assigns its sequence number at commit."""

    tenant_id: int
    kind: EventKind
    data: str
    conversation_id: int = 0
    turn_id: str | None = None
    subject: str | None = None  # what it is about beside its turn: todo:12, goal:3, job:ID
    actor: str = ""  # who caused it


class LoggedEvent(NamedTuple):
    """An event as stored in the log."""

    seq: int
    conversation_id: int
    turn_id: str | None
    kind: EventKind
    data: str
    at: int


# Every turn ends with exactly one of these events.
TURN_ENDS: Final = frozenset({"turn_finished", "turn_failed", "turn_canceled"})

LONG_TEXT: Final = 1_000  # characters
# The texts that events leave out if they are long and did not change.
TODO_TEXTS: Final = ("description", "completion_criteria", "outcome", "checks")
GOAL_TEXTS: Final = ("success_criteria", "checks", "evidence")
SUB_GOAL_TEXTS: Final = ("description", "expected_outcome", "outcome", "checks")
RUN_TEXTS: Final = ("task",)

COMPACT_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)


def to_json(data: Any) -> str:
    """Encode as JSON. orjson takes a sixth of the time of the standard encoder, which handles the values that orjson rejects:
    integers beyond 64 bits, very deep nesting and lone surrogates."""
    try:
        return orjson.dumps(data).decode()
    except TypeError:
        return COMPACT_ENCODER.encode(data)


def encode_json(data: dict[str, Any], /, **encoded: str) -> str:
    """Encode as a JSON object. `encoded` holds members that are JSON already; they go last, so `data` must not be empty."""
    text = to_json(data)
    return text[:-1] + "".join(f',"{name}":{part}' for name, part in encoded.items()) + "}" if encoded else text


def join_json(**parts: int | str) -> str:
    """Build a JSON object from numbers and from members that are JSON already."""
    return "{" + ",".join([f'"{name}":{part}' for name, part in parts.items()]) + "}"


# Todos


def build_todo_event(tenant_id: int, todo: Todo, change: RowChange, old: Todo | None = None) -> Event:
    """Build the event of a changed todo. Without `old`, which is the todo before the change, it carries all texts."""
    document: dict[str, Any] = {"change": change, "todo": todo.as_json()}
    omit_texts(document, "todo", list_unchanged_texts(old, todo, TODO_TEXTS) if old else ())
    return Event(tenant_id, "todo_changed", encode_json(document), todo.conversation_id, todo.turn_id, f"todo:{todo.id}")


def build_moves_event(tenant_id: int, todo: Todo, positions: Mapping[int, int], at: int) -> Event:
    """Build one event for all todos of a list that only got another position. `todo` is any todo of that list."""
    document = {
        "conversation_id": todo.conversation_id,
        "turn_id": todo.turn_id,
        "positions": {str(todo_id): position for todo_id, position in positions.items()},
        "updated_at": at // 1000,
    }
    return Event(tenant_id, "todos_moved", encode_json(document), todo.conversation_id, todo.turn_id)


# Long texts that did not change are left out of events


def list_unchanged_texts(old: NamedTuple, new: NamedTuple, names: Iterable[str]) -> list[str]:
    """Return the names of long fields that are the same in both states."""
    return [name for name in names if (text := getattr(new, name)) and len(text) > LONG_TEXT and text == getattr(old, name)]


def omit_texts(document: dict[str, Any], member: str, names: Iterable[str]) -> None:
    """Remove these fields from the state in an event, and name them in the event. A reader keeps what it has."""
    omitted = list(names)
    for name in omitted:
        del document[member][name]
    if omitted:
        document["omitted"] = omitted


def restore_texts(data: Mapping[str, Any], member: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the state in an event with the omitted texts of the state before. A text that is not known is None."""
    known = before or {}
    return {**data[member], **{name: known.get(name) for name in data.get("omitted", ())}}
