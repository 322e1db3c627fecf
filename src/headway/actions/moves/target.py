"""A tenant arrives in this database, in one transaction: with its commit, this database owns the tenant.

A move is stored here as `arrived` or as `canceled`, under its id. Whichever is stored first decides, and the other one waits for a
transaction that is about to store it. So a commit whose result was lost is decided by asking again.
"""

from collections.abc import Callable

from headway.actions.access import audit
from headway.ledger.cells import Move, MoveState
from headway.ledger.errors import Conflict
from headway.ledger.tenancy import Tenant
from headway.storage import id_ranges
from headway.storage.migrate import get_current_version, hold_schema
from headway.storage.postgres import fence
from headway.storage.postgres.copying import ReportTable, copy_rows, patiently
from headway.storage.postgres.transaction import PostgresTransaction
from headway.storage.stores import cells as cell_store
from headway.storage.stores import moves as move_store
from headway.storage.transaction import Transaction


def check_free(tx: Transaction, tenant_name: str, tenant_id: int) -> None:
    """Raise Conflict if the tenant cannot arrive: an earlier move out of this database is not complete, or the name is taken."""
    earlier = move_store.find_unfinished(tx, tenant_id)
    if earlier:
        raise Conflict(
            f"The move of tenant {tenant_name!r} from cell {earlier.source} to {earlier.target} is not complete. Run "
            f"`headway admin tenant move {tenant_name} --to {earlier.target}` first."
        )
    if move_store.has_name_or_id(tx, tenant_name, tenant_id):
        raise Conflict(f"The target has a tenant named {tenant_name!r} or with the id {tenant_id} already. Nothing was changed.")


def has_tenant(tx: Transaction, tenant: Tenant) -> bool:
    return move_store.has_name_or_id(tx, tenant.name, tenant.id)


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
    if not cell_store.insert_move(target, move._replace(state="arrived", updated_at=target.now)):
        stored = cell_store.find_move(target, move.id)
        assert stored is not None
        return stored.state
    own = cell_store.find_self(target)
    if own is None or own.name != move.target:
        raise Conflict(f"The database of cell {move.target} says that it is {own.name if own else 'no cell'}. Nothing was changed.")
    check_source(source, move)
    check_versions(source, target)
    check_free(target, move.tenant_name, move.tenant)
    copy_rows(source, target, move.tenant, report)
    move_store.forget_departed_tokens(target, move.tenant)
    audit.record(
        target,
        move.tenant,
        "tenant.move",
        f"tenant:{move.tenant}",
        {"cell": move.source},
        {"name": move.tenant_name, "cell": move.target},
    )
    id_ranges.adopt(target, move.tenant)  # last, because it locks rows that other tenants need for new ranges
    return "arrived"


def check_source(source: Transaction, move: Move) -> None:
    """Raise Conflict unless the snapshot was taken behind a complete fence. It then contains everything that was ever stored."""
    stored = cell_store.find_move(source, move.id)
    if stored is None or stored.state != "fenced" or fence.list_unfenced(source, move.id):
        state = stored.state if stored else "unknown"
        raise Conflict(f"The move of tenant {move.tenant_name!r} is {state} by now. Nothing was changed.")


def cancel(tx: Transaction, move: Move) -> MoveState:
    """Keep the tenant from arriving. Returns `arrived` if that has happened already."""
    fence.pass_fence(tx, move.id)
    if cell_store.insert_move(tx, move._replace(state="canceled", updated_at=tx.now)):
        return "canceled"
    stored = cell_store.find_move(tx, move.id)
    assert stored is not None
    return stored.state


def settle(tx: Transaction, move: Move) -> None:
    """Note that the source has completed the move, so that it need not be asked again."""
    move_store.settle(tx, move.id)


def list_unsettled(tx: Transaction, tenant_name: str) -> list[Move]:
    return move_store.list_unsettled(tx, tenant_name)


def find_last(tx: Transaction, tenant_name: str) -> Move | None:
    """Return the last move of a tenant that this database has taken part in."""
    return cell_store.find_last_move(tx, tenant_name)


def get_state(tx: Transaction, move_id: str) -> MoveState | None:
    """Return how a move is stored here: arrived, settled, canceled or not at all."""
    stored = cell_store.find_move(tx, move_id)
    return stored.state if stored else None


class Overtaken(Exception):
    """Another process has completed the move, and the tenant may be elsewhere by now."""


def place(tx: Transaction, move: Move, is_due: Callable[[], bool]) -> None:
    """Store in the directory where the tenant is. `is_due` is asked while the row is locked: if it says no, raises Overtaken."""
    cell_store.put_placement(tx, move.tenant_name, move.target)
    if not is_due():
        raise Overtaken


def redirect(tx: Transaction, move: Move, visit: Callable[[], None]) -> None:
    """Run `visit`, which lets other cells know where the tenant is, unless it has moved on. A later move waits for the end."""
    if move_store.lock_place(tx, move.tenant_name) == move.target:
        visit()


def redirect_tokens(tx: Transaction, move: Move) -> None:
    """Let a cell that the tenant left before send the holders of its tokens to the target, rather than from cell to cell."""
    move_store.redirect_departed_tokens(tx, move.tenant, move.target)
