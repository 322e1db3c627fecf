"""The tenant that local commands use."""

from headway.ledger.tenancy import LOCAL_TENANT, Tenant
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction


def find_local(tx: Transaction) -> Tenant | None:
    """Return the tenant that local commands use, if it exists yet."""
    return tenant_store.find_by_name(tx, LOCAL_TENANT)


def ensure_local(tx: Transaction) -> Tenant:
    tenant = find_local(tx) or tenant_store.insert_tenant(tx, LOCAL_TENANT) or find_local(tx)
    assert tenant  # if it could not be inserted, a concurrent transaction has created it
    return tenant
