"""Finds the two cells of a move, opens them, and carries it out or undoes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from headway.actions.moves import source as leaving
from headway.actions.moves import target as arriving
from headway.cells import moving
from headway.cells.directory import Directory
from headway.cells.moving import CellAccess, Report, Route, Sign
from headway.ledger.cells import Cell, Move
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.tenancy import LOCAL_TENANT
from headway.settings import Settings


def move_tenant(settings: Settings, tenant_name: str, target_name: str, report: Report, sign: Sign) -> Move:
    """Move a tenant to another cell, or continue the move. Returns the completed move, also if it was complete before."""
    with open_directory(settings, tenant_name) as directory:
        target = directory.get(target_name)
        source, arrived = find_source(directory, tenant_name)
        if source == target:
            if arrived is None:
                raise Conflict(f"The tenant {tenant_name!r} is in the cell {target.name} already. Nothing was changed.")
            return arrived._replace(state="done")
        with open_route(directory, source, target, report, sign) as route:
            return moving.move_tenant(route, tenant_name)


def undo_move(settings: Settings, tenant_name: str, report: Report, sign: Sign) -> Move:
    """Let a tenant stay where it is, if it has not arrived in the other cell."""
    with open_directory(settings, tenant_name) as directory:
        source, _ = find_source(directory, tenant_name)
        with directory.open(source) as database:
            move = database.read(partial(leaving.find, tenant_name=tenant_name))
        if move is None:
            raise NotFound(f"No move of the tenant {tenant_name[:80]!r} is under way. Nothing was changed.")
        with open_route(directory, source, directory.get(move.target), report, sign) as route:
            return moving.undo_move(route, tenant_name)


@contextmanager
def open_directory(settings: Settings, tenant_name: str) -> Iterator[Directory]:
    if tenant_name == LOCAL_TENANT:
        raise Invalid(f"The tenant {LOCAL_TENANT!r} exists in every cell, and cannot be moved.")
    with Directory(settings) as directory:
        directory.require_urls()
        if not directory.cells:
            raise NotFound("There are no cells. `headway cell add` adds one.")
        yield directory


def find_source(directory: Directory, tenant_name: str) -> tuple[Cell, Move | None]:
    """Return the cell that the tenant leaves, or has to leave, and the move with which it came there, if that is complete.

    Near the end of a move the directory names the target. Then the target knows from where the tenant came, and the source knows
    whether the move is complete.
    """
    placed = directory.find_cell_of(tenant_name)
    if placed is None:
        raise NotFound(f"No tenant named {tenant_name[:80]!r}. `headway tenant list` shows all tenants.")
    with directory.open(placed) as database:
        if database.read(partial(leaving.find, tenant_name=tenant_name)):
            return placed, None
        last = database.read(partial(arriving.find_last, tenant_name=tenant_name))
    if last is None or last.state != "arrived":
        return placed, None
    source = next((cell for cell in directory.cells if cell.name == last.source), None)
    if source:  # otherwise it was removed, which only happens after complete moves
        with directory.open(source) as database:
            if database.read(partial(leaving.get_state, move_id=last.id)) in ("fenced", "departed"):
                return source, None
    return placed, last


@contextmanager
def open_route(directory: Directory, source: Cell, target: Cell, report: Report, sign: Sign) -> Iterator[Route]:
    with directory.open(source) as leave, directory.open(target) as arrive:
        yield Route(CellAccess(source, leave), CellAccess(target, arrive), directory.database, directory.settings, report, sign)
