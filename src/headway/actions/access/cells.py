"""Cells: which cell this database is, which others there are, and in which of them a tenant is.

The directory is the database that has the URLs of all cells and the cell of each tenant. The other cells know only names and public
addresses. `headway.cells` runs these actions in several databases.
"""

from collections.abc import Collection
from typing import NamedTuple

from headway.actions.access import audit
from headway.ledger.cells import TENANT_IDS_PER_CELL, Cell, Move
from headway.ledger.errors import Conflict, NameTaken, NotFound, WrongCell
from headway.ledger.tenancy import LOCAL_TENANT
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import cells as cell_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction


class MemberFacts(NamedTuple):
    """A database's description of itself before it becomes a cell."""

    own: Cell | None  # the cell that it is already
    cells: list[Cell]  # those that it knows
    tenant_numbers: list[int]  # the numbers of the cells in which its tenants were created


def list_all_cells(tx: Transaction) -> list[Cell]:
    return cell_store.list_cells(tx)


def find_own(tx: Transaction) -> Cell | None:
    """Return the cell that this database is."""
    return cell_store.find_self(tx)


def get_own_name(tx: Transaction) -> str:
    """Return the name of the cell that this database is, or an empty string. It is read from the database every ten seconds."""
    return cell_store.get_own_name(tx)


def list_open_moves(tx: Transaction) -> list[Move]:
    return cell_store.list_open_moves(tx)


# Who is elsewhere


def check_token_is_here(tx: Transaction, secret_digest: str, token_cell: str) -> None:
    """Raise WrongCell if the tenant of an unknown token has moved to another cell, or if the token's prefix names another cell."""
    own = get_own_name(tx)
    departed = own and cell_store.find_departed(tx, secret_digest)
    cell = own and (departed or token_cell)
    if cell and cell != own and (found := cell_store.find_cell(tx, cell)):
        error = build_wrong_cell("The tenant of this token", found)
        error.has_moved = bool(departed)
        raise error


def check_tenant_is_here(tx: Transaction, name: str) -> None:
    """Raise WrongCell if a tenant that was not found is known to be in another cell."""
    if tx.dialect.name == "sqlite":
        return
    cell = cell_store.find_placement(tx, name)
    if cell is None and (move := cell_store.find_last_move(tx, name)) and move.state in ("departed", "done"):
        cell = move.target
    if cell and cell != get_own_name(tx) and (found := cell_store.find_cell(tx, cell)):
        raise build_wrong_cell(f"Tenant {name[:80]!r}", found)


def build_wrong_cell(subject: str, cell: Cell) -> WrongCell:
    address = f" at {cell.public_url}" if cell.public_url else ""
    return WrongCell(f"{subject} is in the cell {cell.name}{address}. Nothing was changed here.", cell.name, cell.public_url)


# The directory


def read_facts(tx: Transaction) -> MemberFacts:
    return MemberFacts(cell_store.find_self(tx), cell_store.list_cells(tx), cell_store.list_tenant_numbers(tx))


def lock_all(tx: Transaction) -> None:
    """Let no other transaction change the cells until this one has ended."""
    cell_store.lock_cells(tx)


def register(tx: Transaction, new: Cell, facts: MemberFacts) -> Cell:
    """Store a cell in the directory, or change what is known about it. A database that is a cell already keeps its number."""
    if facts.own and facts.own.name != new.name:
        raise Conflict(f"The database is the cell {facts.own.name} already. Nothing was changed.")
    if not facts.own and is_directory(facts.cells) and facts.cells != cell_store.list_cells(tx):
        raise Conflict("The database is the directory of other cells. Nothing was changed.")
    known = cell_store.find_cell(tx, new.name)
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
    cell_store.put_cell(tx, cell)
    if not known or known._replace(is_self=False) != cell:
        old = known.as_json() if known else None
        audit.record_in_audit(
            tx, audit.INSTALLATION, "cell.change" if known else "cell.add", f"cell:{cell.name}", old, cell.as_json()
        )
    return cell_store.find_cell(tx, new.name) or cell


def choose_number(tx: Transaction, facts: MemberFacts) -> int:
    """Choose the number of a cell that the directory does not know."""
    if facts.own:  # the directory was lost: learn the numbers that were in use
        for number in {*facts.tenant_numbers, *(cell.number for cell in facts.cells)}:
            cell_store.reserve_number(tx, number)
        return facts.own.number
    if not facts.tenant_numbers:
        return cell_store.take_number(tx)
    if not cell_store.reserve_number(tx, 0):
        raise Conflict(
            "The database has tenants, and their ids could be those of tenants in other cells. Nothing was changed. A new cell "
            "must have a database without tenants; only one that existed before the cells may have some."
        )
    return 0


