"""SQL for schedules."""

import json

from headway.ledger.job import Schedule
from headway.storage import logged_transaction
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

SCHEDULES = Columns(Schedule, fixed=("id", "tenant_id", "name", "cron", "timezone", "every_ms", "work", "created_at"))
SELECT = f"SELECT {SCHEDULES.selected} FROM schedules"
UPDATE = f"UPDATE schedules SET {SCHEDULES.assignments} WHERE tenant_id = ? AND id = ?"
PUT = f"""INSERT INTO schedules ({SCHEDULES.stored}) VALUES ({SCHEDULES.marks})
    ON CONFLICT (tenant_id, name) DO UPDATE SET cron = excluded.cron, timezone = excluded.timezone,
    every_ms = excluded.every_ms, work = excluded.work, next_at = excluded.next_at, updated_at = excluded.updated_at
    RETURNING {SCHEDULES.selected}"""


def put(tx: Transaction, tenant_id: int, name: str, timing: tuple[str, str, int], work: str, next_at: int) -> Schedule:
    """Create the schedule, or replace the timing and work of the existing one. Its history is kept."""
    new = Schedule(
        logged_transaction.take(tx, tenant_id, "schedules"),
        tenant_id,
        name,
        *timing,
        work,
        paused=0,
        next_at=next_at,
        last_at=0,
        last_job="",
        skipped=0,
        created_at=tx.now,
        updated_at=tx.now,
    )
    schedule = SCHEDULES.one(tx, PUT, *new)
    assert schedule is not None
    return schedule


def rename_schedule(tx: Transaction, schedule: Schedule, name: str) -> None:
    sql = "UPDATE schedules SET name = ?, updated_at = ? WHERE tenant_id = ? AND name = ?"
    tx.run(sql, name, tx.now, schedule.tenant_id, schedule.name)


def find_schedule(tx: Transaction, tenant_id: int, name: str) -> Schedule | None:
    return SCHEDULES.one(tx, f"{SELECT} WHERE tenant_id = ? AND name = ?", tenant_id, name)


def find_locked_schedule(tx: Transaction, tenant_id: int, name: str) -> Schedule | None:
    return SCHEDULES.one(tx, f"{SELECT} WHERE tenant_id = ? AND name = ?{tx.dialect.for_update}", tenant_id, name)


def list_schedule_page(tx: Transaction, tenant_id: int, limit: int, after: str = "") -> list[Schedule]:
    """List schedules by name, starting after a given one."""
    return SCHEDULES.all(tx, f"{SELECT} WHERE tenant_id = ? AND name > ? ORDER BY name LIMIT ?", tenant_id, after, limit)


def map_conversations(tx: Transaction, tenant_id: int) -> dict[int, str]:
    """Return the conversations that schedules send messages to or call tools in, each with the name of a schedule."""
    names: dict[int, str] = {}
    for name, work in tx.all("SELECT name, work FROM schedules WHERE tenant_id = ?", tenant_id):
        parts = (part for part in json.loads(work).values() if isinstance(part, dict))
        names |= {part["conversation_id"]: str(name) for part in parts if part.get("conversation_id")}
    return names


def count_schedules(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM schedules WHERE tenant_id = ?", tenant_id)
    return int(row[0]) if row else 0


def save_schedule(tx: Transaction, schedule: Schedule) -> None:
    tx.run(UPDATE, *SCHEDULES.dump_changed(schedule), schedule.tenant_id, schedule.id)


def delete_schedule(tx: Transaction, tenant_id: int, name: str) -> bool:
    return tx.one("DELETE FROM schedules WHERE tenant_id = ? AND name = ? RETURNING id", tenant_id, name) is not None


# For the engine only: these work across all tenants, and no surface calls them.


def find_next_due(tx: Transaction) -> int | None:
    row = tx.one("SELECT MIN(next_at) FROM schedules WHERE paused = 0")
    return int(row[0]) if row and row[0] is not None else None


def lock_updated_after(tx: Transaction, moment: int) -> list[Schedule]:
    return SCHEDULES.all(tx, f"{SELECT} WHERE paused = 0 AND updated_at > ?{tx.dialect.skip_locked}", moment)


def lock_due(tx: Transaction, limit: int) -> list[Schedule]:
    """Lock and return the schedules that are due. Locked rows are skipped, so only one process handles each tick."""
    sql = f"{SELECT} WHERE paused = 0 AND next_at <= ? ORDER BY next_at LIMIT ?{tx.dialect.skip_locked}"
    return SCHEDULES.all(tx, sql, tx.now, limit)
