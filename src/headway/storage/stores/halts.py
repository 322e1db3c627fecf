"""SQL for the kill switch, which applies to the whole installation rather than to a tenant."""

from headway.ledger.job import Halt
from headway.storage.columns import Column, Columns
from headway.storage.transaction import Transaction

HALTS = Columns(Halt, by=Column("halted_by"))


def find_active(tx: Transaction) -> Halt | None:
    return HALTS.one(tx, f"SELECT {HALTS.selected} FROM halts WHERE lifted_at = 0")


def insert(tx: Transaction, why: str) -> bool:
    """Halt, unless already halted. Returns whether this call did it; with two at the same time, the first one's reason is kept."""
    sql = f"INSERT INTO halts ({HALTS.stored}) VALUES ({HALTS.marks}) ON CONFLICT DO NOTHING RETURNING since"
    return tx.one(sql, why, tx.now, tx.actor) is not None


def lift(tx: Transaction) -> None:
    tx.run("UPDATE halts SET lifted_at = ?, lifted_by = ? WHERE lifted_at = 0", tx.now, tx.actor)
