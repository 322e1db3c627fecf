"""Rows of what the operator was told."""

from headway.storage.transaction import Transaction


def insert(tx: Transaction, tenant_id: int, kind: str, text: str, turn_id: str | None, goal_id: int | None) -> int:
    row = tx.one(
        "INSERT INTO notices (tenant_id, turn_id, goal_id, kind, text, created_at) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
        tenant_id,
        turn_id,
        goal_id,
        kind,
        text,
        tx.now,
    )
    assert row is not None
    return int(row[0])


def told_since(tx: Transaction, tenant_id: int, kind: str, turn_id: str | None, goal_id: int | None, since: int) -> bool:
    """Whether the operator has heard of this lately."""
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
