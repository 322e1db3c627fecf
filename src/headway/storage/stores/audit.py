"""SQL for the audit log."""

from headway.storage.transaction import Transaction

COLUMNS = "seq, tenant_id, at, who, action, target, old, new"


def insert(tx: Transaction, tenant_id: int, who: str, action: str, target: str, old: str, new: str) -> None:
    tx.run(
        "INSERT INTO audit (tenant_id, at, who, action, target, old, new) VALUES (?, ?, ?, ?, ?, ?, ?)",
        tenant_id,
        tx.now,
        who,
        action,
        target,
        old,
        new,
    )


def delete_tenant(tx: Transaction, tenant_id: int) -> None:
    tx.run("DELETE FROM audit WHERE tenant_id = ?", tenant_id)
