"""The steps of a move, each a transaction in the cell that the tenant leaves or in the one that it enters. `moving` takes them."""

from collections.abc import Callable
from typing import Final
from uuid import uuid4

from headway.actions.access import audit
from headway.cells import rows
from headway.cells.copying import ReportTable, copy_rows, patiently
from headway.cells.rules import Move, MoveState
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.tenancy import LOCAL_TENANT, Tenant
from headway.storage import logged_transaction
from headway.storage.migrate import get_current_version, hold_schema
from headway.storage.postgres import fence
from headway.storage.postgres.transaction import PostgresTransaction
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction

ROWS_PER_PART: Final = 1_000
ACTION: Final = "tenant.move"


def get_state(tx: Transaction, move_id: str) -> MoveState | None:
    move = rows.find_move(tx, move_id)
    return move.state if move else None


def begin_move(tx: Transaction, tenant_name: str, target: str) -> Move:
    """Record the move, or return the one that has begun. Nothing is refused yet."""
    own = rows.find_self(tx)
    if own is None:
        raise Conflict("This database is not a cell. Add it with `headway admin cell add` first.")
    if tenant_name == LOCAL_TENANT:
        raise Invalid(f"The tenant {LOCAL_TENANT!r} exists in every cell, and cannot be moved.")
    if own.name == target:
        raise Conflict(f"The tenant {tenant_name!r} is in cell {target} already.")
    tenant = tenant_store.find_by_name(tx, tenant_name)
    if tenant is None or not rows.lock_tenant(tx, tenant.id):
        raise NotFound(f"No tenant named {tenant_name[:80]!r} in cell {own.name}.")
    move = rows.find_unfinished(tx, tenant.id)
    if move and move.target != target:
        raise Conflict(
            f"The tenant {tenant_name!r} is being moved to cell {move.target}. "
            f"Complete that with `--to {move.target}`, or undo it with `--undo`."
        )
    if move:
        return move
    fence.create_function(tx)
    move = Move(uuid4().hex, tenant.id, tenant.name, own.name, target, "fenced", tx.now, tx.now)
    rows.insert_move(tx, move)
    return move


def require_fenced(tx: Transaction, move: Move) -> None:
    """Raise Conflict unless the move is under way. Other processes that carry it out wait for this transaction."""
    state = rows.lock_state_to_change(tx, move.id)
    if state != "fenced":
        raise Conflict(f"The move of tenant {move.tenant_name!r} is {state} by now. Nothing was changed.")
    fence.pass_fence(tx, move.id)


def drain(tx: Transaction, move: Move) -> int:
    """Let no job start, and stop jobs that are between two calls. Returns how many wait for the end of an outside call."""
    require_fenced(tx, move)
    rows.lock_jobs(tx, move.tenant)
    rows.park_jobs(tx, move.tenant, interrupts=False)
    return rows.count_running(tx, move.tenant)


def list_unfenced(tx: Transaction, move: Move) -> list[str]:
    return fence.list_unfenced(tx, move.id)


def fence_table(tx: Transaction, move: Move, table: str, wait_ms: int) -> None:
    """Refuse changes of a table. Raises DatabaseBusy after `wait_ms`; other writers of the table wait as long.

    Jobs and schedules are parked in the same transaction: a worker that looks for due work of all tenants must never find work of
    this tenant that it cannot change. Their rows are locked first, as a step and a tick do, to prevent deadlocks.
    """
    require_fenced(tx, move)
    if table in fence.list_fenced(tx, move.id):
        return
    rows.limit_lock_waits(tx, wait_ms)
    if table == "jobs":
        rows.lock_jobs(tx, move.tenant)
    if table == "schedules":
        rows.lock_schedules(tx, move.tenant)
    fence.fence_table(tx, move, table)
    if table == "jobs":
        rows.park_jobs(tx, move.tenant, interrupts=True)
    if table == "schedules":
        rows.park_schedules(tx, move.tenant)


def depart(tx: Transaction, move: Move) -> None:
    """Send the holders of tokens to the target, which owns the tenant by now, and end the open streams."""
    state = rows.lock_state_to_change(tx, move.id)
    if state in ("departed", "done"):
        return
    if state != "fenced":
        raise Conflict(f"The move of tenant {move.tenant_name!r} is {state} by now. Nothing was changed.")
    fence.pass_fence(tx, move.id)
    rows.note_departed_tokens(tx, move.tenant, move.target)
    rows.set_move_state(tx, move.id, "departed")
    audit.record_in_audit(
        tx,
        audit.INSTALLATION,
        ACTION,
        f"tenant:{move.tenant}",
        {"name": move.tenant_name, "cell": move.source},
        {"cell": move.target},
    )
    rows.announce(tx, move.tenant)


def delete_part(tx: Transaction, move: Move, table: str) -> bool:
    """Delete some of the tenant's rows, which are in the target. Returns whether more may be left."""
    if rows.lock_state(tx, move.id) != "departed":
        return False  # another process has completed the move
    fence.pass_fence(tx, move.id)
    return rows.delete_part(tx, table, move.tenant, ROWS_PER_PART) == ROWS_PER_PART


def finish(tx: Transaction, move: Move) -> None:
    """Delete the tenant's own row. The move is over, and the tenant may come back."""
    if rows.lock_state_to_change(tx, move.id) != "departed":
        return
    fence.pass_fence(tx, move.id)
    tenant_store.delete_tenant(tx, move.tenant)
    rows.forget_parked(tx, move.tenant)
    rows.set_move_state(tx, move.id, "done")


