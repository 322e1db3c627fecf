"""Creates, lists and forgets tenants where there are several cells. Without cells, there is only the database of the settings."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from headway.actions.access import cells, tenants
from headway.cells.directory import Directory, Visit, may_have_cells
from headway.ledger import text
from headway.ledger.cells import Cell
from headway.ledger.errors import HeadwayError, Invalid, NotFound
from headway.ledger.tenancy import LOCAL_TENANT, Tenant
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Work

Sign = Callable[[Work[Any]], Work[Any]]  # names who does the work


class PlacedTenant(NamedTuple):
    """A tenant, or only its name if its cell cannot be reached, and its cell. Without cells, the cell is empty."""

    name: str
    tenant: Tenant | None
    cell: str

    def as_json(self) -> dict[str, Any]:
        row = self.tenant.as_json() if self.tenant else {"id": None, "name": self.name}
        return {**row, "cell": self.cell} if self.cell else row


class TenantList(NamedTuple):
    tenants: list[PlacedTenant]
    errors: list[HeadwayError]  # of cells that cannot be reached


def add_tenant(settings: Settings, name: str, cell_name: str | None, sign: Sign) -> tuple[Tenant, str]:
    """Create a tenant and return it with its cell. Where there are cells, its name is reserved in the directory first. If that is
    all that happened, the same call continues."""
    name = text.check_name(name, "tenant name")
    create = sign(partial(tenants.add, name=name))
    with open_with_directory(settings) as (directory, database):
        if directory:
            cell = choose_cell(directory, database, cell_name)
            if name != LOCAL_TENANT:  # every cell has one
                directory.database.write(partial(cells.reserve_name, tenant_name=name, cell=cell.name))
            with directory.open(cell) as member:
                return member.write(create), cell.name
        if cell_name is not None:
            raise NotFound(f"No cell named {cell_name[:80]!r}: there are no cells. `headway admin cell add` adds one.")
        return database.write(create), ""


@contextmanager
def open_with_directory(settings: Settings) -> Iterator[tuple[Directory | None, DirectDatabase]]:
    """Open the directory, if it knows cells, and the database of the settings. Often they are the same."""
    with ExitStack() as stack:
        directory = stack.enter_context(Directory(settings)) if may_have_cells(settings) else None
        if directory and directory.is_own_database:
            database = directory.database
        else:
            database = stack.enter_context(DirectDatabase(settings.database_url, direct_url=settings.database_direct_url))
        yield directory if directory and directory.cells else None, database


def choose_cell(directory: Directory, database: DirectDatabase, name: str | None) -> Cell:
    """Return the named cell, or the one that the database is."""
    directory.require_urls()
    if name is not None:
        return directory.get(name)
    own = database.read(cells.find_own)
    if own is None:
        raise Invalid(
            "The database is not a cell, so name the cell of the tenant with --cell. `headway admin cell list` shows all cells."
        )
    return directory.get(own.name)


def list_tenants(settings: Settings) -> TenantList:
    """List the tenants of all cells."""
    with open_with_directory(settings) as (directory, database):
        if directory and cells.is_directory(directory.cells):
            return combine_lists(directory.visit(lambda _, member: member.read(tenants.list_all)), directory)
        return TenantList([PlacedTenant(row.name, row, "") for row in database.read(tenants.list_all)], [])


def combine_lists(visits: list[Visit[list[Tenant]]], directory: Directory) -> TenantList:
    """Add the names of the tenants in cells that cannot be reached, from the directory."""
    found = [PlacedTenant(row.name, row, visit.cell.name) for visit in visits for row in visit.value or ()]
    for visit in visits:
        if visit.error:
            placed = directory.database.read(partial(cells.list_placements, cell=visit.cell.name))
            found += [PlacedTenant(name, None, cell) for name, cell in placed]
    found.sort(key=lambda row: row.cell)  # stable: within a cell by id
    return TenantList(found, [visit.error for visit in visits if visit.error])


def check_removable(settings: Settings) -> None:
    """Raise an error if the directory, which has to forget a tenant that is deleted, cannot be reached."""
    if may_have_cells(settings):
        with Directory(settings) as directory:
            directory.require_urls()


def forget_tenant(settings: Settings, name: str) -> bool:
    """Release the name of a tenant that was deleted, or was never created. Returns whether the directory knew it."""
    if not may_have_cells(settings) or name == LOCAL_TENANT:
        return False
    with Directory(settings) as directory:
        return directory.database.write(partial(cells.release_name, tenant_name=name)) if directory.cells else False
