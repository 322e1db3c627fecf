"""Authentication asks here where a token or a tenant is that this database does not have."""

from typing import Final

from headway.cells import rows
from headway.cells.rules import Cell
from headway.ledger.errors import WrongCell
from headway.storage.transaction import Transaction

FRESH_MS: Final = 10_000  # how long a process relies on what it read about its own cell


def get_own_name(tx: Transaction) -> str:
    """Return the name of the cell that this database is, or an empty string. It is read from the database every ten seconds."""
    meter = tx.meter
    if tx.dialect.name == "sqlite":
        return ""
    if abs(tx.now - meter.cell_read_at) >= FRESH_MS:
        own = rows.find_self(tx)
        meter.cell, meter.cell_read_at = own.name if own else "", tx.now
    return meter.cell


def check_token_is_here(tx: Transaction, secret_digest: str, issuer: str) -> None:
    """Raise WrongCell if the tenant of an unknown token has moved to another cell, or if its issuer is another cell."""
    own = get_own_name(tx)
    departed = own and rows.find_departed(tx, secret_digest)
    cell = own and (departed or issuer)
    if cell and cell != own and (found := rows.find_cell(tx, cell)):
        error = build_wrong_cell("The tenant of this token", found)
        error.has_moved = bool(departed)
        raise error


def check_tenant_is_here(tx: Transaction, name: str) -> None:
    """Raise WrongCell if a tenant that was not found is known to be in another cell."""
    if tx.dialect.name == "sqlite":
        return
    cell = rows.find_placement(tx, name)
    if cell is None and (move := rows.find_last_move(tx, name)) and move.state in ("departed", "done"):
        cell = move.target
    if cell and cell != get_own_name(tx) and (found := rows.find_cell(tx, cell)):
        raise build_wrong_cell(f"Tenant {name[:80]!r}", found)


def build_wrong_cell(subject: str, cell: Cell) -> WrongCell:
    address = f" at {cell.public_url}" if cell.public_url else ""
    return WrongCell(f"{subject} is in the cell {cell.name}{address}. Nothing was changed here.", cell.name, cell.public_url)
