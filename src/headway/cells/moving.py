"""Moves of tenants between cells: their steps, their routes, and the tenants' files."""

import errno
import fcntl
import os
import random
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os.path import join
from shutil import copyfileobj, rmtree
from typing import Any, Final, NamedTuple, TypeVar

from headway.actions.installation import tenants
from headway.agents.instructions.skills import TENANTS
from headway.agents.policy_file import load_policy
from headway.agents.tools.files.folders import FOLDER_FLAGS, READ_FLAGS, open_entry
from headway.cells import move_steps, rows
from headway.cells.copying import order_tables
from headway.cells.directory import Directory, build_cell_settings
from headway.cells.rules import HAS_ARRIVED, Cell, Move, MoveState
from headway.ledger.errors import CommitUncertain, Conflict, DatabaseBusy, HeadwayError, Invalid, NotFound, StorageError
from headway.ledger.permission import FILE_NAME as POLICY_FILE_NAME
from headway.ledger.tenancy import LOCAL_TENANT, Tenant
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.storage.home_files import TaskFile, delete_task_files
from headway.storage.postgres.fence import find_missing_right, list_left_triggers
from headway.storage.postgres.transaction import PostgresTransaction
from headway.storage.transaction import Transaction, Work

LOCK_FILE: Final = ".tenant-moves.lock"
TEMPORARY_NAME: Final = ".headway-copying"

Conversations = list[tuple[str, int]]  # (UUID, id), which name the task files


class CellFiles(NamedTuple):
    """The folders in which a cell keeps the files of its tenants, as this machine sees them."""

    home: str
    workspace: str
    task_folder: str
    worktrees: str

    def list_folders(self, tenant_id: int) -> list[str]:
        folders = (self.workspace, self.worktrees, join(self.home, TENANTS))
        return [join(os.path.realpath(folder), str(tenant_id)) for folder in folders]


def find_files(cell: Cell, settings: Settings) -> CellFiles:
    """Return the folders of a cell. A cell without a home shares that of this process."""
    own = build_cell_settings(settings, cell)
    if not os.path.isdir(own.home) and cell.home:
        raise Conflict(f"The home of cell {cell.name}, {cell.home}, is not a folder on this machine. Mount it, then try again.")
    return CellFiles(os.path.realpath(own.home), own.workspace, own.task_folder, own.worktrees)


def list_pairs(source: CellFiles, target: CellFiles, tenant_id: int) -> list[tuple[str, str]]:
    """List the tenant's folders in both homes, without folders that the cells share."""
    pairs = zip(source.list_folders(tenant_id), target.list_folders(tenant_id), strict=True)
    return [(before, after) for before, after in pairs if before != after]


