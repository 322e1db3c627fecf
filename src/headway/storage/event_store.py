"""Reading the log. (Events are written by the transaction itself, at commit.)"""

from headway.ledger.events import LoggedEvent
from headway.ledger.scope import TENANT_WIDE
from headway.storage.transaction import Transaction

COLUMNS = "seq, conversation_id, kind, data, at"


def after(tx: Transaction, tenant_id: int, seq: int, limit: int) -> list[LoggedEvent]:
    rows = tx.all(f"SELECT {COLUMNS} FROM events WHERE tenant_id = ? AND seq > ? ORDER BY seq LIMIT ?", tenant_id, seq, limit)
    return [LoggedEvent._make(row) for row in rows]


def after_in_conversation(tx: Transaction, tenant_id: int, conversation_id: int, seq: int, limit: int) -> list[LoggedEvent]:
    """A conversation's own events and the tenant-wide ones."""
    rows: list[LoggedEvent] = []
    for one in (conversation_id, TENANT_WIDE):
        found = tx.all(
            f"SELECT {COLUMNS} FROM events WHERE tenant_id = ? AND conversation_id = ? AND seq > ? ORDER BY seq LIMIT ?",
            tenant_id,
            one,
            seq,
            limit,
        )
        rows += [LoggedEvent._make(row) for row in found]
    return sorted(rows)[:limit]


def last_seq(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT MAX(seq) FROM events WHERE tenant_id = ?", tenant_id)
    return int(row[0]) if row and row[0] is not None else 0


def newest(tx: Transaction) -> int:
    """The highest number in the log, of whatever tenant."""
    row = tx.one("SELECT MAX(seq) FROM events")
    return int(row[0]) if row and row[0] is not None else 0
