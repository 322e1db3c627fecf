"""Which cells there are, and which of them has each tenant: the changes in one database. `registry` makes them in several.

The directory is the database that has the URLs of all cells and the cell of each tenant. The other cells know only names and public
addresses.
"""

from collections.abc import Collection
from typing import NamedTuple

from headway.actions.access import audit
from headway.cells import rows
from headway.cells.rules import TENANT_IDS_PER_CELL, Cell
from headway.ledger.errors import Conflict, NameTaken, NotFound
from headway.ledger.tenancy import LOCAL_TENANT
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction


class MemberFacts(NamedTuple):
    """A database's description of itself before it becomes a cell."""

    own: Cell | None  # the cell that it is already
    cells: list[Cell]  # the cells that it knows
    tenant_numbers: list[int]  # the numbers of the cells in which its tenants were created


def list_all_cells(tx: Transaction) -> list[Cell]:
    return rows.list_cells(tx)


# The directory


def read_facts(tx: Transaction) -> MemberFacts:
    return MemberFacts(rows.find_self(tx), rows.list_cells(tx), rows.list_tenant_numbers(tx))


def register(tx: Transaction, new: Cell, facts: MemberFacts) -> Cell:
    """Store a cell in the directory, or change what is known about it. A database that is a cell already keeps its number."""
    if facts.own and facts.own.name != new.name:
        raise Conflict(f"The database is the cell {facts.own.name} already. Nothing was changed.")
    if not facts.own and is_directory(facts.cells) and facts.cells != rows.list_cells(tx):
        raise Conflict("The database is the directory of other cells. Nothing was changed.")
    known = rows.find_cell(tx, new.name)
    if known and not facts.own and known.url != new.url:
        raise Conflict(
            f"The cell {new.name} has another database, and the one at the given URL is no cell yet. Nothing was changed. "
            "Choose another name."
        )
    if known and facts.own and known.number != facts.own.number:
        raise Conflict(
            f"The directory and the database of the cell {new.name} disagree about the ids of its tenants. Nothing was changed. "
            "Remove the cell with --lost, and add it again."
        )
    number = known.number if known else choose_number(tx, facts)
    check_number(tx, new.name, number, facts)
    cell = new._replace(first_tenant_id=number * TENANT_IDS_PER_CELL + 1, added_at=known.added_at if known else tx.now)
    rows.put_cell(tx, cell)
    if not known or known._replace(is_self=False) != cell:
        old = known.as_json() if known else None
        audit.record_in_audit(
            tx, audit.INSTALLATION, "cell.change" if known else "cell.add", f"cell:{cell.name}", old, cell.as_json()
        )
    return rows.find_cell(tx, new.name) or cell


def choose_number(tx: Transaction, facts: MemberFacts) -> int:
    """Choose the number of a cell that the directory does not know."""
    if facts.own:  # the directory was lost: learn the numbers that were in use
        for number in {*facts.tenant_numbers, *(cell.number for cell in facts.cells)}:
            rows.reserve_number(tx, number)
        return facts.own.number
    if not facts.tenant_numbers:
        return rows.take_number(tx)
    if not rows.reserve_number(tx, 0):
        raise Conflict(
            "The database has tenants, and tenants in other cells could have the same ids. Nothing was changed. A new cell "
            "must have a database without tenants; only one that existed before the cells may have some."
        )
    return 0


def check_number(tx: Transaction, name: str, number: int, facts: MemberFacts) -> None:
    """Raise Conflict if tenants of the cell could get the ids of other tenants."""
    if other := next((cell.name for cell in rows.list_cells(tx) if cell.number == number and cell.name != name), ""):
        raise Conflict(f"The cells {name} and {other} would give the same ids to tenants. Nothing was changed.")
    if not facts.own and any(found != number for found in facts.tenant_numbers):
        raise Conflict("The database has tenants that were not created in this cell. Nothing was changed.")
    if (number + 1) * TENANT_IDS_PER_CELL > MAX_INTEGER:
        raise Conflict("There are too many cells. Nothing was changed.")


