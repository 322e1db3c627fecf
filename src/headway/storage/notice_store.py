"""Rows of what the operator was told."""

from typing import NamedTuple

from headway.storage.transaction import Transaction


class Notice(NamedTuple):
    id: int
    turn_id: str | None
    kind: str
    text: str
    created_at: int


def insert(tx: Transaction, tenant_id: int, turn_id: str | None, kind: str, text: str) -> int:
    row = tx.one(
        "INSERT INTO notices (tenant_id, turn_id, kind, text, created_at) VALUES (?, ?, ?, ?, ?) RETURNING id",
        tenant_id,
        turn_id,
        kind,
        text,
        tx.now,
    )
    assert row is not None
    return int(row[0])


def page(tx: Transaction, tenant_id: int, limit: int) -> list[Notice]:
    """The newest first."""
    sql = "SELECT id, turn_id, kind, text, created_at FROM notices WHERE tenant_id = ? ORDER BY id DESC LIMIT ?"
    return [Notice._make(row) for row in tx.all(sql, tenant_id, limit)]