def undo(tx: Transaction, move: Move) -> None:
    """Let the tenant continue here, after the move was canceled in the target. With this commit the fence of all tables is open."""
    state = rows.lock_state_to_change(tx, move.id)
    if state == "undone":
        return
    if state != "fenced":
        raise Conflict(f"The move of tenant {move.tenant_name!r} is {state} by now. Nothing was changed.")
    fence.pass_fence(tx, move.id)
    rows.restore(tx, move.tenant)
    rows.set_move_state(tx, move.id, "undone")
    audit.record_in_audit(
        tx, audit.INSTALLATION, "tenant.move_undo", f"tenant:{move.tenant}", {"cell": move.target}, {"name": move.tenant_name}
    )
    rows.announce(tx, move.tenant)


# Triggers of moves that are over


def drop_triggers(tx: Transaction, table: str, triggers: list[str], wait_ms: int) -> None:
    rows.limit_lock_waits(tx, wait_ms)
    fence.drop_triggers(tx, table, triggers)


# A tenant arrives in this database, in one transaction: with its commit, this database owns the tenant.


def check_free(tx: Transaction, tenant_name: str, tenant_id: int) -> None:
    """Raise Conflict if the tenant cannot arrive: an earlier move out of this database is not complete, or the name is taken."""
    earlier = rows.find_unfinished(tx, tenant_id)
    if earlier:
        raise Conflict(
            f"The move of tenant {tenant_name!r} from cell {earlier.source} to {earlier.target} is not complete. Run "
            f"`headway admin tenant move {tenant_name} --to {earlier.target}` first."
        )
    if rows.has_name_or_id(tx, tenant_name, tenant_id):
        raise Conflict(f"The target has a tenant named {tenant_name!r} or with the id {tenant_id} already. Nothing was changed.")


def has_tenant(tx: Transaction, tenant: Tenant) -> bool:
    return rows.has_name_or_id(tx, tenant.name, tenant.id)


def check_versions(source: Transaction, target: Transaction) -> None:
    versions = get_current_version(source), get_current_version(target)
    if versions[0] != versions[1]:
        raise Conflict(
            f"The cells have schema versions {versions[0]} and {versions[1]}. Upgrade the processes of both to the same version of "
            "Headway, then run the command again."
        )


def arrive(target: Transaction, source: Transaction, move: Move, report: ReportTable) -> MoveState:
    """Store the tenant here, from one snapshot of the source. Returns how the move is stored in this database."""
    assert isinstance(source, PostgresTransaction)
    assert isinstance(target, PostgresTransaction)
    patiently(target)
    hold_schema(target)
    if not rows.insert_move(target, move._replace(state="arrived", updated_at=target.now)):
        stored = rows.find_move(target, move.id)
        assert stored is not None
        return stored.state
    own = rows.find_self(target)
    if own is None or own.name != move.target:
        raise Conflict(f"The database of cell {move.target} says that it is {own.name if own else 'no cell'}. Nothing was changed.")
    check_source(source, move)
    check_versions(source, target)
    check_free(target, move.tenant_name, move.tenant)
    copy_rows(source, target, move.tenant, report)
    rows.forget_departed_tokens(target, move.tenant)
    audit.record_in_audit(
        target,
        move.tenant,
        "tenant.move",
        f"tenant:{move.tenant}",
        {"cell": move.source},
        {"name": move.tenant_name, "cell": move.target},
    )
    logged_transaction.adopt(target, move.tenant)  # last, because it locks rows that other tenants need for new ranges
    return "arrived"


def check_source(source: Transaction, move: Move) -> None:
    """Raise Conflict unless the snapshot was taken behind a complete fence. It then contains everything that was ever stored."""
    stored = rows.find_move(source, move.id)
    if stored is None or stored.state != "fenced" or fence.list_unfenced(source, move.id):
        state = stored.state if stored else "unknown"
        raise Conflict(f"The move of tenant {move.tenant_name!r} is {state} by now. Nothing was changed.")


def cancel_arrival(tx: Transaction, move: Move) -> MoveState:
    """Keep the tenant from arriving. Returns `arrived` if that has happened already."""
    fence.pass_fence(tx, move.id)
    if rows.insert_move(tx, move._replace(state="canceled", updated_at=tx.now)):
        return "canceled"
    stored = rows.find_move(tx, move.id)
    assert stored is not None
    return stored.state


def settle_arrival(tx: Transaction, move: Move) -> None:
    """Note that the source has completed the move, so that it need not be asked again."""
    rows.settle_move(tx, move.id)


def get_arrival_state(tx: Transaction, move_id: str) -> MoveState | None:
    """Return how a move is stored here: arrived, settled, canceled or not at all."""
    stored = rows.find_move(tx, move_id)
    return stored.state if stored else None


class Overtaken(Exception):
    """Another process has completed the move, and the tenant may be elsewhere by now."""


def record_placement(tx: Transaction, move: Move, is_due: Callable[[], bool]) -> None:
    """Store where the tenant is. Calls `is_due` while holding the row's lock, and raises Overtaken if it returns False."""
    rows.put_placement(tx, move.tenant_name, move.target)
    if not is_due():
        raise Overtaken


def redirect(tx: Transaction, move: Move, visit: Callable[[], None]) -> None:
    """Run `visit`, which lets other cells know where the tenant is, unless it has moved on. A later move waits for the end."""
    if rows.lock_placement(tx, move.tenant_name) == move.target:
        visit()


def redirect_tokens(tx: Transaction, move: Move) -> None:
    """Let a cell that the tenant left before send the holders of its tokens to the target, rather than from cell to cell."""
    rows.redirect_departed_tokens(tx, move.tenant, move.target)
