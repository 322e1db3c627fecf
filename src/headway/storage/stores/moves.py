"""SQL for moving a tenant: its jobs and schedules are parked, its tokens are noted, its rows are deleted. Only for Postgres."""

from typing import Final

from headway.ledger.cells import Move, MoveState
from headway.ledger.job import NEVER
from headway.storage.stores.cells import MOVES, SELECT_MOVE
from headway.storage.stores.jobs import to_steady_time
from headway.storage.stores.tenants import ACTIVE
from headway.storage.transaction import Transaction

PARKED_TIME: Final = NEVER + 1  # when a parked job is due; nothing else has this time
PARKED_SCHEDULE: Final = 2  # the value of `paused` of a parked schedule
IS_UNFINISHED: Final = "state IN ('fenced', 'departed')"
# An outside call of a run is an effect; that of a job which calls one tool is noted in its result.
HAS_CALL: Final = """(jobs.result = '"begun"' OR EXISTS (SELECT 1 FROM effects WHERE effects.tenant_id = jobs.tenant_id
    AND effects.run_id = jobs.id AND effects.state = 'started'))"""


def find_unfinished(tx: Transaction, tenant_id: int) -> Move | None:
    """Return the move of a tenant out of this database that has begun and is not over."""
    return MOVES.one(tx, f"{SELECT_MOVE} WHERE tenant = ? AND {IS_UNFINISHED} LIMIT 1", tenant_id)


def find_unfinished_by_name(tx: Transaction, tenant_name: str) -> Move | None:
    return MOVES.one(tx, f"{SELECT_MOVE} WHERE tenant_name = ? AND {IS_UNFINISHED} LIMIT 1", tenant_name)


def list_unsettled(tx: Transaction, tenant_name: str) -> list[Move]:
    """List the moves of a tenant to this database of which it is not known whether the source has completed them."""
    return MOVES.all(tx, f"{SELECT_MOVE} WHERE tenant_name = ? AND state = 'arrived' ORDER BY id", tenant_name)


def settle(tx: Transaction, move_id: str) -> None:
    """Note that the source has completed a move. `updated_at` stays the time of the arrival."""
    tx.run("UPDATE moves SET state = 'settled' WHERE id = ? AND state = 'arrived'", move_id)


def limit_lock_waits(tx: Transaction, wait_ms: int) -> None:
    """Let the rest of the transaction fail with DatabaseBusy if it waits longer for a lock."""
    tx.run("SELECT set_config('lock_timeout', ?, true)", str(wait_ms))


def lock_tenant(tx: Transaction, tenant_id: int) -> bool:
    """Lock the tenant's row, so that one move begins at a time. Returns whether there is one."""
    return tx.one("SELECT 1 FROM tenants WHERE id = ? FOR UPDATE", tenant_id) is not None


def lock_state(tx: Transaction, move_id: str) -> MoveState | None:
    """Return the state of a move, which cannot change before this transaction ends."""
    row = tx.one("SELECT state FROM moves WHERE id = ? FOR SHARE", move_id)
    return row[0] if row else None


def lock_state_to_change(tx: Transaction, move_id: str) -> MoveState | None:
    """Return the state of a move. Waits for the transactions that rely on it."""
    row = tx.one("SELECT state FROM moves WHERE id = ? FOR UPDATE", move_id)
    return row[0] if row else None


# Jobs and schedules


def lock_jobs(tx: Transaction, tenant_id: int) -> None:
    """Lock the jobs that have not ended. A step of a run locks its job first, so this waits for the steps that are under way."""
    sql = "SELECT 1 FROM jobs WHERE tenant_id = ? AND state IN ('queued', 'delayed', 'running') ORDER BY id FOR NO KEY UPDATE"
    tx.run(sql, tenant_id)


def park_jobs(tx: Transaction, tenant_id: int, *, interrupts: bool) -> None:
    """Make the waiting jobs due never, and take the running ones from their processes. What they were is stored. Without
    `interrupts`, jobs that wait for the end of an outside call keep running."""
    condition = "" if interrupts else f"AND NOT {HAS_CALL}"
    tx.run(
        f"""WITH former AS (
                SELECT id, state, due_at FROM jobs WHERE tenant_id = ?
                AND ((state IN ('queued', 'delayed') AND due_at < ?) OR (state = 'running' {condition})) FOR NO KEY UPDATE),
            changed AS (
                UPDATE jobs SET state = CASE jobs.state WHEN 'running' THEN 'queued' ELSE jobs.state END, owner = '', due_at = ?
                FROM former WHERE jobs.tenant_id = ? AND jobs.id = former.id RETURNING former.id, former.state, former.due_at)
            INSERT INTO parked (tenant, kind, id, state, due_at) SELECT ?, 'job', id, state, due_at FROM changed
            ON CONFLICT (tenant, kind, id) DO UPDATE SET state = excluded.state, due_at = excluded.due_at""",
        tenant_id,
        NEVER,
        PARKED_TIME,
        tenant_id,
        tenant_id,
    )


