"""Finds the two cells of a move, opens them, and carries it out or undoes it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from headway.actions.moves import source as leaving
from headway.actions.moves import target as arriving
from headway.cells import moving
from headway.cells.directory import Directory
from headway.cells.moving import CellAccess, Report, Route, Sign
from headway.ledger.cells import Cell, Move
from headway.ledger.errors import Conflict, Invalid, NotFound, StorageError
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
            move = moving.move_tenant(route, tenant_name)
        redirect_others(directory, move, report)
        return move


def redirect_others(directory: Directory, move: Move, report: Report) -> None:
    """Let the cells that the tenant left in earlier moves send its clients to the target: they follow only two answers in a row."""
    others = [cell for cell in directory.cells if cell.name not in (move.source, move.target)]

    def visit_others() -> None:
        visits = directory.visit(lambda _, database: database.write(partial(arriving.redirect_tokens, move=move)), others)
        for visit in visits:
            if visit.error:
                report(f"cell {visit.cell.name} does not know where the tenant is now: {visit.error}")

    if others:
        with suppress(StorageError):  # the directory has ended the transaction, because a cell did not answer for long
            directory.database.write(partial(arriving.redirect, move=move, visit=visit_others))


def undo_move(settings: Settings, tenant_name: str, report: Report, sign: Sign) -> Move:
    """Let a tenant stay where it is, if it has not arrived in the other cell."""
    with open_directory(settings, tenant_name) as directory:
        source, _ = find_source(directory, tenant_name)
        with directory.open(source) as database:
            move = database.read(partial(leaving.find, tenant_name=tenant_name))
        if move is None:
            raise NotFound(f"No move of the tenant {tenant_name[:80]!r} is under way. Nothing was changed.")
        if all(cell.name != move.target for cell in directory.cells):
            with directory.open(source) as database:
                return moving.stay_without_target(database, move, sign)
        with open_route(directory, source, directory.get(move.target), report, sign) as route:
            return moving.undo_move(route, tenant_name)


@contextmanager
def open_directory(settings: Settings, tenant_name: str) -> Iterator[Directory]:
    if tenant_name == LOCAL_TENANT:
        raise Invalid(f"The tenant {LOCAL_TENANT!r} exists in every cell, and cannot be moved.")
    with Directory(settings) as directory:
        directory.require_urls()
        if not directory.cells:
            raise NotFound("There are no cells. `headway admin cell add` adds one.")
        yield directory


def find_source(directory: Directory, tenant_name: str) -> tuple[Cell, Move | None]:
    """Return the cell that the tenant leaves, or has to leave, and the move with which it came there, if that is complete.

    Near the end of a move the directory names the target. Then the target knows from where the tenant came, and the source knows
    whether the move is complete.
    """
    placed = directory.find_cell_of(tenant_name)
    if placed is None:
        raise NotFound(f"No tenant named {tenant_name[:80]!r}. `headway admin tenant list` shows all tenants.")
    with directory.open(placed) as database:
        if database.read(partial(leaving.find, tenant_name=tenant_name)):
            return placed, None
        for move in database.read(partial(arriving.list_unsettled, tenant_name=tenant_name)):
            if source := find_incomplete(directory, move):
                return source, None
            database.write(partial(arriving.settle, move=move))
        last = database.read(partial(arriving.find_last, tenant_name=tenant_name))
    return placed, last if last and last.state == "settled" else None


def find_incomplete(directory: Directory, move: Move) -> Cell | None:
    """Return the source of a move if it has not completed the move."""
    source = next((cell for cell in directory.cells if cell.name == move.source), None)
    if source is None:  # it was removed, which only happens after complete moves
        return None
    with directory.open(source) as database:
        return source if database.read(partial(leaving.get_state, move_id=move.id)) in ("fenced", "departed") else None


@contextmanager
def open_route(directory: Directory, source: Cell, target: Cell, report: Report, sign: Sign) -> Iterator[Route]:
    with directory.open(source) as leave, directory.open(target) as arrive:
        yield Route(CellAccess(source, leave), CellAccess(target, arrive), directory.database, directory.settings, report, sign)
