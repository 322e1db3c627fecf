"""Rows of the installation: the halt, and the secrets of external dispatchers."""

import secrets

from headway.ledger.job import Halt
from headway.storage.columns import Column, Columns
from headway.storage.transaction import Transaction

HALTS = Columns(Halt, by=Column("halted_by"))


def find_active(tx: Transaction) -> Halt | None:
    return HALTS.one(tx, f"SELECT {HALTS.selected} FROM halts WHERE lifted_at = 0")


def insert_halt(tx: Transaction, why: str) -> bool:
    """Halt, unless already halted. Returns whether this call did it; with two at the same time, the first one's reason is kept."""
    sql = f"INSERT INTO halts ({HALTS.stored}) VALUES ({HALTS.marks}) ON CONFLICT DO NOTHING RETURNING since"
    return tx.one(sql, why, tx.now, tx.actor) is not None


def lift(tx: Transaction) -> None:
    tx.run("UPDATE halts SET lifted_at = ?, lifted_by = ? WHERE lifted_at = 0", tx.now, tx.actor)


# SQL for the secrets that external dispatchers must know to deliver jobs. They belong to the installation, not to a
# tenant.


SECRET_BYTES = 32


def ensure_secret(tx: Transaction, service: str) -> str:
    """Return the secret of a service. The first process that asks creates it, and all processes of the database share it."""
    tx.run(
        "INSERT INTO dispatch_secrets (service, secret) VALUES (?, ?) ON CONFLICT (service) DO NOTHING",
        service,
        secrets.token_hex(SECRET_BYTES),
    )
    row = tx.one("SELECT secret FROM dispatch_secrets WHERE service = ?", service)
    assert row is not None
    return str(row[0])
