"""Finds the database of a tenant for processes that were started with the settings of another cell."""

from os.path import join
from typing import NamedTuple

from headway.actions.access import tenants
from headway.cells.directory import Directory, may_have_cells
from headway.ledger.cells import Cell
from headway.ledger.errors import NotFound, StorageError, WrongCell
from headway.ledger.tenancy import LOCAL_TENANT
from headway.settings import Settings
from headway.storage.direct import DirectDatabase


class Whereabouts(NamedTuple):
    """Where a tenant is, and the settings of a process there."""

    cell: Cell
    settings: Settings


def find_elsewhere(settings: Settings, tenant_name: str, error: NotFound | WrongCell) -> Whereabouts:
    """Ask the directory for a tenant that the database of these settings does not have. If it does not know the tenant, or only
    cells without a URL, raise the error with which the search began."""
    if not may_have_cells(settings) or tenant_name == LOCAL_TENANT:
        raise error
    try:
        with Directory(settings) as directory:
            cell = directory.find_cell_of(tenant_name)
    except StorageError as outage:
        raise type(outage)(f"{error} {outage}") from outage
    if cell is None or not cell.url:
        raise error
    return Whereabouts(cell, build_cell_settings(settings, cell))


def find_settings(settings: Settings, tenant_name: str) -> Settings:
    """Return the settings with which a process uses the tenant's own cell. Raises NotFound or WrongCell."""
    if not may_have_cells(settings) or tenant_name == LOCAL_TENANT:
        return settings
    with DirectDatabase(settings.database_url, direct_url=settings.database_direct_url) as database:
        try:
            database.read(lambda tx: tenants.get_by_name(tx, tenant_name))
        except (NotFound, WrongCell) as error:
            return find_elsewhere(settings, tenant_name, error).settings
    return settings


def build_cell_settings(settings: Settings, cell: Cell) -> Settings:
    """Return the settings of a process that uses another cell's database. The directory stays the same, and so does the home,
    unless the cell has one."""
    directory_url = settings.directory_url or settings.database_url
    moved = settings._replace(database_url=cell.url, database_direct_url="", directory_url=directory_url)
    if not cell.home or cell.home == settings.home:
        return moved
    is_default = settings.workspace == join(settings.home, "workspace")
    workspace = join(cell.home, "workspace") if is_default else settings.workspace
    return moved._replace(home=cell.home, workspace=workspace, sandbox=settings.sandbox._replace(hidden=(cell.home, workspace)))
