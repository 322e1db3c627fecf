"""Authentication and the feed ask here where a token or a tenant is that this database does not have, or no longer has.

SQLite databases are not cells.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headway.cells import rows
from headway.cells.rules import Cell
from headway.ledger.errors import WrongCell
from headway.storage.transaction import Transaction

FRESH_MS: Final = 10_000  # how long a process relies on what it read about its own cell


def get_own_name(tx: Transaction) -> str:
    """Return the name of the cell that this database is, or an empty string. It is read from the database every ten seconds."""
    process = tx.process
    if tx.dialect.name == "sqlite":
        return ""
    if abs(tx.now - process.cell_read_at) >= FRESH_MS:
        own = rows.find_self(tx)
        process.cell, process.cell_read_at = own.name if own else "", tx.now
    return process.cell


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


TENANTS_PER_QUERY: Final = 500  # databases limit the parameters of a statement


class Departure(NamedTuple):
    """The cell that a tenant has moved to."""

    cell: str
    location: str  # the public address of that cell; empty: unknown


# The rows of a tenant are deleted after it has left, and its own row last. It may come back after that.
SELECT_DEPARTED: Final = """SELECT moves.tenant, moves.target, COALESCE(cells.public_url, '')
    FROM moves LEFT JOIN cells ON cells.name = moves.target
    WHERE moves.tenant IN ({marks}) AND (moves.state = 'departed' OR (moves.state = 'done'
        AND NOT EXISTS (SELECT 1 FROM tenants WHERE tenants.id = moves.tenant)))
    ORDER BY moves.updated_at, moves.started_at"""


def find_departure(tx: Transaction, tenant_id: int) -> Departure | None:
    """Return where the tenant has moved, or None if it is here."""
    return find_departures(tx, (tenant_id,)).get(tenant_id)


def find_departures(tx: Transaction, tenant_ids: Sequence[int]) -> dict[int, Departure]:
    """Return the new cells of the tenants that have moved. If this database is not a cell, nothing is read."""
    if not get_own_name(tx):
        return {}
    found: dict[int, Departure] = {}
    for start in range(0, len(tenant_ids), TENANTS_PER_QUERY):
        batch = tenant_ids[start : start + TENANTS_PER_QUERY]
        rows = tx.all(SELECT_DEPARTED.format(marks=", ".join("?" * len(batch))), *batch)
        found |= {int(tenant_id): Departure(str(cell), str(location)) for tenant_id, cell, location in rows}
    return found


def check_has_not_left(tx: Transaction, tenant_id: int) -> None:
    if departure := find_departure(tx, tenant_id):
        raise WrongCell(f"The tenant has moved to the cell {departure.cell}.", *departure)
