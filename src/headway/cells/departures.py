"""The feed asks here which tenants have moved from this database to another cell. SQLite databases are not cells, so they lose
none."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headway.cells.redirects import get_own_name
from headway.ledger.errors import WrongCell
from headway.storage.transaction import Transaction

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
