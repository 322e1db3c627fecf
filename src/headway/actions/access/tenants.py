"""Tenants: isolated customers. All data belongs to exactly one of them."""

from typing import Any, Final

from headway.actions import spending
from headway.actions.access import audit, cells, quotas, tokens
from headway.actions.access.tokens import NewToken
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, NameTaken, NotFound
from headway.ledger.run import to_dollars
from headway.ledger.tenancy import LOCAL_TENANT, Tenant, Token
from headway.storage.stores import audit as audit_store
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.stores import usage as usage_store
from headway.storage.stores.usage import TenantUsage
from headway.storage.transaction import Transaction

CURSORS: Final = CursorCodec("tenants", (0,))
FIRST_TOKEN: Final = "first token"  # noqa: S105  a label


def add(tx: Transaction, name: str) -> Tenant:
    name = text.check_name(name, "tenant name")
    tenant = tenant_store.insert(tx, name)
    if tenant is None:
        raise NameTaken(f"A tenant named {name!r} already exists.")
    audit.record(tx, audit.INSTALLATION, "tenant.add", f"tenant:{tenant.id}", new={"name": name})
    return tenant


def add_with_token(tx: Transaction, caller: Token, name: str) -> tuple[Tenant, NewToken]:
    """Create a tenant with a token for its administrator, which cannot outlive the caller's. Afterwards the caller's tenant is
    entered."""
    tokens.lock(tx, caller)
    if cells.list_all(tx):
        raise Conflict(
            "With cells, `headway admin tenant add` creates tenants: it reserves the name in all of them. Nothing was created."
        )
    tenant = add(tx, name)
    created = tokens.insert(tx, tenant.id, FIRST_TOKEN, tokens.list_scopes("admin"), caller.expires_at)
    tx.enter_tenant(caller.tenant_id)
    return tenant, created


def get_by_name(tx: Transaction, name: str) -> Tenant:
    """Return a tenant, or raise NotFound, or WrongCell if the tenant is known to be in another cell."""
    tenant = tenant_store.find_by_name(tx, text.check_text(name, "tenant name"))
    if tenant is None:
        cells.check_tenant_is_here(tx, name)
        raise NotFound(f"No tenant named {name[:80]!r}. `headway admin tenant list` shows all tenants.")
    return tenant


def get(tx: Transaction, tenant_id: int) -> Tenant:
    tenant = tenant_store.find(tx, tenant_id)
    if tenant is None:
        raise NotFound(f"No tenant {tenant_id}.")
    return tenant


def list_all(tx: Transaction) -> list[Tenant]:
    return tenant_store.list_all(tx)


def list_page(tx: Transaction, budget: int, limit: int, cursor: str | None = None) -> dict[str, Any]:
    """List a page of all tenants with what each uses, oldest first. Only those who run the installation may see it."""
    (after,) = CURSORS.decode(cursor)
    tx.enter_all_tenants()
    rows = usage_store.list_tenants(tx, after, limit + 1)
    return {
        "tenants": [describe(tx, row, budget) for row in rows[:limit]],
        "quotas": quotas.describe_quotas(tx),
        "next_cursor": CURSORS.encode_next(rows, limit, lambda row: (row.tenant.id,)),
    }


def describe(tx: Transaction, row: TenantUsage, budget: int) -> dict[str, Any]:
    pool = spending.roll_window(tx, row.tenant.id, row.pool)
    return {
        **row.tenant.as_json(),
        "tokens": row.tokens,
        "usage": {"turns": row.turns, "jobs": row.jobs, "storage": row.storage, "webhooks": row.webhooks},
        "spent_usd": to_dollars(pool.spent),
        "limit_usd": to_dollars(spending.get_limit(pool, budget)),
    }


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
