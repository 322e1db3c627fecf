"""Rows of the kill switch. It is the whole installation's: no tenant owns it."""

from typing import NamedTuple

from headway.storage.transaction import Transaction


class Halt(NamedTuple):
    why: str
    since: int


def find_active(tx: Transaction) -> Halt | None:
    row = tx.one("SELECT why, since FROM halts WHERE lifted_at = 0")
    return Halt._make(row) if row else None


def insert(tx: Transaction, why: str) -> bool:
    """Whether it was we who halted. Two that do at the same moment: the first one's words stand."""
    sql = "INSERT INTO halts (why, since) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING since"
    return tx.one(sql, why, tx.now) is not None


def lift(tx: Transaction) -> None:
    tx.run("UPDATE halts SET lifted_at = ? WHERE lifted_at = 0", tx.now)
