"""Quotas: limits of a tenant on resources that all tenants share. A tenant over a quota can read, change, cancel and delete, but
it cannot start or add anything."""

from typing import Any

from headway.ledger.errors import QuotaExceeded
from headway.ledger.tenancy import NO_LIMIT, format_size
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction

ADVICE = "Nothing was changed. {} Or ask the operator to raise the quota {} in HEADWAY_QUOTAS."


def check_storage(tx: Transaction, tenant_id: int) -> None:
    """Raise QuotaExceeded if the tenant has stored as much as it may."""
    if is_storage_full(tx, tenant_id):
        stored, quota = tx.process.stored[tenant_id], tx.process.quotas.storage
        advice = ADVICE.format("Delete what is no longer needed.", "storage")
        raise QuotaExceeded(f"This tenant has stored {format_size(stored)}, and its quota is {format_size(quota)}. {advice}")


def is_storage_full(tx: Transaction, tenant_id: int) -> bool:
    """Whether the tenant has stored as much as it may. Usually this takes no statement."""
    quota, stored = tx.process.quotas.storage, tx.process.stored.get(tenant_id)
    if stored is None or stored >= quota:  # unknown to this process, or perhaps reduced by another one
        stored = tx.process.stored[tenant_id] = tenant_store.get_stored_bytes(tx, tenant_id)
    return stored >= quota


def check_turns(tx: Transaction, tenant_id: int) -> None:
    """Raise QuotaExceeded if as many turns of the tenant run or wait as it may have."""
    quota = tx.process.quotas.turns
    if quota < NO_LIMIT and tenant_store.count_open_turns(tx, tenant_id, quota) >= quota:
        advice = ADVICE.format("Wait until one of them ends, or cancel one.", "turns")
        raise QuotaExceeded(f"{quota:,} turns of this tenant have not ended, which is its quota. {advice}")


def describe_usage(tx: Transaction, tenant_id: int) -> dict[str, Any]:
    """Return the tenant's use of each quota that is stored, and the quotas. An unlimited quota is None."""
    return {
        "usage": {
            "turns": tenant_store.count_open_turns(tx, tenant_id, NO_LIMIT),
            "jobs": tenant_store.count_running_jobs(tx, tenant_id),
            "storage": tenant_store.get_stored_bytes(tx, tenant_id),
            "webhooks": tenant_store.count_webhooks(tx, tenant_id),
        },
        "quotas": describe_quotas(tx),
    }


def describe_quotas(tx: Transaction) -> dict[str, int | None]:
    """Return the quotas, which are the same for every tenant. An unlimited one is None."""
    return {name: None if value == NO_LIMIT else value for name, value in tx.process.quotas._asdict().items()}
