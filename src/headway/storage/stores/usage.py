"""What each tenant uses of what all share. Stored bytes are counted in the row that numbers the tenant's events, which every change
updates."""

from headway.storage.transaction import Transaction


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


def count_running_jobs(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM jobs WHERE tenant_id = ? AND state = 'running'", tenant_id)
    return int(row[0]) if row else 0


def count_webhooks(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM webhooks WHERE tenant_id = ?", tenant_id)
    return int(row[0]) if row else 0
