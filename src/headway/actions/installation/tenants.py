"""Tenants: created, listed, exported and removed with all that they own."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from headway.actions.access import audit, local_tenant, quotas, spending, tokens
from headway.actions.access.tokens import NewToken
from headway.cells import redirects
from headway.cells import rows as cell_store
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, NameTaken, NotFound, TenantMoving
from headway.ledger.events import to_json
from headway.ledger.money import to_dollars
from headway.ledger.tenancy import LOCAL_TENANT, Tenant, Token
from headway.storage.stores import audit as audit_store
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import retention as retention_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.stores.retention import OWNERS_PER_QUERY, Batch
from headway.storage.stores.spending import TenantUsage
from headway.storage.transaction import Row, Transaction

CURSORS: Final = CursorCodec("tenants", (0,))
FIRST_TOKEN: Final = "first token"  # noqa: S105  a label


def add_tenant(tx: Transaction, name: str) -> Tenant:
    name = text.check_name(name, "tenant name")
    tenant = tenant_store.insert_tenant(tx, name)
    if tenant is None:
        raise NameTaken(f"A tenant named {name!r} already exists.")
    audit.record_in_audit(tx, audit.INSTALLATION, "tenant.add", f"tenant:{tenant.id}", new={"name": name})
    return tenant


def add_with_token(tx: Transaction, caller: Token, name: str) -> tuple[Tenant, NewToken]:
    """Create a tenant with a token for its administrator, which cannot outlive the caller's. Afterwards the caller's tenant is
    entered."""
    tokens.lock(tx, caller)
    if cell_store.list_cells(tx):
        raise Conflict(
            "With cells, `headway admin tenant add` creates tenants: it reserves the name in all of them. Nothing was created."
        )
    tenant = add_tenant(tx, name)
    created = tokens.insert_new_token(tx, tenant.id, FIRST_TOKEN, tokens.list_scopes("admin"), caller.expires_at)
    tx.enter_tenant(caller.tenant_id)
    return tenant, created


def get_by_name(tx: Transaction, name: str) -> Tenant:
    """Return a tenant, or raise NotFound, or WrongCell if the tenant is known to be in another cell."""
    tenant = tenant_store.find_by_name(tx, text.check_text(name, "tenant name"))
    if tenant is None:
        redirects.check_tenant_is_here(tx, name)
        raise NotFound(f"No tenant named {name[:80]!r}. `headway admin tenant list` shows all tenants.")
    return tenant


def get_tenant(tx: Transaction, tenant_id: int) -> Tenant:
    tenant = tenant_store.find_tenant(tx, tenant_id)
    if tenant is None:
        raise NotFound(f"No tenant {tenant_id}.")
    return tenant


def list_tenants(tx: Transaction, budget: int, limit: int, cursor: str | None = None) -> dict[str, Any]:
    """List a page of all tenants with what each uses, oldest first. Only those who run the installation may see it."""
    (after,) = CURSORS.decode(cursor)
    tx.enter_all_tenants()
    rows = spending_store.list_tenants(tx, after, limit + 1)
    return {
        "tenants": [describe_tenant(tx, row, budget) for row in rows[:limit]],
        "quotas": quotas.describe_quotas(tx),
        "next_cursor": CURSORS.encode_next(rows, limit, lambda row: (row.tenant.id,)),
    }


def describe_tenant(tx: Transaction, row: TenantUsage, budget: int) -> dict[str, Any]:
    pool = spending.roll_window(tx, row.tenant.id, row.pool)
    return {
        **row.tenant.as_json(),
        "tokens": row.tokens,
        "usage": {"turns": row.turns, "jobs": row.jobs, "storage": row.storage, "webhooks": row.webhooks},
        "spent_usd": to_dollars(pool.spent),
        "limit_usd": to_dollars(spending.get_limit(pool, budget)),
    }


def resolve(tx: Transaction, name: str) -> Tenant:
    """Return the tenant with this name. The local tenant is created on demand."""
    return local_tenant.ensure_local(tx) if name == LOCAL_TENANT else get_by_name(tx, name)


def remove_tenant(tx: Transaction, name: str) -> list[tuple[str, int]]:
    """Delete the tenant and its rows. Returns (UUID, id) of its conversations, whose files are deleted after the commit."""
    tenant = get_by_name(tx, name)
    files = conversation_store.file_names(tx, tenant.id)
    tenant_store.delete_tenant(tx, tenant.id)
    audit_store.delete_tenant(tx, tenant.id)
    audit.record_in_audit(tx, audit.INSTALLATION, "tenant.remove", f"tenant:{tenant.id}", old={"name": tenant.name})
    return files


# Deletes a tenant whole. First all access to it ends, then its files are deleted, then its rows in small steps, and at
# last its own row. If that is interrupted, the tenant is still listed, and the same command continues.


def shut_out(tx: Transaction, tenant: Tenant) -> int:
    """Revoke all access and stop all work of the tenant. Returns how many jobs were running; their processes stop them shortly.
    Raises TenantMoving if its move to another cell has begun."""
    if cell_store.find_unfinished(tx, tenant.id):
        raise TenantMoving
    return retention_store.stop_work(tx, tenant.id)


class FileOwners(NamedTuple):
    """The ids by which the tenant's files are named."""

    conversations: list[tuple[str, int]]  # (UUID, id), of the task files
    repositories: list[str]  # of its runs, with an absolute path if they are outside the workspace