def count_running(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM jobs WHERE tenant_id = ? AND state = 'running'", tenant_id)
    return int(row[0]) if row else 0


def lock_schedules(tx: Transaction, tenant_id: int) -> None:
    tx.run("SELECT 1 FROM schedules WHERE tenant_id = ? AND paused = 0 ORDER BY id FOR NO KEY UPDATE", tenant_id)


def park_schedules(tx: Transaction, tenant_id: int) -> None:
    tx.run("UPDATE schedules SET paused = ? WHERE tenant_id = ? AND paused = 0", PARKED_SCHEDULE, tenant_id)


def restore(tx: Transaction, tenant_id: int) -> None:
    """Let the parked jobs and schedules continue. Jobs that were running are due now."""
    tx.run(
        """UPDATE jobs SET state = CASE parked.state WHEN 'running' THEN 'queued' ELSE parked.state END,
               due_at = CASE parked.state WHEN 'running' THEN ? ELSE parked.due_at END, announce_at = 0
           FROM parked WHERE parked.tenant = ? AND parked.kind = 'job' AND parked.id = jobs.id
           AND jobs.tenant_id = ? AND jobs.due_at = ?""",
        to_steady_time(tx, tx.now),
        tenant_id,
        tenant_id,
        PARKED_TIME,
    )
    tx.run("UPDATE schedules SET paused = 0 WHERE tenant_id = ? AND paused = ?", tenant_id, PARKED_SCHEDULE)
    forget_parked(tx, tenant_id)


def forget_parked(tx: Transaction, tenant_id: int) -> None:
    tx.run("DELETE FROM parked WHERE tenant = ?", tenant_id)


def lock_place(tx: Transaction, tenant_name: str) -> str | None:
    """Return where a tenant is, which cannot change before this transaction ends."""
    row = tx.one("SELECT cell FROM placements WHERE tenant_name = ? FOR UPDATE", tenant_name)
    return str(row[0]) if row else None


# What is left in the source, and what the target forgets


def note_departed_tokens(tx: Transaction, tenant_id: int, cell: str) -> None:
    """Delete the tenant's tokens, and note where the holders of active ones have to go. Others stay strangers."""
    tx.run(
        f"""INSERT INTO departed_tokens (hash, tenant, cell) SELECT hash, ?, ? FROM tokens WHERE tenant_id = ? AND {ACTIVE}
           ON CONFLICT (hash) DO UPDATE SET tenant = excluded.tenant, cell = excluded.cell""",
        tenant_id,
        cell,
        tenant_id,
        tx.now,
    )
    tx.run("DELETE FROM tokens WHERE tenant_id = ?", tenant_id)


def redirect_departed_tokens(tx: Transaction, tenant_id: int, cell: str) -> None:
    """Let a cell that the tenant left long ago send the holders of its tokens to the present one."""
    tx.run("UPDATE departed_tokens SET cell = ? WHERE tenant = ? AND cell <> ?", cell, tenant_id, cell)


def forget_departed_tokens(tx: Transaction, tenant_id: int) -> None:
    tx.run("DELETE FROM departed_tokens WHERE tenant = ?", tenant_id)


def delete_part(tx: Transaction, table: str, tenant_id: int, limit: int) -> int:
    """Delete some of the tenant's rows of a table, and return how many."""
    sql = f'DELETE FROM "{table}" WHERE ctid = ANY (ARRAY(SELECT ctid FROM "{table}" WHERE tenant_id = ? LIMIT ?)) RETURNING 1'
    return len(tx.all(sql, tenant_id, limit))


def has_name_or_id(tx: Transaction, tenant_name: str, tenant_id: int) -> bool:
    """Whether there is a tenant with this name or this id."""
    return tx.one("SELECT 1 FROM tenants WHERE name = ? OR id = ?", tenant_name, tenant_id) is not None


def announce(tx: Transaction, tenant_id: int) -> None:
    """Let all processes look at the tenant's log after the commit. Moves are rare, so the notification may be part of it."""
    tx.run("SELECT pg_notify('headway_events', ?)", str(tenant_id))
