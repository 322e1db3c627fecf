"""SQL for notices to the operator."""

from typing import NamedTuple

from headway.storage import id_ranges
from headway.storage.transaction import Transaction


class Notice(NamedTuple):
    id: int
    kind: str
    text: str
    turn_id: str | None
    goal_id: int | None
    created_at: int
    url: str


def insert(tx: Transaction, tenant_id: int, kind: str, text: str, turn_id: str | None, goal_id: int | None, url: str) -> int:
    notice_id = id_ranges.take(tx, tenant_id, "notices")
    tx.run(
        "INSERT INTO notices (id, tenant_id, kind, text, turn_id, goal_id, created_at, url) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        notice_id,
        tenant_id,
        kind,
        text,
        turn_id,
        goal_id,
        tx.now,
        url,
    )
    return notice_id


def list_page(tx: Transaction, tenant_id: int, limit: int, before: int) -> list[Notice]:
    """List notices, newest first."""
    sql = """SELECT id, kind, text, turn_id, goal_id, created_at, url FROM notices WHERE tenant_id = ? AND id < ?
             ORDER BY id DESC LIMIT ?"""
    return [Notice._make(row) for row in tx.all(sql, tenant_id, before, limit)]


def has_notice_since(tx: Transaction, tenant_id: int, kind: str, turn_id: str | None, goal_id: int | None, since: int) -> bool:
    """Whether the operator has had the same notice since a given time."""
    row = tx.one(
        """SELECT 1 FROM notices WHERE tenant_id = ? AND kind = ? AND COALESCE(turn_id, '') = ? AND COALESCE(goal_id, 0) = ?
           AND created_at >= ? LIMIT 1""",
        tenant_id,
        kind,
        turn_id or "",
        goal_id or 0,
        since,
    )
    return row is not None
