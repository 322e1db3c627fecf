"""SQL for what a tenant uses. Stored bytes are counted in the row that numbers the tenant's events, which every change updates."""

from typing import Any, NamedTuple

from headway.ledger.job import Job
from headway.ledger.tenancy import Tenant
from headway.storage.stores.jobs import SELECT, load_job
from headway.storage.stores.spending import POOLS, Pool
from headway.storage.stores.tenants import ACTIVE, NOT_DEPARTED, TENANTS
from headway.storage.transaction import Transaction


class TenantUsage(NamedTuple):
    """A tenant and what it uses now."""

    tenant: Tenant
    tokens: int  # active ones, without browser sessions
    turns: int  # that have not ended
    jobs: int  # that run
    webhooks: int
    storage: int  # bytes
    pool: Pool


def list_tenants(tx: Transaction, after: int, limit: int) -> list[TenantUsage]:
    """List the tenants with an id above `after` and what each uses. Each count is read through an index of its tenant."""
    rows = tx.all(
        f"""SELECT pools.tenant_id, {TENANTS.selected},
                (SELECT COUNT(*) FROM tokens WHERE tokens.tenant_id = tenants.id AND session_of = 0 AND {ACTIVE}),
                (SELECT COUNT(*) FROM runs WHERE runs.tenant_id = tenants.id AND turn_id IS NOT NULL AND parent_run_id IS NULL
                    AND ended_at = 0),
                (SELECT COUNT(*) FROM jobs WHERE jobs.tenant_id = tenants.id AND state = 'running'),
                (SELECT COUNT(*) FROM webhooks WHERE webhooks.tenant_id = tenants.id),
                COALESCE((SELECT bytes FROM id_ranges WHERE id_ranges.tenant_id = tenants.id AND kind = 'events'), 0),
                {POOLS.selected}
            FROM tenants LEFT JOIN pools ON pools.tenant_id = tenants.id
            WHERE tenants.id > ? AND {NOT_DEPARTED} ORDER BY tenants.id LIMIT ?""",
        tx.now,
        after,
        limit,
    )
    return [load_usage(*row) for row in rows]


def load_usage(has_pool: int | None, *row: Any) -> TenantUsage:
    tenant, counts, pool = row[: TENANTS.width], row[TENANTS.width : -POOLS.width], row[-POOLS.width :]
    return TenantUsage._make((TENANTS.load(tenant), *counts, POOLS.load(pool) if has_pool else Pool()))


def get_stored_bytes(tx: Transaction, tenant_id: int) -> int:
    """Return the running count. It is 0 until the first change since Headway counts."""
    row = tx.one("SELECT bytes FROM id_ranges WHERE tenant_id = ? AND kind = 'events'", tenant_id)
    return int(row[0] or 0) if row else 0


def count_open_turns(tx: Transaction, tenant_id: int, limit: int) -> int:
    """Count the turns that have not ended, up to a limit."""
    row = tx.one(
        """SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE tenant_id = ? AND turn_id IS NOT NULL AND parent_run_id IS NULL
           AND ended_at = 0 LIMIT ?) unended""",
        tenant_id,
        limit,
    )
    return int(row[0]) if row else 0


def count_all_jobs(tx: Transaction) -> tuple[int, int]:
    """Count the jobs of all tenants: those that are due, and those that run."""
    due = tx.one("SELECT COUNT(*) FROM jobs WHERE state IN ('queued', 'delayed') AND due_at <= ?", tx.now + tx.drift)
    running = tx.one("SELECT COUNT(*) FROM jobs WHERE state = 'running'")
    assert due is not None
    assert running is not None
    return int(due[0]), int(running[0])


def count_all_dead_jobs(tx: Transaction) -> int:
    """Count the dead jobs of all tenants. The join with tenants lets both databases use the index."""
    row = tx.one("SELECT COUNT(*) FROM tenants JOIN jobs ON jobs.tenant_id = tenants.id AND jobs.state = 'dead'")
    return int(row[0]) if row else 0


def find_oldest_due(tx: Transaction) -> int:
    """Return when the job was due that has waited longest, among those of all tenants. 0: none waits."""
    row = tx.one(
        "SELECT due_at FROM jobs WHERE state IN ('queued', 'delayed') AND due_at <= ? ORDER BY due_at, id LIMIT 1",
        tx.now + tx.drift,
    )
    return int(row[0]) if row else 0


def list_all_dead_jobs(tx: Transaction, limit: int) -> list[tuple[str, Job]]:
    """List the dead jobs of all tenants with their tenants' names, newest first. On Postgres only."""
    rows = tx.all(
        f"""SELECT tenants.name, job.* FROM tenants CROSS JOIN LATERAL (
                {SELECT} WHERE jobs.tenant_id = tenants.id AND state = 'dead'
                ORDER BY created_at DESC, id DESC LIMIT ?) job
            WHERE {NOT_DEPARTED} ORDER BY job.created_at DESC, job.id DESC LIMIT ?""",
        limit,
        limit,
    )
    return [(str(row[0]), load_job(tx, row[1:])) for row in rows]


def count_running_jobs(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM jobs WHERE tenant_id = ? AND state = 'running'", tenant_id)
    return int(row[0]) if row else 0