def reserve_name(tx: Transaction, tenant_name: str, cell: str) -> None:
    """Reserve a tenant's name in the directory before the tenant is created. The same call may be repeated."""
    if not rows.lock_cell(tx, cell):
        raise NotFound(f"No cell named {cell!r}. `headway admin cell list` shows all cells.")
    if not rows.insert_placement(tx, tenant_name, cell) and (taken := rows.find_placement(tx, tenant_name)) != cell:
        raise NameTaken(f"A tenant named {tenant_name!r} already exists in the cell {taken}.")


def record_placements(tx: Transaction, tenant_names: Collection[str], cell: str) -> None:
    """Note in the directory that a cell has these tenants."""
    for name in tenant_names:
        rows.put_placement(tx, name, cell)


def release_name(tx: Transaction, tenant_name: str) -> bool:
    """Forget where a tenant is, because it was deleted. Returns whether it was known."""
    is_known = rows.find_placement(tx, tenant_name) is not None
    rows.delete_placement(tx, tenant_name)
    return is_known


def unregister(tx: Transaction, name: str, *, is_lost: bool = False) -> None:
    """Remove a cell from the directory. Unless it is lost, no tenant may be on it."""
    rows.lock_cell(tx, name)
    if is_lost:
        rows.delete_placements(tx, name)
    elif placed := rows.list_placements(tx, name):
        raise Conflict(f"Tenants are still placed on the cell {name}: {describe_names([tenant for tenant, _ in placed])}.")
    cell = rows.find_cell(tx, name)
    rows.delete_cell(tx, name)
    if cell:
        audit.record_in_audit(tx, audit.INSTALLATION, "cell.remove", f"cell:{name}", old=cell.as_json())


# Every cell


def join(tx: Transaction, cell: Cell) -> None:
    """Make this database the cell: from now on its new tenants get ids of the cell's own part."""
    own = rows.find_self(tx)
    if own is None:
        rows.lock_tenants(tx)
        check_number(tx, cell.name, cell.number, read_facts(tx))
        if cell.number:
            rows.set_next_tenant_id(tx, cell.first_tenant_id)
    if is_same_row(rows.find_cell(tx, cell.name), cell):  # this database is also the directory
        rows.mark_self(tx, cell.name)
    else:
        rows.put_cell(tx, cell._replace(url="", is_self=True))
    tx.process.cell, tx.process.cell_read_at = cell.name, tx.now


def is_same_row(found: Cell | None, cell: Cell) -> bool:
    """Whether a row is the directory's own one: elsewhere the URL is empty. Fields that can be changed are not compared,
    because `cell` may have been read before a change."""
    return found is not None and bool(found.url) and (found.name, found.added_at) == (cell.name, cell.added_at)


def leave(tx: Transaction, name: str) -> None:
    """Make this database an ordinary one again. Raises Conflict if the cell has tenants that other cells may know."""
    if names := [tenant.name for tenant in tenant_store.list_all_tenants(tx) if tenant.name != LOCAL_TENANT]:
        raise Conflict(f"The cell {name} has tenants: {describe_names(names)}. Move or delete them first. Nothing was changed.")
    if moves := rows.list_open_moves(tx):
        raise Conflict(f"The move of tenant {moves[0].tenant_name!r} out of the cell {name} is not complete. Nothing was changed.")
    if not is_directory(rows.list_cells(tx)):
        rows.delete_all_cells(tx)


def learn_cells(tx: Transaction, own_name: str, cells: list[Cell]) -> None:
    """Store the names and public addresses of all cells, without the URLs of their databases."""
    known = {cell.name: cell for cell in rows.list_cells(tx)}
    for cell in cells:
        if known.pop(cell.name, None) != (row := cell._replace(url="", is_self=cell.name == own_name)):
            rows.put_cell(tx, row)
    for name in known:
        rows.delete_cell(tx, name)


def is_directory(cells: list[Cell]) -> bool:
    """Whether a database that knows these cells is the directory: no other one has URLs."""
    return any(cell.url for cell in cells)


def describe_names(names: list[str]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(repr(name[:80]) for name in names[:5]) + more
