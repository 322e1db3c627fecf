"""SQL for the audit log."""

import re

from headway.ledger.tenancy import AuditEntry, AuditFilter
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

ENTRIES = Columns(AuditEntry)
LOCK_NAME = "headway audit"
LIKE_SYMBOL = re.compile(r"[!%_]")


def insert_audit_entry(tx: Transaction, tenant_id: int, who: str, action: str, target: str, old: str, new: str) -> None:
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


def list_newest_audit_entries(
    tx: Transaction, tenant_id: int | None, chosen: AuditFilter, before: int, limit: int, floor: int = 0
) -> list[AuditEntry]:
    """List the entries of a tenant, or of all (None), newest first, with a number below `before` and from `floor` on."""
    span = f"seq >= {floor:d} AND seq < ?" if floor else "seq < ?"
    return select(tx, tenant_id, chosen, span, before, "seq DESC", limit)


def list_after(tx: Transaction, tenant_id: int | None, chosen: AuditFilter, after: int, limit: int) -> list[AuditEntry]:
    """List the entries of a tenant, or of all (None), oldest first, with a number above `after`."""
    return select(tx, tenant_id, chosen, "seq > ?", after, "seq", limit)


def find_floor(tx: Transaction, tenant_id: int | None, before: int, count: int) -> int:
    """Return the number of the last of the `count` entries below `before`, or 0 if there are not as many."""
    owner, values = ("tenant_id = ? AND ", [tenant_id]) if tenant_id is not None else ("", [])
    row = tx.one(f"SELECT seq FROM audit WHERE {owner}seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ?", *values, before, count - 1)
    return int(row[0]) if row else 0


def select(
    tx: Transaction, tenant_id: int | None, chosen: AuditFilter, span: str, seq: int, order: str, limit: int
) -> list[AuditEntry]:
    conditions, values = [span], list[int | str]([seq])
    if tenant_id is not None:
        conditions.append("tenant_id = ?")
        values.append(tenant_id)
    if chosen.since:
        conditions.append("at >= ?")
        values.append(chosen.since)
    if chosen.until:
        conditions.append("at < ?")
        values.append(chosen.until)
    if chosen.who:
        conditions.append("(LOWER(who) LIKE ? ESCAPE '!' OR who LIKE ? ESCAPE '!')")  # SQLite knows no case beyond ASCII
        values += ["%" + LIKE_SYMBOL.sub(r"!\g<0>", part) + "%" for part in (chosen.who.lower(), chosen.who)]
    for column, text, separator in (("action", chosen.action, "."), ("target", chosen.target, ":")):
        if text:
            prefix = f"{text}{separator}"
            conditions.append(f"({column} = ? OR substr({column}, 1, {len(prefix)}) = ?)")
            values += [text, prefix]
    sql = f"SELECT {ENTRIES.selected} FROM audit WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?"
    return ENTRIES.all(tx, sql, *values, limit)


def lock(tx: Transaction) -> None:
    """Let one transaction at a time compare what it records with the last entry. SQLite needs no lock: it has one writer."""
    if tx.dialect.name == "postgresql":
        tx.run("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", LOCK_NAME)


def delete_tenant(tx: Transaction, tenant_id: int) -> None:
    tx.run("DELETE FROM audit WHERE tenant_id = ?", tenant_id)
