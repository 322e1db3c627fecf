"""SQL for tenants that have moved from this database to another cell. SQLite databases are not cells, so they lose none."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.storage.stores import cells as cell_store
from headway.storage.transaction import Transaction

TENANTS_PER_QUERY = 500  # databases limit the parameters of a statement


class Departure(NamedTuple):
    """Where a tenant is now."""

    cell: str
    location: str  # the public address of that cell; empty: unknown


# The rows of a tenant are deleted after it has left, and its own row last. It may come back after that.
SELECT_DEPARTED = """SELECT moves.tenant, moves.target, COALESCE(cells.public_url, '')
    FROM moves LEFT JOIN cells ON cells.name = moves.target
    WHERE moves.tenant IN ({marks}) AND (moves.state = 'departed' OR (moves.state = 'done'
        AND NOT EXISTS (SELECT 1 FROM tenants WHERE tenants.id = moves.tenant)))
    ORDER BY moves.updated_at, moves.started_at"""


def find(tx: Transaction, tenant_id: int) -> Departure | None:
    """Return where the tenant has moved, or None if it is here."""
    return find_all(tx, (tenant_id,)).get(tenant_id)


def find_all(tx: Transaction, tenant_ids: Sequence[int]) -> dict[int, Departure]:
    """Return where those of the tenants are that have moved. If this database is not a cell, nothing is read."""
    if not cell_store.get_own_name(tx):
        return {}
    found: dict[int, Departure] = {}
    for start in range(0, len(tenant_ids), TENANTS_PER_QUERY):
        batch = tenant_ids[start : start + TENANTS_PER_QUERY]
        rows = tx.all(SELECT_DEPARTED.format(marks=", ".join("?" * len(batch))), *batch)
        found |= {int(tenant_id): Departure(str(cell), str(location)) for tenant_id, cell, location in rows}
    return found
