"""Moves a tenant from one cell to another. docs/internals/cell-moves.md says why this is safe at every moment.

Each step is one transaction in one database, or copies files. It can be repeated, and the rows say which steps are done. So a move
that was interrupted is continued by the same call, from any process.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from headway.actions.access import tenants
from headway.actions.moves import source as leaving
from headway.actions.moves import target as arriving
from headway.actions.retention import removal
from headway.cells.files import CellFiles, copy_files, delete_files, find_files, lock_home
from headway.ledger.cells import HAS_ARRIVED, Cell, Move, MoveState
from headway.ledger.errors import CommitUncertain, Conflict, DatabaseBusy, HeadwayError, NotFound
from headway.ledger.tenancy import Tenant
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.storage.postgres.copying import order_tables
from headway.storage.postgres.transaction import PostgresTransaction
from headway.storage.transaction import Transaction, Work

T = TypeVar("T")

DRAIN_S: Final = 5.0  # how long outside calls get to end before the tenant is fenced
POLL_S: Final = 0.1
LOCK_MS: Final = 200  # how long other tenants may wait because a trigger is created or dropped
LONG_LOCK_MS: Final = 1_500  # every fifth attempt: after a second, the server cancels an autovacuum that is in the way
FENCE_S: Final = 60.0
TIDY_S: Final = 10.0
MAX_UNCERTAIN: Final = 5
MANY_ROWS: Final = 10_000  # tables with as many rows get a line of progress

Report = Callable[[str], None]  # shows a line about the progress
Sign = Callable[[Work[Any]], Work[Any]]  # names who does the work


class CellAccess(NamedTuple):
    """A cell, and its database."""

    cell: Cell
    database: DirectDatabase


class Route(NamedTuple):
    """The databases that take part in a move, and how it reports and signs what it does."""

    source: CellAccess
    target: CellAccess
    directory: DirectDatabase
    settings: Settings
    report: Report
    sign: Sign

    @property
    def files(self) -> tuple[CellFiles, CellFiles]:
        return find_files(self.source.cell, self.settings), find_files(self.target.cell, self.settings)


def move_tenant(route: Route, tenant_name: str) -> Move:
    """Move the tenant, or continue the move. Returns the completed move."""
    source, target = route.source.database, route.target.database
    move = source.read(partial(leaving.find, tenant_name=tenant_name))
    if move is None or move.target != route.target.cell.name:
        move = begin(route, tenant_name)
    try:
        if move.state == "fenced" and target.read(partial(arriving.get_state, move_id=move.id)) is None:
            carry_over(route, move)
        check_arrival(route, move)
        place(route, move)
        repeat(source, route.sign(partial(leaving.depart, move=move)))
        check_arrival(route, move)
        clean_up(route, move)
        repeat(target, partial(arriving.settle, move=move))
    except HeadwayError:
        route.report(
            "The move is not complete, and changes of the tenant may be refused. Run the command again, or undo it with --undo."
        )
        raise
    return move._replace(state="done")


def begin(route: Route, tenant_name: str) -> Move:
    """Check what can be checked before anything changes, copy files for the first time, and record the move."""
    source, target = route.source.database, route.target.database
    for access in (route.source, route.target):
        if reason := access.database.read(leaving.find_missing_right):
            raise Conflict(f"In the database of cell {access.cell.name}, {reason}. Add the cell with the URL of the tables' owner.")
        drop_left_triggers(route, access.database)
    target.read(lambda arrived: source.read(lambda tx: arriving.check_versions(tx, arrived)))
    tenant = source.read(partial(tenants.get_by_name, name=tenant_name))
    target.read(partial(arriving.check_free, tenant_name=tenant.name, tenant_id=tenant.id))
    with hold_files(route, tenant):
        pass  # most of them, before anything is refused
    begun = source.write(partial(leaving.begin, tenant_name=tenant.name, target=route.target.cell.name))
    route.report(f"moving tenant {tenant.name} from cell {begun.source} to {begun.target}")
    return begun


@contextmanager
def hold_files(route: Route, tenant: Tenant) -> Iterator[None]:
    """Copy the tenant's files, unless it has arrived in the target or both cells share a home. The lock of the target's home is
    held until the block ends: nothing may be copied over the files of a tenant that has arrived."""
    before, after = route.files
    if before.home == after.home:
        yield
        return
    owners = route.source.database.read(partial(removal.find_file_owners, tenant=tenant))
    with lock_home(after):
        if not route.target.database.read(partial(arriving.has_tenant, tenant=tenant)):
            copied = copy_files(before, after, tenant.id, owners.conversations)
            route.report(f"copied {copied:,} files")
        yield


def carry_over(route: Route, move: Move) -> None:
    """Fence the tenant in the source, and store it in the target."""
    drain(route, move)
    fenced_at = time.monotonic()
    fence(route, move)
    with hold_files(route, Tenant(move.tenant, move.tenant_name, 0)):
        copied = copy_rows(route, move)
    route.report(f"copied {copied:,} rows; changes were refused for {time.monotonic() - fenced_at:.1f} s")


def check_arrival(route: Route, move: Move) -> None:
    """Raise Conflict unless the target has the tenant. It was there, but a database can be replaced by an old copy of it."""
    state = route.target.database.read(partial(arriving.get_state, move_id=move.id))
    if state == "canceled":
        raise Conflict(f"The move of tenant {move.tenant_name!r} is being undone. Complete that with `--undo`.")
    if state not in HAS_ARRIVED:
        raise Conflict(
            f"The database of cell {move.target} does not know the move of tenant {move.tenant_name!r}. Is it an old copy?"
        )


def copy_rows(route: Route, move: Move) -> int:
    """Store the tenant in the target, unless it has arrived or the move was canceled. Returns how many rows were copied."""
    copied: dict[str, int] = {}

    def report_table(table: str, count: int) -> None:
        copied[table] = count
        if count >= MANY_ROWS:
            route.report(f"copied {count:,} rows of {table}")

    def copy(tx: Transaction) -> MoveState:
        return route.target.database.write(route.sign(partial(arriving.arrive, source=tx, move=move, report=report_table)))

    for attempt in range(1, MAX_UNCERTAIN + 1):
        try:
            route.source.database.read(copy)
            break
        except CommitUncertain:  # asking again waits for that transaction, and says what became of it
            if attempt == MAX_UNCERTAIN:
                raise
    return sum(copied.values())


def drain(route: Route, move: Move) -> None:
    """Give outside calls that are under way a few seconds to end, and let no new ones start."""
    deadline = time.monotonic() + DRAIN_S
    while running := repeat(route.source.database, partial(leaving.drain, move=move)):
        if time.monotonic() >= deadline:
            route.report(f"interrupting {running} outside call{'s' if running != 1 else ''}")
            return
        time.sleep(POLL_S)


def fence(route: Route, move: Move) -> None:
    source, deadline = route.source.database, time.monotonic() + FENCE_S
    for table in source.read(partial(leaving.list_unfenced, move=move)):

        def add(wait_ms: int, table: str = table) -> None:
            repeat(source, partial(leaving.fence_table, move=move, table=table, wait_ms=wait_ms))

        take_lock(add, deadline)


def take_lock(attempt: Callable[[int], None], deadline: float) -> None:
    """Repeat an attempt that needs the lock of a table. It waits shortly, because all other users of the table wait behind it."""
    number = 0
    while True:
        number += 1
        try:
            attempt(LONG_LOCK_MS if number % 5 == 0 else LOCK_MS)
        except DatabaseBusy:
            if time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(0.5, 1.5) * POLL_S)  # noqa: S311  not security-relevant
        else:
            return


def repeat(database: DirectDatabase, step: Work[T]) -> T:
    """Run a step again whose commit may or may not be stored: steps can be repeated."""
    for _ in range(MAX_UNCERTAIN - 1):
        try:
            return database.write(step)
        except CommitUncertain:
            continue
    return database.write(step)


def place(route: Route, move: Move) -> None:
    """Record in the directory where the tenant is. The row is locked before the move is looked up: if the move is complete, the
    tenant may have moved on, and a later move has stored its place, or waits for the lock."""

    def is_due() -> bool:
        return route.source.database.read(partial(leaving.get_state, move_id=move.id)) == "fenced"

    with suppress(arriving.Overtaken):
        repeat(route.directory, partial(arriving.place, move=move, is_due=is_due))


def clean_up(route: Route, move: Move) -> None:
    """Delete what the tenant has left in the source."""
    source = route.source.database
    before, after = route.files

    def is_due() -> bool:
        return source.read(partial(leaving.get_state, move_id=move.id)) == "departed"

    if before.home != after.home:
        owners = source.read(partial(removal.find_file_owners, tenant=Tenant(move.tenant, move.tenant_name, 0)))
        delete_files(before, after, move, owners.conversations, is_due)
    delete_rows(source, move)
    drop_left_triggers(route, source)


def delete_rows(source: DirectDatabase, move: Move) -> None:
    """Delete the rows of a tenant that has departed, in parts."""
    for table in source.read(list_tables_to_empty):
        while repeat(source, partial(leaving.delete_part, move=move, table=table)):
            pass
    repeat(source, partial(leaving.finish, move=move))


def list_tables_to_empty(tx: Transaction) -> list[str]:
    """List the tables of tenants, each before those that it refers to, without the last one: the tenants themselves."""
    assert isinstance(tx, PostgresTransaction)
    return [table for table in reversed(order_tables(tx)) if table != "tenants"]


def drop_left_triggers(route: Route, database: DirectDatabase) -> None:
    """Drop the triggers of moves that are over. They let every change pass, so those of a table in use are left to a later move."""
    deadline = time.monotonic() + TIDY_S
    for table, triggers in database.read(leaving.list_left_triggers).items():

        def drop(wait_ms: int, table: str = table, triggers: list[str] = triggers) -> None:
            wait_ms = min(wait_ms, LOCK_MS)
            database.write(partial(leaving.drop_triggers, table=table, triggers=triggers, wait_ms=wait_ms))

        try:
            take_lock(drop, deadline)
        except DatabaseBusy:
            route.report(f"triggers without effect are left on the table {table}, because it is in use; the next move drops them")


def undo_move(route: Route, tenant_name: str) -> Move:
    """Let the tenant stay in the source. If it has arrived in the target, the move can only be completed."""
    source = route.source.database
    move = source.read(partial(leaving.find, tenant_name=tenant_name))
    if move is None:
        raise NotFound(f"No move of tenant {tenant_name[:80]!r} out of cell {route.source.cell.name} is under way.")
    state = "arrived" if move.state == "departed" else repeat(route.target.database, partial(arriving.cancel, move=move))
    if state in HAS_ARRIVED:
        raise Conflict(
            f"The tenant {tenant_name!r} is in cell {move.target} by now. Complete the move with "
            f"`headway admin tenant move {tenant_name} --to {move.target}`, then move it back."
        )
    repeat(source, route.sign(partial(leaving.undo, move=move)))
    drop_left_triggers(route, source)
    return move._replace(state="undone")


def stay_without_target(source: DirectDatabase, move: Move, sign: Sign) -> Move:
    """Let the tenant stay in the source, because the target no longer exists, with whatever it had received. A cell that has been
    removed accepts no tenant."""
    repeat(source, sign(partial(leaving.undo, move=move)))
    return move._replace(state="undone")
