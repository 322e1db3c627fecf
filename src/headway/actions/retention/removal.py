"""Deletes a tenant whole. First all access to it ends, then its files are deleted, then its rows in small steps, and at last its
own row. If that is interrupted, the tenant is still listed, and the same command continues."""

from typing import NamedTuple

from headway.actions.access import tenants
from headway.ledger.errors import TenantMoving
from headway.ledger.tenancy import Tenant
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import moves as move_store
from headway.storage.stores import retention as retention_store
from headway.storage.stores import tenant_rows
from headway.storage.stores.retention import OWNERS_PER_QUERY, Batch
from headway.storage.transaction import Transaction


def shut_out(tx: Transaction, tenant: Tenant) -> int:
    """Revoke all access and stop all work of the tenant. Returns how many jobs were running; their processes stop them shortly.
    Raises TenantMoving if its move to another cell has begun."""
    if move_store.find_unfinished(tx, tenant.id):
        raise TenantMoving
    return tenant_rows.stop_work(tx, tenant.id)


class FileOwners(NamedTuple):
    """What names the tenant's files."""

    conversations: list[tuple[str, int]]  # (UUID, id), of the task files
    repositories: list[str]  # of its runs, with an absolute path if they are outside the workspace


def find_file_owners(tx: Transaction, tenant: Tenant) -> FileOwners:
    return FileOwners(conversation_store.file_names(tx, tenant.id), tenant_rows.list_repositories(tx, tenant.id))


def remove_part(tx: Transaction, tenant: Tenant) -> bool:
    """Delete a part of the tenant's rows. Returns whether the tenant is gone."""
    batch = Batch()
    for run_id in tenant_rows.list_unpruned_runs(tx, tenant.id, OWNERS_PER_QUERY):
        if not retention_store.delete_transcript(tx, tenant.id, run_id, batch):
            return False
    for conversation_id in tenant_rows.list_ids(tx, "conversations", tenant.id, OWNERS_PER_QUERY):
        if not retention_store.delete_conversation_parts(tx, tenant.id, conversation_id, batch):
            return False
        retention_store.delete_conversation(tx, tenant.id, conversation_id)
    for goal_id in tenant_rows.list_ids(tx, "goals", tenant.id, OWNERS_PER_QUERY):
        if not retention_store.delete_goal_parts(tx, tenant.id, goal_id, batch):
            return False
        retention_store.delete_goal(tx, tenant.id, goal_id)
    delete_rest = (tenant_rows.delete_events, tenant_rows.delete_todos, tenant_rows.delete_files)
    if not all(delete(tx, tenant.id, batch) for delete in delete_rest):
        return False
    if batch.deleted:
        return False  # there may be more than were listed
    tenants.remove(tx, tenant.name)
    return True
