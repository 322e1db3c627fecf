"""Cells: independent Postgres databases on which tenants are placed."""

import re
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.errors import Invalid
from headway.ledger.tenancy import ISSUER_NAME

TENANT_IDS_PER_CELL: Final = 1_000_000_000_000  # so that a tenant keeps its id in every cell
MoveState = Literal["fenced", "departed", "done", "undone", "arrived", "settled", "canceled"]
HAS_ARRIVED: Final = ("arrived", "settled")  # in the target; settled: the source has completed the move


class Cell(NamedTuple):
    name: str
    url: str  # of its database; only the directory has it
    public_url: str  # where its API and page are; empty: unknown
    home: str  # where its files are; empty: all cells share one home
    first_tenant_id: int
    is_self: bool  # whether it is the database in which this row is
    added_at: int

    def __repr__(self) -> str:
        """Show the cell without the URL of its database, which may contain a password."""
        return f"Cell({self.name!r})"

    @property
    def number(self) -> int:
        """Return the number of its part of the tenants' ids."""
        return self.first_tenant_id // TENANT_IDS_PER_CELL

    def as_json(self) -> dict[str, Any]:
        """Return what may be shown: not the URL of its database, which may contain a password."""
        return {"name": self.name, "public_url": self.public_url, "home": self.home, "added_at": self.added_at // 1000}


class Move(NamedTuple):
    """A move of a tenant from one cell to another."""

    id: str
    tenant: int
    tenant_name: str
    source: str
    target: str
    state: MoveState
    started_at: int
    updated_at: int

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "tenant": self.tenant_name,
            "from": self.source,
            "to": self.target,
            "state": self.state,
            "started_at": self.started_at // 1000,
        }


def check_cell_name(name: str) -> str:
    if not re.fullmatch(ISSUER_NAME, name):
        raise Invalid(
            f"{name[:80]!r} cannot be the name of a cell. Use 1 to 32 of a–z, 0–9 and hyphens, with no hyphen at either end."
        )
    return name