@contextmanager
def lock_home(files: CellFiles) -> Iterator[None]:
    handle = os.open(join(files.home, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def copy_files(source: CellFiles, target: CellFiles, tenant_id: int, conversations: Conversations) -> int:
    """Make the tenant's files in the target equal to the source's, and return how many were copied. Files that are equal
    already, by size and time of change, are skipped. The caller holds the lock of the target."""
    copied = sum(mirror_folder(*pair) for pair in list_pairs(source, target, tenant_id))
    for uuid, conversation_id in conversations:
        before, after = (TaskFile(files.task_folder, uuid, conversation_id) for files in (source, target))
        for path, copy in ((before.path, after.path), (before.alias, after.alias)):
            if os.path.lexists(path):
                os.makedirs(os.path.dirname(copy), mode=0o700, exist_ok=True)
                copied += copy_entry(path, copy)
    return copied


def delete_files(
    source: CellFiles, target: CellFiles, move: Move, conversations: Conversations, is_due: Callable[[], bool]
) -> None:
    """Delete the tenant's files in the cell that it has left, unless `is_due`, which is asked under the lock, says no. They are
    renamed under the lock, and deleted afterwards."""
    trash = join(source.home, f".departed-{move.id}")
    with lock_home(source):
        if is_due():
            os.makedirs(trash, mode=0o700, exist_ok=True)
            for number, (folder, _) in enumerate(list_pairs(source, target, move.tenant)):
                if os.path.lexists(folder):
                    rename_into(folder, trash, str(number))
            delete_task_files(source.task_folder, conversations)
    rmtree(trash, ignore_errors=True)


def rename_into(folder: str, trash: str, name: str) -> None:
    trashed = join(trash, name)
    rmtree(trashed, ignore_errors=True)
    try:
        os.rename(folder, trashed)
    except OSError:  # the workspaces are on another file system
        rmtree(folder, ignore_errors=True)


def mirror_folder(source: str, target: str, outer: int | None = None) -> int:
    """Make a folder equal to another one, and return how many files were copied. Links are copied as links and never followed, also
    if a program of the tenant puts one in the place of what was just looked at."""
    try:
        with open_entry(source, FOLDER_FLAGS, outer) as folder:
            if os.path.islink(target) or not os.path.isdir(target):
                remove(target)
                os.makedirs(target, mode=0o700)
            return mirror_entries(folder, target)
    except (FileNotFoundError, NotADirectoryError):  # also for a link
        remove(target)
        return 0


def mirror_entries(folder: int, target: str) -> int:
    copied = 0
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for extra in set(os.listdir(target)) - {name for name, _ in entries}:
        remove(join(target, extra))
    for name, is_folder in entries:
        copy = join(target, name)
        copied += mirror_folder(name, copy, folder) if is_folder else copy_entry(name, copy, folder)
    os.chmod(target, stat.S_IMODE(os.fstat(folder).st_mode))
    return copied


def copy_entry(source: str, target: str, folder: int | None = None) -> int:
    """Copy a file or a link, unless it is equal already. Returns how many files were copied."""
    try:
        found = os.lstat(source, dir_fd=folder)
        if stat.S_ISLNK(found.st_mode):
            copy_link(os.readlink(source, dir_fd=folder), target)
            return 0
        if not stat.S_ISREG(found.st_mode):
            return 0  # sockets and pipes belong to processes
        known = os.lstat(target) if os.path.lexists(target) else None
        if known and stat.S_ISREG(known.st_mode) and (known.st_size, known.st_mtime_ns) == (found.st_size, found.st_mtime_ns):
            return 0
        with open_entry(source, READ_FLAGS, folder) as handle:
            if known and stat.S_ISDIR(known.st_mode):
                remove(target)
            return copy_file(handle, target)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP, errno.EINVAL):
            raise
        return 0  # deleted or exchanged since the folder was read; a move copies again when the tenant's programs have stopped


def copy_link(destination: str, target: str) -> None:
    if not (os.path.islink(target) and os.readlink(target) == destination):
        remove(target)
        os.symlink(destination, target)


def copy_file(source: int, target: str) -> int:
    found = os.fstat(source)
    if not stat.S_ISREG(found.st_mode):
        return 0
    temporary = join(os.path.dirname(target), TEMPORARY_NAME)
    remove(temporary)
    with os.fdopen(os.dup(source), "rb") as reader:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as writer:
            copyfileobj(reader, writer, 1024 * 1024)
            writer.flush()
            os.fchmod(writer.fileno(), stat.S_IMODE(found.st_mode))
            os.fsync(writer.fileno())
    os.utime(temporary, ns=(found.st_atime_ns, found.st_mtime_ns))
    os.replace(temporary, target)
    return 1


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


# Moves a tenant from one cell to another. docs/internals/cell-moves.md says why this is safe at every moment.


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
    move = source.read(partial(rows.find_unfinished_by_name, tenant_name=tenant_name))
    if move is None or move.target != route.target.cell.name:
        move = begin(route, tenant_name)
    try:
        if move.state == "fenced" and target.read(partial(move_steps.get_arrival_state, move_id=move.id)) is None:
            carry_over(route, move)
        check_arrival(route, move)
        record_placement(route, move)
        repeat(source, route.sign(partial(move_steps.depart, move=move)))
        check_arrival(route, move)
        clean_up(route, move)
        repeat(target, partial(move_steps.settle_arrival, move=move))
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
        if reason := access.database.read(find_missing_right):
            raise Conflict(f"In the database of cell {access.cell.name}, {reason}. Add the cell with the URL of the tables' owner.")
        drop_left_triggers(route, access.database)
    target.read(lambda arrived: source.read(lambda tx: move_steps.check_versions(tx, arrived)))
    tenant = source.read(partial(tenants.get_by_name, name=tenant_name))
    target.read(partial(move_steps.check_free, tenant_name=tenant.name, tenant_id=tenant.id))
    report_missing_rules(route, tenant)
    with hold_files(route, tenant):
        pass  # most of them, before anything is refused
    begun = source.write(partial(move_steps.begin_move, tenant_name=tenant.name, target=route.target.cell.name))
    route.report(f"moving tenant {tenant.name} from cell {begun.source} to {begun.target}")
    return begun


def report_missing_rules(route: Route, tenant: Tenant) -> None:
    """Name the rules for the tenant that the target's policy does not have. Rules are the operator's, and do not move."""
    before, after = (join(files.home, POLICY_FILE_NAME) for files in route.files)
    if before == after:
        return
    known = {rule._replace(line=0, approval=0) for rule in load_policy(after).list_for_tenant(tenant.name)}
    rules = load_policy(before).list_for_tenant(tenant.name)
    lines = [f"{before}:{rule.line}" for rule in rules if rule._replace(line=0, approval=0) not in known]
    if lines:
        route.report(f"rules for the tenant that {after} does not have, and that are not moved: {', '.join(lines)}. Copy them.")


@contextmanager
def hold_files(route: Route, tenant: Tenant) -> Iterator[None]:
    """Copy the tenant's files, unless it has arrived in the target or both cells share a home. The lock of the target's home is
    held until the block ends: nothing may be copied over the files of a tenant that has arrived."""
    before, after = route.files
    if before.home == after.home:
        yield
        return
    owners = route.source.database.read(partial(tenants.find_file_owners, tenant=tenant))
    with lock_home(after):
        if not route.target.database.read(partial(move_steps.has_tenant, tenant=tenant)):
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
    state = route.target.database.read(partial(move_steps.get_arrival_state, move_id=move.id))
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
        return route.target.database.write(route.sign(partial(move_steps.arrive, source=tx, move=move, report=report_table)))

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
    while running := repeat(route.source.database, partial(move_steps.drain, move=move)):
        if time.monotonic() >= deadline:
            route.report(f"interrupting {running} outside call{'s' if running != 1 else ''}")
            return
        time.sleep(POLL_S)


def fence(route: Route, move: Move) -> None:
    source, deadline = route.source.database, time.monotonic() + FENCE_S
    for table in source.read(partial(move_steps.list_unfenced, move=move)):

        def add(wait_ms: int, table: str = table) -> None:
            repeat(source, partial(move_steps.fence_table, move=move, table=table, wait_ms=wait_ms))

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


def record_placement(route: Route, move: Move) -> None:
    """Record in the directory where the tenant is. The row is locked before the move is looked up: if the move is complete, the
    tenant may have moved on, and a later move has stored its place, or waits for the lock."""

    def is_due() -> bool:
        return route.source.database.read(partial(move_steps.get_state, move_id=move.id)) == "fenced"

    with suppress(move_steps.Overtaken):
        repeat(route.directory, partial(move_steps.record_placement, move=move, is_due=is_due))


def clean_up(route: Route, move: Move) -> None:
    """Delete what the tenant has left in the source."""
    source = route.source.database
    before, after = route.files

    def is_due() -> bool:
        return source.read(partial(move_steps.get_state, move_id=move.id)) == "departed"

    if before.home != after.home:
        owners = source.read(partial(tenants.find_file_owners, tenant=Tenant(move.tenant, move.tenant_name, 0)))
        delete_files(before, after, move, owners.conversations, is_due)
    delete_rows(source, move)
    drop_left_triggers(route, source)


def delete_rows(source: DirectDatabase, move: Move) -> None:
    """Delete the rows of a tenant that has departed, in parts."""
    for table in source.read(list_tables_to_empty):
        while repeat(source, partial(move_steps.delete_part, move=move, table=table)):
            pass
    repeat(source, partial(move_steps.finish, move=move))


def list_tables_to_empty(tx: Transaction) -> list[str]:
    """List the tables of tenants, each before the tables that it refers to, without the last one: the tenants themselves."""
    assert isinstance(tx, PostgresTransaction)
    return [table for table in reversed(order_tables(tx)) if table != "tenants"]


def drop_left_triggers(route: Route, database: DirectDatabase) -> None:
    """Drop the triggers of moves that are over. They let every change pass, so a later move may drop triggers on tables in use."""
    deadline = time.monotonic() + TIDY_S
    for table, triggers in database.read(list_left_triggers).items():

        def drop(wait_ms: int, table: str = table, triggers: list[str] = triggers) -> None:
            wait_ms = min(wait_ms, LOCK_MS)
            database.write(partial(move_steps.drop_triggers, table=table, triggers=triggers, wait_ms=wait_ms))

        try:
            take_lock(drop, deadline)
        except DatabaseBusy:
            route.report(f"triggers without effect are left on the table {table}, because it is in use; the next move drops them")


def undo_move(route: Route, tenant_name: str) -> Move:
    """Let the tenant stay in the source. If it has arrived in the target, the move can only be completed."""
    source = route.source.database
    move = source.read(partial(rows.find_unfinished_by_name, tenant_name=tenant_name))
    if move is None:
        raise NotFound(f"No move of tenant {tenant_name[:80]!r} out of cell {route.source.cell.name} is under way.")
    state = "arrived" if move.state == "departed" else repeat(route.target.database, partial(move_steps.cancel_arrival, move=move))
    if state in HAS_ARRIVED:
        raise Conflict(
            f"The tenant {tenant_name!r} is in cell {move.target} by now. Complete the move with "
            f"`headway admin tenant move {tenant_name} --to {move.target}`, then move it back."
        )
    repeat(source, route.sign(partial(move_steps.undo, move=move)))
    drop_left_triggers(route, source)
    return move._replace(state="undone")


def stay_without_target(source: DirectDatabase, move: Move, sign: Sign) -> Move:
    """Let the tenant stay in the source, because the target no longer exists, with whatever it had received. A cell that has been
    removed accepts no tenant."""
    repeat(source, sign(partial(move_steps.undo, move=move)))
    return move._replace(state="undone")


# Finds the two cells of a move, opens them, and carries it out or undoes it.


def move_tenant_by_name(settings: Settings, tenant_name: str, target_name: str, report: Report, sign: Sign) -> Move:
    """Move a tenant to another cell, or continue the move. Returns the completed move, also if it was complete before."""
    with open_directory(settings, tenant_name) as directory:
        target = directory.get(target_name)
        source, arrived = find_source(directory, tenant_name)
        if source == target:
            if arrived is None:
                raise Conflict(f"The tenant {tenant_name!r} is in the cell {target.name} already. Nothing was changed.")
            return arrived._replace(state="done")
        with open_route(directory, source, target, report, sign) as route:
            move = move_tenant(route, tenant_name)
        redirect_others(directory, move, report)
        return move


def redirect_others(directory: Directory, move: Move, report: Report) -> None:
    """Let the cells that the tenant left in earlier moves send its clients to the target: they follow only two answers in a row."""
    others = [cell for cell in directory.cells if cell.name not in (move.source, move.target)]

    def visit_others() -> None:
        visits = directory.visit(lambda _, database: database.write(partial(move_steps.redirect_tokens, move=move)), others)
        for visit in visits:
            if visit.error:
                report(f"cell {visit.cell.name} does not know where the tenant is now: {visit.error}")

    if others:
        with suppress(StorageError):  # the directory has ended the transaction, because a cell did not answer for long
            directory.database.write(partial(move_steps.redirect, move=move, visit=visit_others))


def undo_move_by_name(settings: Settings, tenant_name: str, report: Report, sign: Sign) -> Move:
    """Let a tenant stay where it is, if it has not arrived in the other cell."""
    with open_directory(settings, tenant_name) as directory:
        source, _ = find_source(directory, tenant_name)
        with directory.open(source) as database:
            move = database.read(partial(rows.find_unfinished_by_name, tenant_name=tenant_name))
        if move is None:
            raise NotFound(f"No move of the tenant {tenant_name[:80]!r} is under way. Nothing was changed.")
        if all(cell.name != move.target for cell in directory.cells):
            with directory.open(source) as database:
                return stay_without_target(database, move, sign)
        with open_route(directory, source, directory.get(move.target), report, sign) as route:
            return undo_move(route, tenant_name)


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
        if database.read(partial(rows.find_unfinished_by_name, tenant_name=tenant_name)):
            return placed, None
        for move in database.read(partial(rows.list_unsettled, tenant_name=tenant_name)):
            if source := find_incomplete(directory, move):
                return source, None
            database.write(partial(move_steps.settle_arrival, move=move))
        last = database.read(partial(rows.find_last_move, tenant_name=tenant_name))
    return placed, last if last and last.state == "settled" else None


def find_incomplete(directory: Directory, move: Move) -> Cell | None:
    """Return the source of a move if it has not completed the move."""
    source = next((cell for cell in directory.cells if cell.name == move.source), None)
    if source is None:  # it was removed, which only happens after complete moves
        return None
    with directory.open(source) as database:
        return source if database.read(partial(move_steps.get_state, move_id=move.id)) in ("fenced", "departed") else None


@contextmanager
def open_route(directory: Directory, source: Cell, target: Cell, report: Report, sign: Sign) -> Iterator[Route]:
    with directory.open(source) as leave, directory.open(target) as arrive:
        yield Route(CellAccess(source, leave), CellAccess(target, arrive), directory.database, directory.settings, report, sign)
