"""Checks of `headway doctor`: whether the directory and the cells agree."""

from headway.actions.access import cells
from headway.cells import registry
from headway.cells.directory import Directory, may_have_cells
from headway.ledger.cells import Cell
from headway.ledger.errors import HeadwayError
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.surfaces.cli.health.findings import Finding


def inspect_cells(settings: Settings) -> list[Finding]:
    """Check the directory and what it says about the cells. An installation without cells has nothing to report."""
    if not may_have_cells(settings):
        return []
    try:
        with Directory(settings) as directory:
            if not directory.cells:
                unused = "HEADWAY_DIRECTORY_URL names a database that knows no cells. Add them with `headway admin cell add`."
                return [Finding("cells", unused, warning=True)] if settings.directory_url else []
            if not cells.is_directory(directory.cells):
                return [build_member_finding(directory.cells)]
            own = find_own_name(settings, directory)
            names = ", ".join(cell.name for cell in directory.cells)
            place = f"this database is the cell {own}" if own else "this database is none of them"
            return [Finding("cells", f"{len(directory.cells)}: {names}; {place}"), *inspect_directory(directory)]
    except HeadwayError as error:  # without its own URL, the directory is the database, which has a finding already
        return [Finding("cells", str(error), ok=False)] if settings.directory_url else []


def build_member_finding(known: list[Cell]) -> Finding:
    own = next((cell.name for cell in known if cell.is_self), "")
    detail = f"this database is the cell {own}, one of {len(known)}. To find tenants of other cells, set HEADWAY_DIRECTORY_URL."
    return Finding("cells", detail, warning=True)


def find_own_name(settings: Settings, directory: Directory) -> str:
    """Return the name of the cell that the database of the settings is."""
    if directory.is_own_database:
        return next((cell.name for cell in directory.cells if cell.is_self), "")
    with DirectDatabase(settings.database_url, direct_url=settings.database_direct_url) as database:
        return database.read(cells.get_own_name)


def inspect_directory(directory: Directory) -> list[Finding]:
    """Report moves that are not complete, and tenants about which the directory is wrong. Cells that cannot be reached have a
    finding about their database."""
    report = registry.compare_placements(directory)
    moves = [move for visit in directory.visit(registry.read_open_moves) for move in visit.value or ()]
    warnings = [
        *(f"the cell {cell.name} has no public address: set it with `headway admin cell add {cell.name} --public-url URL`"
          for cell in directory.cells if not cell.public_url),
        *(f"the move of tenant {move.tenant_name!r} is not complete: run `headway admin tenant move` with "
          f"--to {move.target} or --undo"
          for move in moves),
        *(f"the directory is wrong about {cells.describe_names(names)}: repair it with `headway admin cell add {cell}`"
          for cell, names in report.unplaced.items()),
        *(f"reserved in the cell {cell}, but not created: {cells.describe_names(names)}. Repeat `headway admin tenant add`, or use "
          "`headway admin tenant rm`" for cell, names in report.reserved.items()),
        *(registry.describe_double(name) for name in report.doubled if name not in {move.tenant_name for move in moves}),
    ]  # fmt: skip
    return [Finding("cells", warning, warning=True) for warning in warnings]
