"""A tenant leaves this database: the steps of a move in the source, each one transaction that can be repeated.

Every step looks up the state of the move and keeps it from changing until the step is stored. So a process that was suspended in
the middle of a move, and continues when the move was completed or undone by another process, changes nothing.
"""

from typing import Final
from uuid import uuid4

from headway.actions.access import audit
from headway.ledger.cells import Move, MoveState
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.tenancy import LOCAL_TENANT
from headway.storage.postgres import fence
from headway.storage.stores import cells as cell_store
from headway.storage.stores import moves as move_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction

ROWS_PER_PART: Final = 1_000
ACTION: Final = "tenant.move"


def find(tx: Transaction, tenant_name: str) -> Move | None:
    """Return the move of a tenant out of this database that is not over."""
    return move_store.find_unfinished_by_name(tx, tenant_name)


def get_state(tx: Transaction, move_id: str) -> MoveState | None:
    move = cell_store.find_move(tx, move_id)
    return move.state if move else None


def find_missing_right(tx: Transaction) -> str:
    """Return why this connection cannot move tenants, or an empty string if it can."""
    return fence.find_missing_right(tx)


def begin(tx: Transaction, tenant_name: str, target: str) -> Move:
    """Record the move, or return the one that has begun. Nothing is refused yet."""
    own = cell_store.find_self(tx)
    if own is None:
        raise Conflict("This database is not a cell. Add it with `headway admin cell add` first.")
    if tenant_name == LOCAL_TENANT:
        raise Invalid(f"The tenant {LOCAL_TENANT!r} exists in every cell, and cannot be moved.")
    if own.name == target:
        raise Conflict(f"The tenant {tenant_name!r} is in cell {target} already.")
    tenant = tenant_store.find_by_name(tx, tenant_name)
    if tenant is None or not move_store.lock_tenant(tx, tenant.id):
        raise NotFound(f"No tenant named {tenant_name[:80]!r} in cell {own.name}.")
    move = move_store.find_unfinished(tx, tenant.id)
    if move and move.target != target:
        raise Conflict(
            f"The tenant {tenant_name!r} is being moved to cell {move.target}. "
            f"Complete that with `--to {move.target}`, or undo it with `--undo`."
        )
    if move:
        return move
    fence.create_function(tx)
    move = Move(uuid4().hex, tenant.id, tenant.name, own.name, target, "fenced", tx.now, tx.now)
    cell_store.insert_move(tx, move)
    return move


def require_fenced(tx: Transaction, move: Move) -> None:
    """Raise Conflict unless the move is under way. Other processes that carry it out wait for this transaction."""
    state = move_store.lock_state_to_change(tx, move.id)
    if state != "fenced":
        raise Conflict(f"The move of tenant {move.tenant_name!r} is {state} by now. Nothing was changed.")
    fence.pass_fence(tx, move.id)


def drain(tx: Transaction, move: Move) -> int:
    """Let no job start, and stop those that are between two calls. Returns how many wait for the end of an outside call."""
    require_fenced(tx, move)
    move_store.lock_jobs(tx, move.tenant)
    move_store.park_jobs(tx, move.tenant, interrupts=False)
    return move_store.count_running(tx, move.tenant)


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
    move_store.limit_lock_waits(tx, wait_ms)
    if table == "jobs":
        move_store.lock_jobs(tx, move.tenant)
    if table == "schedules":
        move_store.lock_schedules(tx, move.tenant)
    fence.fence_table(tx, move, table)
    if table == "jobs":
        move_store.park_jobs(tx, move.tenant, interrupts=True)
    if table == "schedules":
        move_store.park_schedules(tx, move.tenant)


def depart(tx: Transaction, move: Move) -> None:
    """Send the holders of tokens to the target, which owns the tenant by now, and end the open streams."""
    state = move_store.lock_state_to_change(tx, move.id)
    if state in ("departed", "done"):
        return
    if state != "fenced":
        raise Conflict(f"The move of tenant {move.tenant_name!r} is {state} by now. Nothing was changed.")
    fence.pass_fence(tx, move.id)
    move_store.note_departed_tokens(tx, move.tenant, move.target)
    cell_store.set_move_state(tx, move.id, "departed")
    audit.record(
        tx,
        audit.INSTALLATION,
        ACTION,
        f"tenant:{move.tenant}",
        {"name": move.tenant_name, "cell": move.source},
        {"cell": move.target},
    )
    move_store.announce(tx, move.tenant)


def delete_part(tx: Transaction, move: Move, table: str) -> bool:
    """Delete some of the tenant's rows, which are in the target. Returns whether more may be left."""
    if move_store.lock_state(tx, move.id) != "departed":
        return False  # another process has completed the move
    fence.pass_fence(tx, move.id)
    return move_store.delete_part(tx, table, move.tenant, ROWS_PER_PART) == ROWS_PER_PART


def finish(tx: Transaction, move: Move) -> None:
    """Delete the tenant's own row. The move is over, and the tenant may come back."""
    if move_store.lock_state_to_change(tx, move.id) != "departed":
        return
    fence.pass_fence(tx, move.id)
    tenant_store.delete(tx, move.tenant)
    move_store.forget_parked(tx, move.tenant)
    cell_store.set_move_state(tx, move.id, "done")


def undo(tx: Transaction, move: Move) -> None:
    """Let the tenant continue here, after the move was canceled in the target. With this commit the fence of all tables is open."""
    state = move_store.lock_state_to_change(tx, move.id)
    if state == "undone":
        return
    if state != "fenced":
        raise Conflict(f"The move of tenant {move.tenant_name!r} is {state} by now. Nothing was changed.")
    fence.pass_fence(tx, move.id)
    move_store.restore(tx, move.tenant)
    cell_store.set_move_state(tx, move.id, "undone")
    audit.record(
        tx, audit.INSTALLATION, "tenant.move_undo", f"tenant:{move.tenant}", {"cell": move.target}, {"name": move.tenant_name}
    )
    move_store.announce(tx, move.tenant)


# Triggers of moves that are over


def list_left_triggers(tx: Transaction) -> dict[str, list[str]]:
    return fence.list_left_triggers(tx)


def drop_triggers(tx: Transaction, table: str, triggers: list[str], wait_ms: int) -> None:
    move_store.limit_lock_waits(tx, wait_ms)
    fence.drop_triggers(tx, table, triggers)
