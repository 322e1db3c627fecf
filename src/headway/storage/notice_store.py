"""Rows of what the operator was told."""

from headway.storage.transaction import Transaction


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
