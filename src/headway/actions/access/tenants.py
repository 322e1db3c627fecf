"""Tenants: isolated customers. All data belongs to exactly one of them."""

from headway.actions.access import audit, cells
from headway.ledger import text
from headway.ledger.errors import NameTaken, NotFound
from headway.ledger.tenancy import LOCAL_TENANT, Tenant
from headway.storage.stores import audit as audit_store
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction


def add(tx: Transaction, name: str) -> Tenant:
    name = text.check_name(name, "tenant name")
    tenant = tenant_store.insert(tx, name)
    if tenant is None:
        raise NameTaken(f"A tenant named {name!r} already exists.")
    audit.record(tx, audit.INSTALLATION, "tenant.add", f"tenant:{tenant.id}", new={"name": name})
    return tenant


def get_by_name(tx: Transaction, name: str) -> Tenant:
    """Return a tenant, or raise NotFound, or WrongCell if the tenant is known to be in another cell."""
    tenant = tenant_store.find_by_name(tx, text.check_text(name, "tenant name"))
    if tenant is None:
        cells.check_tenant_is_here(tx, name)
        raise NotFound(f"No tenant named {name[:80]!r}. `headway tenant list` shows all tenants.")
    return tenant


def get(tx: Transaction, tenant_id: int) -> Tenant:
    tenant = tenant_store.find(tx, tenant_id)
    if tenant is None:
        raise NotFound(f"No tenant {tenant_id}.")
    return tenant


def list_all(tx: Transaction) -> list[Tenant]:
    return tenant_store.list_all(tx)


def find_local(tx: Transaction) -> Tenant | None:
    """Return the tenant that local commands use, if it exists yet."""
    return tenant_store.find_by_name(tx, LOCAL_TENANT)


def ensure_local(tx: Transaction) -> Tenant:
    return find_local(tx) or tenant_store.insert(tx, LOCAL_TENANT) or get_by_name(tx, LOCAL_TENANT)


def resolve(tx: Transaction, name: str) -> Tenant:
    """Return the tenant with this name. The local tenant is created on demand."""
    return ensure_local(tx) if name == LOCAL_TENANT else get_by_name(tx, name)


def remove(tx: Transaction, name: str) -> list[tuple[str, int]]:
    """Delete the tenant and its rows. Returns (UUID, id) of its conversations, whose files are deleted after the commit."""
    tenant = get_by_name(tx, name)
    files = conversation_store.file_names(tx, tenant.id)
    tenant_store.delete(tx, tenant.id)
    audit_store.delete_tenant(tx, tenant.id)
    audit.record(tx, audit.INSTALLATION, "tenant.remove", f"tenant:{tenant.id}", old={"name": tenant.name})
    return files
