"""SQL for schedules."""

import json

from headway.ledger.schedule import Schedule
from headway.storage import id_ranges
from headway.storage.transaction import Transaction

COLUMNS = """id, tenant_id, name, cron, timezone, every_ms, work, paused, next_at, last_at, last_job, skipped, created_at,
    updated_at"""


def put(tx: Transaction, tenant_id: int, name: str, timing: tuple[str, str, int], work: str, next_at: int) -> Schedule:
    """Create the schedule, or replace the timing and work of the existing one. Its history is kept."""
    row = tx.one(
        f"""INSERT INTO schedules (id, tenant_id, name, cron, timezone, every_ms, work, next_at, created_at, updated_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (tenant_id, name) DO UPDATE SET cron = excluded.cron, timezone = excluded.timezone,
            every_ms = excluded.every_ms, work = excluded.work, next_at = excluded.next_at, updated_at = excluded.updated_at
            RETURNING {COLUMNS}""",
        id_ranges.take(tx, tenant_id, "schedules"),
        tenant_id,
        name,
        *timing,
        work,
        next_at,
        tx.now,
        tx.now,
    )
    assert row is not None
    return Schedule._make(row)


def rename(tx: Transaction, schedule: Schedule, name: str) -> None:
    sql = "UPDATE schedules SET name = ?, updated_at = ? WHERE tenant_id = ? AND name = ?"
    tx.run(sql, name, tx.now, schedule.tenant_id, schedule.name)


def find(tx: Transaction, tenant_id: int, name: str) -> Schedule | None:
    row = tx.one(f"SELECT {COLUMNS} FROM schedules WHERE tenant_id = ? AND name = ?", tenant_id, name)
    return Schedule._make(row) if row else None


def find_locked(tx: Transaction, tenant_id: int, name: str) -> Schedule | None:
    sql = f"SELECT {COLUMNS} FROM schedules WHERE tenant_id = ? AND name = ?{tx.dialect.for_update}"
    row = tx.one(sql, tenant_id, name)
    return Schedule._make(row) if row else None


def list_page(tx: Transaction, tenant_id: int, limit: int, after: str = "") -> list[Schedule]:
    """List schedules by name, starting after a given one."""
    sql = f"SELECT {COLUMNS} FROM schedules WHERE tenant_id = ? AND name > ? ORDER BY name LIMIT ?"
    rows = tx.all(sql, tenant_id, after, limit)
    return [Schedule._make(row) for row in rows]


def map_conversations(tx: Transaction, tenant_id: int) -> dict[int, str]:
    """Return the conversations that schedules send messages to or call tools in, each with the name of a schedule."""
    names: dict[int, str] = {}
    for name, work in tx.all("SELECT name, work FROM schedules WHERE tenant_id = ?", tenant_id):
        parts = (part for part in json.loads(work).values() if isinstance(part, dict))
        names |= {part["conversation_id"]: str(name) for part in parts if part.get("conversation_id")}
    return names


def count(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM schedules WHERE tenant_id = ?", tenant_id)
    return int(row[0]) if row else 0


def save(tx: Transaction, schedule: Schedule) -> None:
    tx.run(
        """UPDATE schedules SET paused = ?, next_at = ?, last_at = ?, last_job = ?, skipped = ?, updated_at = ?
           WHERE tenant_id = ? AND name = ?""",
        schedule.paused,
        schedule.next_at,
        schedule.last_at,
        schedule.last_job,
        schedule.skipped,
        schedule.updated_at,
        schedule.tenant_id,
        schedule.name,
    )


def delete(tx: Transaction, tenant_id: int, name: str) -> bool:
    return tx.one("DELETE FROM schedules WHERE tenant_id = ? AND name = ? RETURNING id", tenant_id, name) is not None


# For the engine only: these work across all tenants, and no surface calls them.


def find_next_due(tx: Transaction) -> int | None:
    row = tx.one("SELECT MIN(next_at) FROM schedules WHERE paused = 0")
    return int(row[0]) if row and row[0] is not None else None


def lock_updated_after(tx: Transaction, moment: int) -> list[Schedule]:
    rows = tx.all(f"SELECT {COLUMNS} FROM schedules WHERE paused = 0 AND updated_at > ?{tx.dialect.skip_locked}", moment)
    return [Schedule._make(row) for row in rows]


def lock_due(tx: Transaction, limit: int) -> list[Schedule]:
    """Lock and return the schedules that are due. Locked rows are skipped, so only one process handles each tick."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM schedules WHERE paused = 0 AND next_at <= ? ORDER BY next_at LIMIT ?{tx.dialect.skip_locked}",
        tx.now,
        limit,
    )
    return [Schedule._make(row) for row in rows]
