"""Cells added, removed and compared, and tenants created in one of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from headway.actions.installation import halts, tenants
from headway.actions.runs import jobs
from headway.cells import membership, rows
from headway.cells.directory import Directory, Visit, may_have_cells, open_postgres
from headway.cells.rules import Cell, Move, check_cell_name
from headway.ledger import text
from headway.ledger.errors import Conflict, HeadwayError, Invalid, NotFound
from headway.ledger.tenancy import LOCAL_TENANT, Tenant
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.storage.migrate import check_database
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction, Work

Report = Callable[[str], None]  # shows a line about the progress
Sign = Callable[[Work[Any]], Work[Any]]  # names who does the work


class CellDraft(NamedTuple):
    """A cell to add. Fields that are None stay as the directory knows them."""

    name: str
    url: str | None
    public_url: str | None
    home: str | None


def add_cell(directory: Directory, draft: CellDraft, report: Report, sign: Sign) -> Cell:
    """Add a cell, or change it, or repair what the directory knows about it."""
    directory.require_urls()
    new = complete_draft(directory, draft)
    with open_postgres(f"The database of the cell {new.name}", new.url, directory.settings) as member:
        cell = directory.database.write(sign(partial(register, new=new, member=member)))
        member.write(sign(partial(membership.join, cell=cell)))
    directory.reload()
    for problem in [*refresh(directory), *repair_placements(directory)]:
        report(problem)
    return directory.get(cell.name)


def register(tx: Transaction, new: Cell, member: DirectDatabase) -> Cell:
    """Store a cell in the directory. If its database is the directory itself, it must say the same about its cells as this
    transaction, so no other command may change them in between."""
    rows.lock_cells(tx)
    return membership.register(tx, new, member.read(membership.read_facts))


def complete_draft(directory: Directory, draft: CellDraft) -> Cell:
    known = next((cell for cell in directory.cells if cell.name == check_cell_name(draft.name)), None)
    url = draft.url or (known.url if known else directory.settings.database_url)
    if not url.startswith(("postgresql://", "postgres://")):  # not quoted, because it may contain a password
        raise Invalid("A cell needs Postgres: --url must start with postgresql://.")
    kept = known or Cell(draft.name, "", "", "", 0, is_self=False, added_at=0)
    public_url = kept.public_url if draft.public_url is None else draft.public_url
    home = kept.home if draft.home is None else draft.home
    return kept._replace(url=url, public_url=public_url, home=home, is_self=False)


def remove_cell(directory: Directory, name: str, sign: Sign, *, is_lost: bool) -> list[str]:
    """Remove a cell without tenants. Its database is not deleted. With `is_lost`, the database is gone, and so are its tenants.
    Returns what could not be done in other cells."""
    directory.require_urls()
    cell = directory.get(name)
    others = [other for other in directory.cells if other != cell]
    moves = [move for visit in directory.visit(read_open_moves, others) for move in visit.value or () if move.target == name]
    if not is_lost:
        if moves:
            raise Conflict(f"The move of tenant {moves[0].tenant_name!r} to the cell {name} is not complete. Nothing was changed.")
        placed = directory.database.read(partial(rows.list_placements, cell=name))
        if placed:
            named = membership.describe_names([tenant for tenant, _ in placed])
            raise Conflict(f"The cell {name} has tenants: {named}. Move or delete them first. Nothing was changed.")
        with directory.open(cell) as member:
            member.write(sign(partial(membership.leave, name=name)))
    directory.database.write(sign(partial(membership.unregister, name=name, is_lost=is_lost)))
    directory.reload()
    problems = refresh(directory)
    if is_lost:
        directory.visit(partial(delete_departed, target=name))
        stranded = [describe_stranded(move) for move in moves if move.state == "fenced"]
        problems += [*repair_placements(directory), *stranded]
    return problems


def delete_departed(_cell: Cell, database: DirectDatabase, target: str) -> None:
    """Delete what tenants have left here that had departed to a cell that is lost."""
    from headway.cells.moving import delete_rows  # noqa: PLC0415  slow to load, and needed only when a cell is lost

    for move in database.read(rows.list_open_moves):
        if move.target == target and move.state == "departed":
            delete_rows(database, move)


def describe_stranded(move: Move) -> str:
    stays = f"`headway admin tenant move {move.tenant_name} --undo` lets it stay in the cell {move.source}"
    return f"The tenant {move.tenant_name!r} was on its way to the cell {move.target}: {stays}."


def read_open_moves(_cell: Cell, database: DirectDatabase) -> list[Move]:
    return database.read(rows.list_open_moves)


# Keeping the rows of several databases in agreement


def refresh(directory: Directory) -> list[str]:
    """Store the names and public addresses of all cells in each of them. Returns a sentence for each cell where that failed."""
    while True:
        known = directory.cells
        problems = teach(directory, known)
        directory.reload()
        if directory.cells == known:  # otherwise another command changed them, and its list may have been overwritten
            return problems


def teach(directory: Directory, known: list[Cell]) -> list[str]:
    if not membership.is_directory(known):
        return []

    def learn(cell: Cell, database: DirectDatabase) -> None:
        def is_up_to_date(tx: Transaction) -> bool:
            own = rows.find_self(tx)
            if own is None:  # it has not joined yet
                return True
            if membership.is_same_row(own, cell):  # it is the directory, which also has the URLs
                return True
            if own.name != cell.name:
                raise Conflict(f"The URL of the cell {cell.name} leads to the database of the cell {own.name}. Correct it.")
            return rows.list_cells(tx) == [row._replace(url="", is_self=row.name == cell.name) for row in known]

        if not database.read(is_up_to_date):
            database.write(partial(membership.learn_cells, own_name=cell.name, cells=known))

    others = [cell for cell in known if not cell.is_self]  # the directory itself has more than the others
    return [str(visit.error) for visit in directory.visit(learn, others) if visit.error]


class PlacementReport(NamedTuple):
    """The differences between the directory and the tenants in the cells."""

    unplaced: dict[str, list[str]]  # cell → tenants that it has, and that the directory does not know or places elsewhere
    doubled: list[str]  # tenants that two cells have: being moved, or created twice
    reserved: dict[str, list[str]]  # cell → names that the directory has placed there, but no cell has a tenant of that name
    errors: list[str]  # cells that could not be read


def compare_placements(directory: Directory) -> PlacementReport:
    """Compare the directory with the tenants in all cells."""
    visits = directory.visit(read_tenant_names)
    placements = dict(directory.database.read(rows.list_placements))
    owners: dict[str, list[str]] = {}
    for visit in visits:
        for name in visit.value or ():
            owners.setdefault(name, []).append(visit.cell.name)
    unplaced: dict[str, list[str]] = {}
    reserved: dict[str, list[str]] = {}
    down = {visit.cell.name for visit in visits if visit.error}
    for name, found in owners.items():
        if len(found) == 1 and placements.get(name) != found[0] and placements.get(name) not in down:
            unplaced.setdefault(found[0], []).append(name)
    for name, cell in placements.items():
        if name not in owners and cell not in down:
            reserved.setdefault(cell, []).append(name)
    doubled = [name for name, found in owners.items() if len(found) > 1]
    return PlacementReport(unplaced, doubled, reserved, [str(visit.error) for visit in visits if visit.error])


def read_tenant_names(_cell: Cell, database: DirectDatabase) -> list[str]:
    return [tenant.name for tenant in database.read(tenant_store.list_all_tenants) if tenant.name != LOCAL_TENANT]


def repair_placements(directory: Directory) -> list[str]:
    """Let the directory know where the tenants are that the cells have. Returns a sentence for each thing that it cannot decide."""
    report = compare_placements(directory)
    for cell, names in report.unplaced.items():
        directory.database.write(partial(membership.record_placements, tenant_names=names, cell=cell))
    return [describe_double(name) for name in report.doubled]


def describe_double(name: str) -> str:
    return f"Two cells have a tenant named {name[:80]!r}. If it is being moved, complete the move with `headway admin tenant move`."


# The work of a cell


class CellStatus(NamedTuple):
    database: str  # its version
    tenants: int
    workers: int  # processes that take jobs
    due: int  # jobs that wait for a process
    running: int
    halted: bool
    moves: list[Move]  # out of it, not complete

    def as_json(self) -> dict[str, Any]:
        moves = [{"tenant": move.tenant_name, "to": move.target, "state": move.state} for move in self.moves]
        return {
            "database": self.database,
            "tenants": self.tenants,
            "workers": self.workers,
            "jobs": {"due": self.due, "running": self.running},
            "halted": self.halted,
            "moves": moves,
        }


def read_status(_cell: Cell, database: DirectDatabase) -> CellStatus:
    def read(tx: Transaction) -> CellStatus:
        due, running = jobs.count_all(tx)
        return CellStatus(
            check_database(tx),
            sum(tenant.name != LOCAL_TENANT for tenant in tenant_store.list_all_tenants(tx)),
            jobs.count_live_workers(tx),
            due,
            running,
            halts.find_active(tx) is not None,
            rows.list_open_moves(tx),
        )

    return database.read(read)


def build_document(cell: Cell, status: CellStatus | None, error: HeadwayError | None) -> dict[str, Any]:
    """Return what is shown of a cell: its row, and what it does, or why that is not known."""
    return {**cell.as_json(), "ok": error is None, "error": str(error) if error else None, **(status.as_json() if status else {})}


# Creates, lists and forgets tenants where there are several cells. Without cells, there is only the database of the
# settings.


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
    create = sign(partial(tenants.add_tenant, name=name))
    with open_with_directory(settings) as (directory, database):
        if directory:
            cell = choose_cell(directory, database, cell_name)
            if name != LOCAL_TENANT:  # every cell has one
                directory.database.write(partial(membership.reserve_name, tenant_name=name, cell=cell.name))
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
    own = database.read(rows.find_self)
    if own is None:
        raise Invalid(
            "The database is not a cell, so name the cell of the tenant with --cell. `headway admin cell list` shows all cells."
        )
    return directory.get(own.name)


def list_tenants(settings: Settings) -> TenantList:
    """List the tenants of all cells."""
    with open_with_directory(settings) as (directory, database):
        if directory and membership.is_directory(directory.cells):
            return combine_lists(directory.visit(lambda _, member: member.read(tenant_store.list_all_tenants)), directory)
        return TenantList([PlacedTenant(row.name, row, "") for row in database.read(tenant_store.list_all_tenants)], [])


def combine_lists(visits: list[Visit[list[Tenant]]], directory: Directory) -> TenantList:
    """Add the names of the tenants in cells that cannot be reached, from the directory."""
    found = [PlacedTenant(row.name, row, visit.cell.name) for visit in visits for row in visit.value or ()]
    for visit in visits:
        if visit.error:
            placed = directory.database.read(partial(rows.list_placements, cell=visit.cell.name))
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
        return directory.database.write(partial(membership.release_name, tenant_name=name)) if directory.cells else False