def check_number(tx: Transaction, name: str, number: int, facts: MemberFacts) -> None:
    """Raise Conflict if tenants of the cell could get the ids of other tenants."""
    if other := next((cell.name for cell in cell_store.list_cells(tx) if cell.number == number and cell.name != name), ""):
        raise Conflict(f"The cells {name} and {other} would give the same ids to tenants. Nothing was changed.")
    if not facts.own and any(found != number for found in facts.tenant_numbers):
        raise Conflict("The database has tenants that were not created in this cell. Nothing was changed.")
    if (number + 1) * TENANT_IDS_PER_CELL > MAX_INTEGER:
        raise Conflict("There are too many cells. Nothing was changed.")


def reserve_name(tx: Transaction, tenant_name: str, cell: str) -> None:
    """Reserve a tenant's name in the directory before the tenant is created. The same call may be repeated."""
    if not cell_store.lock_cell(tx, cell):
        raise NotFound(f"No cell named {cell!r}. `headway admin cell list` shows all cells.")
    if not cell_store.insert_placement(tx, tenant_name, cell) and (taken := cell_store.find_placement(tx, tenant_name)) != cell:
        raise NameTaken(f"A tenant named {tenant_name!r} already exists in the cell {taken}.")


def find_placement(tx: Transaction, tenant_name: str) -> str | None:
    """Return the cell of a tenant, as the directory knows it."""
    return cell_store.find_placement(tx, tenant_name)


def list_placements(tx: Transaction, cell: str | None = None) -> list[tuple[str, str]]:
    return cell_store.list_placements(tx, cell)


def record_placements(tx: Transaction, tenant_names: Collection[str], cell: str) -> None:
    """Note in the directory that a cell has these tenants."""
    for name in tenant_names:
        cell_store.put_placement(tx, name, cell)


def release_name(tx: Transaction, tenant_name: str) -> bool:
    """Forget where a tenant is, because it was deleted. Returns whether it was known."""
    is_known = cell_store.find_placement(tx, tenant_name) is not None
    cell_store.delete_placement(tx, tenant_name)
    return is_known


def unregister(tx: Transaction, name: str, *, is_lost: bool = False) -> None:
    """Remove a cell from the directory. Unless it is lost, no tenant may be on it."""
    cell_store.lock_cell(tx, name)
    if is_lost:
        cell_store.delete_placements(tx, name)
    elif placed := cell_store.list_placements(tx, name):
        raise Conflict(f"Tenants are still placed on the cell {name}: {describe_names([tenant for tenant, _ in placed])}.")
    cell = cell_store.find_cell(tx, name)
    cell_store.delete_cell(tx, name)
    if cell:
        audit.record_in_audit(tx, audit.INSTALLATION, "cell.remove", f"cell:{name}", old=cell.as_json())


# Every cell


def join(tx: Transaction, cell: Cell) -> None:
    """Make this database the cell: from now on its new tenants get ids of the cell's own part."""
    own = cell_store.find_self(tx)
    if own is None:
        cell_store.lock_tenants(tx)
        check_number(tx, cell.name, cell.number, read_facts(tx))
        if cell.number:
            cell_store.set_next_tenant_id(tx, cell.first_tenant_id)
    if is_same_row(cell_store.find_cell(tx, cell.name), cell):  # this database is also the directory
        cell_store.mark_self(tx, cell.name)
    else:
        cell_store.put_cell(tx, cell._replace(url="", is_self=True))
    tx.meter.cell, tx.meter.cell_read_at = cell.name, tx.now


def is_same_row(found: Cell | None, cell: Cell) -> bool:
    """Whether a row is the directory's own one: elsewhere the URL is empty. What can be changed is not compared, because `cell` may
    have been read before a change."""
    return found is not None and bool(found.url) and (found.name, found.added_at) == (cell.name, cell.added_at)


def leave(tx: Transaction, name: str) -> None:
    """Make this database an ordinary one again. Raises Conflict if the cell has tenants that other cells may know."""
    if names := [tenant.name for tenant in tenant_store.list_all_tenants(tx) if tenant.name != LOCAL_TENANT]:
        raise Conflict(f"The cell {name} has tenants: {describe_names(names)}. Move or delete them first. Nothing was changed.")
    if moves := cell_store.list_open_moves(tx):
        raise Conflict(f"The move of tenant {moves[0].tenant_name!r} out of the cell {name} is not complete. Nothing was changed.")
    if not is_directory(cell_store.list_cells(tx)):
        cell_store.delete_all_cells(tx)


def learn_cells(tx: Transaction, own_name: str, cells: list[Cell]) -> None:
    """Store the names and public addresses of all cells, without the URLs of their databases."""
    known = {cell.name: cell for cell in cell_store.list_cells(tx)}
    for cell in cells:
        if known.pop(cell.name, None) != (row := cell._replace(url="", is_self=cell.name == own_name)):
            cell_store.put_cell(tx, row)
    for name in known:
        cell_store.delete_cell(tx, name)


def is_directory(cells: list[Cell]) -> bool:
    """Whether a database that knows these cells is the directory: no other one has URLs."""
    return any(cell.url for cell in cells)


def describe_names(names: list[str]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(repr(name[:80]) for name in names[:5]) + more
