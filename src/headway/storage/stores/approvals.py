"""SQL for the approvals of tool calls."""

from headway.ledger.permission import Approval, ApprovalState
from headway.storage import id_ranges
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

APPROVALS = Columns(
    Approval,
    fixed=(
        *("id", "tenant_id", "conversation_id", "turn_id", "run_id", "goal_id", "n", "place", "call_id", "role", "tool", "why"),
        *("created_at", "expires_at"),
    ),
)
SELECT = f"SELECT {APPROVALS.selected} FROM approvals"
UPDATE = f"UPDATE approvals SET {APPROVALS.assignments} WHERE tenant_id = ? AND id = ?"


def insert(tx: Transaction, approval: Approval) -> Approval:
    return id_ranges.insert(tx, approval.tenant_id, "approvals", APPROVALS, approval)


def find(tx: Transaction, tenant_id: int, approval_id: int) -> Approval | None:
    return APPROVALS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, approval_id)


def find_by_call(tx: Transaction, tenant_id: int, run_id: str, n: int, place: int) -> Approval | None:
    """Return the approval of one call of a run."""
    sql = f"{SELECT} WHERE tenant_id = ? AND run_id = ? AND n = ? AND place = ?"
    return APPROVALS.one(tx, sql, tenant_id, run_id, n, place)


def list_open_of_run(tx: Transaction, tenant_id: int, run_id: str) -> list[Approval]:
    sql = f"{SELECT} WHERE tenant_id = ? AND run_id = ? AND state = 'proposed' ORDER BY id"
    return APPROVALS.all(tx, sql, tenant_id, run_id)


def list_of_answer(tx: Transaction, tenant_id: int, run_id: str, n: int) -> list[Approval]:
    """List the approvals of the calls that one answer of a model requested."""
    sql = f"{SELECT} WHERE tenant_id = ? AND run_id = ? AND n = ? ORDER BY place"
    return APPROVALS.all(tx, sql, tenant_id, run_id, n)


def list_page(tx: Transaction, tenant_id: int, state: ApprovalState | None, limit: int, before: int) -> list[Approval]:
    """List approvals, newest first, with an id below `before`."""
    condition, values = ("AND state = ?", (state,)) if state else ("", ())
    sql = f"{SELECT} WHERE tenant_id = ? {condition} AND id < ? ORDER BY id DESC LIMIT ?"
    return APPROVALS.all(tx, sql, tenant_id, *values, before, limit)


def save(tx: Transaction, approval: Approval) -> None:
    tx.run(UPDATE, *APPROVALS.dump_changed(approval), approval.tenant_id, approval.id)
