"""SQL for the approvals of tool calls."""

from headway.ledger.permission import Approval, ApprovalState
from headway.storage import id_ranges
from headway.storage.transaction import Transaction

COLUMNS = """id, tenant_id, conversation_id, turn_id, run_id, goal_id, n, place, call_id, role, tool, arguments, digest, why, state,
    reason, decided_by, created_at, expires_at, decided_at"""
INSERT = f"INSERT INTO approvals ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def insert(tx: Transaction, approval: Approval) -> Approval:
    numbered = approval._replace(id=id_ranges.take(tx, approval.tenant_id, "approvals"))
    tx.run(INSERT, *numbered)
    return numbered


def find(tx: Transaction, tenant_id: int, approval_id: int) -> Approval | None:
    row = tx.one(f"SELECT {COLUMNS} FROM approvals WHERE tenant_id = ? AND id = ?", tenant_id, approval_id)
    return Approval._make(row) if row else None


def find_by_call(tx: Transaction, tenant_id: int, run_id: str, n: int, place: int) -> Approval | None:
    """Return the approval of one call of a run."""
    sql = f"SELECT {COLUMNS} FROM approvals WHERE tenant_id = ? AND run_id = ? AND n = ? AND place = ?"
    row = tx.one(sql, tenant_id, run_id, n, place)
    return Approval._make(row) if row else None


def list_open_of_run(tx: Transaction, tenant_id: int, run_id: str) -> list[Approval]:
    sql = f"SELECT {COLUMNS} FROM approvals WHERE tenant_id = ? AND run_id = ? AND state = 'proposed' ORDER BY id"
    return [Approval._make(row) for row in tx.all(sql, tenant_id, run_id)]


def list_of_answer(tx: Transaction, tenant_id: int, run_id: str, n: int) -> list[Approval]:
    """List the approvals of the calls that one answer of a model requested."""
    sql = f"SELECT {COLUMNS} FROM approvals WHERE tenant_id = ? AND run_id = ? AND n = ? ORDER BY place"
    return [Approval._make(row) for row in tx.all(sql, tenant_id, run_id, n)]


def list_page(tx: Transaction, tenant_id: int, state: ApprovalState | None, limit: int, before: int) -> list[Approval]:
    """List approvals, newest first, with an id below `before`."""
    condition, values = ("AND state = ?", (state,)) if state else ("", ())
    rows = tx.all(
        f"SELECT {COLUMNS} FROM approvals WHERE tenant_id = ? {condition} AND id < ? ORDER BY id DESC LIMIT ?",
        tenant_id,
        *values,
        before,
        limit,
    )
    return [Approval._make(row) for row in rows]


def save(tx: Transaction, approval: Approval) -> None:
    tx.run(
        """UPDATE approvals SET arguments = ?, digest = ?, state = ?, reason = ?, decided_by = ?, decided_at = ?
           WHERE tenant_id = ? AND id = ?""",
        approval.arguments,
        approval.digest,
        approval.state,
        approval.reason,
        approval.decided_by,
        approval.decided_at,
        approval.tenant_id,
        approval.id,
    )
