"""The directory of cells: opens it and each cell, and finds the cell of a tenant."""

from collections.abc import Callable, Sequence
from os.path import join
from typing import Final, Generic, NamedTuple, TypeVar

from headway.actions.installation import tenants
from headway.cells import membership, rows
from headway.cells.rules import Cell
from headway.ledger.errors import HeadwayError, NotFound, SettingsError, StorageError, WrongCell
from headway.ledger.tenancy import LOCAL_TENANT
from headway.settings import Settings
from headway.storage.direct import DirectDatabase, is_sqlite

T = TypeVar("T")

CONNECT_TIMEOUT_S: Final = 3
MAX_VISITS: Final = 16  # cells that are visited at the same time

CellWork = Callable[[Cell, DirectDatabase], T]


class Visit(NamedTuple, Generic[T]):
    """The outcome of work in one cell: its result, or why it failed."""

    cell: Cell
    value: T | None
    error: HeadwayError | None


class Directory:
    """The directory, opened. Each of its cells is opened when it is needed, because any of them may be down."""

    def __init__(self, settings: Settings) -> None:
        if not may_have_cells(settings):
            raise SettingsError("Cells need Postgres, and HEADWAY_DATABASE_URL names a SQLite file. See docs/scaling.md.")
        self.settings = settings
        if self.is_own_database:
            url, direct_url = settings.database_url, settings.database_direct_url
            self.database = DirectDatabase(url, quotas=settings.quotas, direct_url=direct_url)
        else:
            self.database = open_postgres("The directory", settings.directory_url, settings)
        try:
            self.cells = self.database.read(rows.list_cells)
        except BaseException:
            self.close()
            raise

    @property
    def is_own_database(self) -> bool:
        """Whether it is the database of the settings."""
        return self.settings.directory_url in ("", self.settings.database_url)

    def reload(self) -> None:
        self.cells = self.database.read(rows.list_cells)

    def require_urls(self) -> None:
        """Raise SettingsError if this database is a cell, but not the directory."""
        if self.cells and not membership.is_directory(self.cells):
            own = next((f"the cell {cell.name}" for cell in self.cells if cell.is_self), "a cell")
            raise SettingsError(f"This database is {own}, not the directory. Set HEADWAY_DIRECTORY_URL to the directory's URL.")

    def get(self, name: str) -> Cell:
        found = next((cell for cell in self.cells if cell.name == name), None)
        if found is None:
            raise NotFound(f"No cell named {name[:80]!r}. `headway admin cell list` shows all cells.")
        return found

    def find_cell_of(self, tenant_name: str) -> Cell | None:
        """Return the cell of a tenant, or None if the directory does not know the tenant."""
        placed = self.database.read(lambda tx: rows.find_placement(tx, tenant_name))
        return next((cell for cell in self.cells if cell.name == placed), None)

    def open(self, cell: Cell) -> DirectDatabase:
        """Open the database of a cell. The caller closes it. Raises a StorageError that names the cell."""
        self.require_urls()
        return open_cell(cell, self.settings)

    def visit(self, work: CellWork[T], visited: Sequence[Cell] | None = None) -> list[Visit[T]]:
        """Run work in all cells at the same time, and return the outcome of each, in the order of names. One that is down does not
        delay the others. Each runs on a thread with its own connection."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  only needed with cells

        def run(cell: Cell) -> Visit[T]:
            try:
                with open_cell(cell, self.settings) as database:
                    return Visit(cell, work(cell, database), None)
            except HeadwayError as error:
                return Visit(cell, None, error)

        self.require_urls()
        chosen = self.cells if visited is None else visited
        if not chosen:
            return []
        with ThreadPoolExecutor(min(len(chosen), MAX_VISITS)) as threads:
            return list(threads.map(run, chosen))

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> "Directory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def may_have_cells(settings: Settings) -> bool:
    """Whether these settings can lead to cells at all. With SQLite they cannot, and nothing else has to be asked."""
    return bool(settings.directory_url) or not is_sqlite(settings.database_url)


def open_cell(cell: Cell, settings: Settings) -> DirectDatabase:
    """Open the database of a cell that the directory has returned."""
    return open_postgres(f"The cell {cell.name}", cell.url, settings)


def open_postgres(subject: str, url: str, settings: Settings) -> DirectDatabase:
    """Open a database that may be down, and name it in the error."""
    from headway.storage.postgres.opening import limit_connect_time  # noqa: PLC0415  SQLite users never load psycopg

    try:
        return DirectDatabase(limit_connect_time(url, CONNECT_TIMEOUT_S), quotas=settings.quotas)
    except StorageError as error:
        raise type(error)(f"{subject} cannot be used. {error}") from error


# Finds the database of a tenant for processes that were started with the settings of another cell.


class CellOfTenant(NamedTuple):
    """The cell that has a tenant, and the settings of a process there."""

    cell: Cell
    settings: Settings


def find_elsewhere(settings: Settings, tenant_name: str, error: NotFound | WrongCell) -> CellOfTenant:
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
    return CellOfTenant(cell, build_cell_settings(settings, cell))


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
