"""Rows of the kill switch. It is the whole installation's: no tenant owns it."""

from typing import NamedTuple

from headway.storage.transaction import Transaction


class Halt(NamedTuple):
    why: str
    since: int


def in_force(tx: Transaction) -> Halt | None:
    row = tx.one("SELECT why, since FROM halts WHERE lifted_at = 0")
    return Halt._make(row) if row else None


def insert(tx: Transaction, why: str) -> None:
    """Two that halt at the same moment: the first one's words stand."""
    tx.run("INSERT INTO halts (why, since) VALUES (?, ?) ON CONFLICT DO NOTHING", why, tx.now)


def lift(tx: Transaction) -> None:
    tx.run("UPDATE halts SET lifted_at = ? WHERE lifted_at = 0", tx.now)
