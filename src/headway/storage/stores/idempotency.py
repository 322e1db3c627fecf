"""SQL for answers that are stored under an idempotency key and repeated for the same key."""

from typing import NamedTuple

from headway.ledger.errors import KeyBusy
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

WAIT_MS = 10_000


class StoredAnswer(NamedTuple):
    body_hash: str
    status: int
    answer: str


ANSWERS = Columns(StoredAnswer)


def reserve(
    tx: Transaction, tenant_id: int, route: str, key: str, body_hash: str, expired_before: int = 0, wait_ms: int = WAIT_MS
) -> bool:
    """Reserve a key and return whether the caller may answer it, because it is unused or expired. If another transaction is
    answering it right now, wait for that to end, or raise KeyBusy."""

    def insert(tx: Transaction) -> bool:
        row = tx.one(
            """INSERT INTO idempotency_keys AS k (tenant_id, route, key, body_hash, at) VALUES (?, ?, ?, ?, ?)
               ON CONFLICT (tenant_id, route, key)
               DO UPDATE SET body_hash = excluded.body_hash, at = excluded.at WHERE k.at < ? RETURNING key""",
            tenant_id,
            route,
            key,
            body_hash,
            tx.now,
            expired_before,
        )
        return row is not None

    return tx.run_with_lock_timeout(wait_ms, insert, KeyBusy())


def find_stored_answer(tx: Transaction, tenant_id: int, route: str, key: str) -> StoredAnswer | None:
    sql = f"SELECT {ANSWERS.selected} FROM idempotency_keys WHERE tenant_id = ? AND route = ? AND key = ?"
    return ANSWERS.one(tx, sql, tenant_id, route, key)


def save_answer(tx: Transaction, tenant_id: int, route: str, key: str, status: int, body: str) -> None:
    tx.run(
        "UPDATE idempotency_keys SET status = ?, answer = ? WHERE tenant_id = ? AND route = ? AND key = ?",
        status,
        body,
        tenant_id,
        route,
        key,
    )


def delete_before(tx: Transaction, moment: int) -> None:
    """Delete answers from before a time. The rows of tenants that are being moved stay, because they cannot be changed."""
    moving = "SELECT tenant FROM moves WHERE state IN ('fenced', 'departed')"
    tx.run(f"DELETE FROM idempotency_keys WHERE at < ? AND tenant_id NOT IN ({moving})", moment)
