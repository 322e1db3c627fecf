"""SQL for reading the event log. (Transactions write events at commit.)"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from headway.ledger.events import TURN_ENDS, LoggedEvent
from headway.ledger.scope import TENANT_WIDE
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

EVENTS = Columns(LoggedEvent)
SELECT = f"SELECT {EVENTS.selected} FROM events"
TENANTS_PER_QUERY = 500  # databases limit the parameters of a statement


def list_after(tx: Transaction, tenant_id: int, seq: int, limit: int) -> list[LoggedEvent]:
    return EVENTS.all(tx, f"{SELECT} WHERE tenant_id = ? AND seq > ? ORDER BY seq LIMIT ?", tenant_id, seq, limit)


def list_after_in_conversation(tx: Transaction, tenant_id: int, conversation_id: int, seq: int, limit: int) -> list[LoggedEvent]:
    """List the events of a conversation together with the tenant-wide ones."""
    events: list[LoggedEvent] = []
    for list_id in (conversation_id, TENANT_WIDE):
        sql = f"{SELECT} WHERE tenant_id = ? AND conversation_id = ? AND seq > ? ORDER BY seq LIMIT ?"
        events += EVENTS.all(tx, sql, tenant_id, list_id, seq, limit)
    return sorted(events)[:limit]


def find_turn_start(tx: Transaction, tenant_id: int, conversation_id: int, turn_id: str) -> int:
    """Return the sequence number of the turn's start event. Searches from the newest, because most turns asked for are running."""
    row = tx.one(
        """SELECT seq FROM events WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ? AND kind = 'turn_started'
           ORDER BY seq DESC LIMIT 1""",
        tenant_id,
        conversation_id,
        turn_id,
    )
    return int(row[0]) if row else 0


def find_turn_end(tx: Transaction, tenant_id: int, conversation_id: int, turn_id: str) -> int:
    """Return the sequence number of the turn's last end event; 0 if it was deleted because of its age."""
    kinds = sorted(TURN_ENDS)
    row = tx.one(
        f"""SELECT seq FROM events WHERE tenant_id = ? AND conversation_id = ? AND turn_id = ?
            AND kind IN ({", ".join("?" * len(kinds))}) ORDER BY seq DESC LIMIT 1""",
        tenant_id,
        conversation_id,
        turn_id,
        *kinds,
    )
    return int(row[0]) if row else 0


def get_last_seq(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT MAX(seq) FROM events WHERE tenant_id = ?", tenant_id)
    return int(row[0]) if row and row[0] is not None else 0


class LogBounds(NamedTuple):
    last_seq: int
    pruned: int  # the highest number of an event that was deleted because of its age; 0: none was
    pruned_at: int  # when that event was logged


def get_bounds(tx: Transaction, tenant_id: int) -> LogBounds:
    row = tx.one(
        "SELECT (SELECT MAX(seq) FROM events WHERE tenant_id = ?), log_pruned, log_pruned_at FROM tenants WHERE id = ?",
        tenant_id,
        tenant_id,
    )
    return LogBounds(*(int(number or 0) for number in row)) if row else LogBounds(0, 0, 0)


def get_last_seqs(tx: Transaction, tenant_ids: Sequence[int]) -> dict[int, int]:
    """Return the last sequence number that each of the tenants has used. Tenants without events are left out."""
    seqs: dict[int, int] = {}
    for start in range(0, len(tenant_ids), TENANTS_PER_QUERY):
        batch = tenant_ids[start : start + TENANTS_PER_QUERY]
        marks = ", ".join("?" * len(batch))
        rows = tx.all(f"SELECT tenant_id, next - 1 FROM id_ranges WHERE kind = 'events' AND tenant_id IN ({marks})", *batch)
        seqs |= {int(tenant_id): int(seq) for tenant_id, seq in rows}
    return seqs


def list_by_kinds(
    tx: Transaction, tenant_id: int, conversation_id: int, kinds: Sequence[str], before: int, limit: int
) -> list[LoggedEvent]:
    """List a conversation's last events of these kinds before a sequence number, oldest first."""
    marks = ", ".join("?" * len(kinds))
    sql = f"""{SELECT} WHERE tenant_id = ? AND conversation_id = ? AND seq < ? AND kind IN ({marks}) ORDER BY seq DESC LIMIT ?"""
    return EVENTS.all(tx, sql, tenant_id, conversation_id, before, *kinds, limit)[::-1]


# Events by what they are about


class CausedEvent(NamedTuple):
    """An event with the one who caused it."""

    seq: int
    kind: str
    data: str
    at: int
    actor: str  # empty: Headway itself


CAUSED_EVENTS = Columns(CausedEvent)


class EventWindow(NamedTuple):
    """The newest events of one turn or subject, oldest first. Events before sequence number `start` were not read."""

    events: list[CausedEvent]
    start: int


def list_newest_events(
    tx: Transaction, tenant_id: int, about: Literal["turn_id", "subject"], value: str, kinds: Sequence[str], limit: int
) -> EventWindow:
    """List the events of these kinds among the newest `limit` events of a turn or a subject."""
    first = tx.one(
        f"SELECT seq FROM events WHERE tenant_id = ? AND {about} = ? ORDER BY seq DESC LIMIT 1 OFFSET ?", tenant_id, value, limit
    )
    start = int(first[0]) + 1 if first else 0
    marks = ", ".join("?" * len(kinds))
    sql = f"""SELECT {CAUSED_EVENTS.selected} FROM events WHERE tenant_id = ? AND {about} = ? AND seq >= ? AND kind IN ({marks})
        ORDER BY seq"""
    return EventWindow(CAUSED_EVENTS.all(tx, sql, tenant_id, value, start, *kinds), start)
