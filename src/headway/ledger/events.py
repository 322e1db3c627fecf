"""Facts in the append-only log. Each is written in the transaction of the change it tells."""

import json
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.todo import Todo


class Event(NamedTuple):
    """A fact on its way into the log; its sequence number is given at commit."""

    tenant_id: int
    kind: str
    data: str
    conversation_id: int = 0
    turn_id: str | None = None


class LoggedEvent(NamedTuple):
    """A fact as the log holds it."""

    seq: int
    conversation_id: int
    turn_id: str | None
    kind: str
    data: str
    at: int


# How a turn ends, each exactly one of them.
TURN_ENDS: Final = frozenset({"turn_finished", "turn_failed", "turn_canceled"})

# Made once: json.dumps would make one for every event.
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)


def encode(data: dict[str, Any], /, **encoded: str) -> str:
    """As JSON; what is JSON already comes last, behind at least one thing that is not."""
    text = ENCODER.encode(data)
    return text[:-1] + "".join(f',"{name}":{part}' for name, part in encoded.items()) + "}" if encoded else text


def todo_changed(tenant_id: int, todo: Todo, change: Literal["created", "updated", "deleted"]) -> Event:
    data = encode({"change": change, "todo": todo.as_json()})
    return Event(tenant_id, "todo_changed", data, todo.conversation_id, todo.turn_id)