def find_file_owners(tx: Transaction, tenant: Tenant) -> FileOwners:
    return FileOwners(conversation_store.file_names(tx, tenant.id), retention_store.list_repositories(tx, tenant.id))


def remove_part(tx: Transaction, tenant: Tenant) -> bool:
    """Delete a part of the tenant's rows. Returns whether the tenant is gone."""
    batch = Batch()
    for run_id in retention_store.list_unpruned_runs(tx, tenant.id, OWNERS_PER_QUERY):
        if not retention_store.delete_transcript(tx, tenant.id, run_id, batch):
            return False
    for conversation_id in retention_store.list_ids(tx, "conversations", tenant.id, OWNERS_PER_QUERY):
        if not retention_store.delete_conversation_parts(tx, tenant.id, conversation_id, batch):
            return False
        retention_store.delete_conversation(tx, tenant.id, conversation_id)
    for goal_id in retention_store.list_ids(tx, "goals", tenant.id, OWNERS_PER_QUERY):
        if not retention_store.delete_goal_parts(tx, tenant.id, goal_id, batch):
            return False
        retention_store.delete_goal(tx, tenant.id, goal_id)
    delete_rest = (retention_store.delete_events, retention_store.delete_todos, retention_store.delete_files)
    if not all(delete(tx, tenant.id, batch) for delete in delete_rest):
        return False
    if batch.deleted:
        return False  # there may be more than were listed
    remove_tenant(tx, tenant.name)
    return True


# Exports a tenant: all its rows, one JSON object per line, from one snapshot of the database.


FORMAT: Final = 1
# Not exported: what only serves to be let in or to sign, and answers that are kept for a day in case a request is repeated.
SECRET_COLUMNS: Final = {"tokens": ("hash",), "webhooks": ("secrets",)}
LEFT_OUT: Final = ("idempotency_keys", "tokens.hash", "webhooks.secrets")
SKIPPED_TABLES: Final = ("idempotency_keys",)


class LineArchive(Protocol):
    def add_lines(self, name: str, lines: Iterator[bytes]) -> None: ...


def write_rows(
    tx: Transaction, tenant_id: int, archive: LineArchive, report: Callable[[str, int], None]
) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """Write a file per table. Returns the number of rows by table, and (UUID, id) of the conversations, which name their files."""
    counts: dict[str, int] = {}
    for table, columns in retention_store.list_tables(tx).items():
        if table in SKIPPED_TABLES:
            continue
        shown = [column for column in columns if column not in SECRET_COLUMNS.get(table, ())]
        counts[table] = 0

        def encode_rows(table: str = table, shown: list[str] = shown) -> Iterator[bytes]:
            for row in retention_store.stream_rows(tx, table, shown, tenant_id):
                counts[table] += 1
                yield encode_row(shown, row)

        archive.add_lines(f"rows/{table}.jsonl", encode_rows())
        report(table, counts[table])
    return counts, conversation_store.file_names(tx, tenant_id)


def encode_row(columns: list[str], row: Row) -> bytes:
    return to_json(dict(zip(columns, map(encode_value, row), strict=True))).encode() + b"\n"


def encode_value(value: Any) -> Any:
    """Bytes, which JSON does not have, become {"base64": …}."""
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes | bytearray | memoryview) else value
