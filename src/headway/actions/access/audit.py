"""The audit log: who changed access, limits or rules, with the old and the new value. It is written in the same transaction as the
change that it records."""

import json
from typing import Any, Final

from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.events import to_json
from headway.ledger.tenancy import AuditEntry, AuditFilter
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import audit as audit_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction

INSTALLATION: Final = 0  # the tenant_id of entries that concern every tenant
HEADWAY: Final = "headway"  # who, if no person or agent caused the change
VALUE_LIMIT: Final = 1_000  # characters of each text in a value
SCAN_LIMIT: Final = 5_000  # entries that one page compares with a filter, so that rare ones cost no more than frequent ones
CURSORS: Final = CursorCodec("audit", (MAX_INTEGER,))  # the number of the entry
ALL: Final = AuditFilter()
POLICY_CHANGE: Final = "policy.change"


def record_in_audit(tx: Transaction, tenant_id: int, action: str, target: str, old: Any = None, new: Any = None) -> None:
    """Record a change. `action` is a noun and a verb, such as `token.revoke`; `target` names what was changed, such as `token:12`.
    Secrets must not be in the values. Long texts in them are shortened."""
    audit_store.insert_audit_entry(
        tx, tenant_id, describe_caller(tx), action, target, to_json(shorten_value(old)), to_json(shorten_value(new))
    )


def describe_caller(tx: Transaction) -> str:
    """Name who makes the change: `ci (token 12)`, `cli (alice)`. A token's label alone proves nothing, because anyone who creates
    a token chooses it."""
    if tx.actor and tx.credential and tx.actor != tx.credential:
        return f"{tx.actor} ({tx.credential})"
    return tx.actor or tx.credential or HEADWAY


def shorten_value(value: Any) -> Any:
    """Shorten long texts, because arguments of tools and descriptions may have a million characters."""
    match value:
        case str():
            return value if len(value) <= VALUE_LIMIT else f"{value[:VALUE_LIMIT]}…"
        case dict():
            return {name: shorten_value(member) for name, member in value.items()}
        case list():
            return [shorten_value(member) for member in value]
        case _:
            return value


def record_policy(tx: Transaction, digest: str, rule_count: int) -> None:
    """Record that policy.toml has another content than the last entry says. Every process that reads the file calls this, so the
    first one records the change."""
    audit_store.lock(tx)
    before = find_policy(tx)
    if before["sha256"] != digest:
        record_in_audit(tx, INSTALLATION, POLICY_CHANGE, "policy", old=before, new={"sha256": digest, "rules": rule_count})


def find_policy(tx: Transaction) -> dict[str, Any]:
    """Return the digest of policy.toml and its number of rules, as last recorded."""
    rows = audit_store.list_newest_audit_entries(tx, INSTALLATION, AuditFilter(POLICY_CHANGE), MAX_INTEGER, 1)
    last: dict[str, Any] = json.loads(rows[0].new) if rows else {"sha256": "", "rules": 0}
    return last


def list_audit_entries(
    tx: Transaction,
    tenant_id: int | None,
    chosen: AuditFilter = ALL,
    limit: int = 50,
    cursor: str | None = None,
    *,
    with_installation: bool = True,
) -> dict[str, Any]:
    """List the entries of a tenant and of the installation, newest first. None stands for every tenant, which only the operator
    of the machine may ask for. The entries of the installation name other tenants, so only the operator may see them. With a
    filter, a page looks at no more than SCAN_LIMIT entries of each. So it may have fewer entries than `limit`, also none, although
    more pages follow."""
    (before,) = CURSORS.decode(cursor)
    chosen = check_filter(chosen)
    owners = list_owners(tenant_id) if with_installation else (tenant_id,)
    floor = 0 if chosen.is_empty else max(audit_store.find_floor(tx, owner, before, SCAN_LIMIT) for owner in owners)
    rows = [row for owner in owners for row in audit_store.list_newest_audit_entries(tx, owner, chosen, before, limit + 1, floor)]
    rows.sort(reverse=True)
    next_cursor = CURSORS.encode_next(rows, limit, lambda entry: (entry.seq,))
    if floor and not next_cursor:
        next_cursor = CURSORS.encode((floor,))
    return {"entries": encode_entries(tx, rows[:limit]), "next_cursor": next_cursor}


def list_newest_audit_entries(tx: Transaction, tenant_id: int | None, chosen: AuditFilter, limit: int) -> dict[str, Any]:
    """List the newest entries like `list_page`, and look as far back as it takes to find `limit` of them."""
    entries: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = list_audit_entries(tx, tenant_id, chosen, limit - len(entries), cursor)
        entries += page["entries"]
        cursor = page["next_cursor"]
        if cursor is None or len(entries) == limit:
            return {"entries": entries, "next_cursor": cursor}


def list_after(tx: Transaction, tenant_id: int | None, chosen: AuditFilter, after: int, limit: int) -> list[dict[str, Any]]:
    """List the same entries oldest first, from the first number above `after` on."""
    chosen = check_filter(chosen)
    rows = [row for owner in list_owners(tenant_id) for row in audit_store.list_after(tx, owner, chosen, after, limit)]
    return encode_entries(tx, sorted(rows)[:limit])


def list_owners(tenant_id: int | None) -> tuple[int | None, ...]:
    """List whose entries are read. Each owner's are read on their own, in the order of the index."""
    return (None,) if tenant_id is None else (tenant_id, INSTALLATION)


def check_filter(chosen: AuditFilter) -> AuditFilter:
    for name in ("action", "who", "target"):
        text.check_text(getattr(chosen, name), name, text.NAME_LIMIT)
    return chosen


def encode_entries(tx: Transaction, rows: list[AuditEntry]) -> list[dict[str, Any]]:
    tenants = {
        tenant_id: tenant_store.find_tenant(tx, tenant_id) for tenant_id in {entry.tenant_id for entry in rows} - {INSTALLATION}
    }
    names = {tenant_id: tenant.name for tenant_id, tenant in tenants.items() if tenant}
    return [entry.as_json(names.get(entry.tenant_id)) for entry in rows]
