"""Rows of cells, of tenants' places in them, and of tenants that move."""

from typing import Final

from headway.cells.rules import TENANT_IDS_PER_CELL, Cell, Move, MoveState
from headway.ledger.job import NEVER
from headway.storage.columns import Column, Columns
from headway.storage.stores.jobs import to_steady_time
from headway.storage.stores.tenants import ACTIVE
from headway.storage.transaction import Transaction

CELLS = Columns(Cell, is_self=Column(decode=bool))
MOVES = Columns(Move)
SELECT_CELL = f"SELECT {CELLS.selected} FROM cells"
SELECT_MOVE = f"SELECT {MOVES.selected} FROM moves"


def list_cells(tx: Transaction) -> list[Cell]:
    return CELLS.all(tx, f"{SELECT_CELL} ORDER BY name")


def find_cell(tx: Transaction, name: str) -> Cell | None:
    return CELLS.one(tx, f"{SELECT_CELL} WHERE name = ?", name)


def find_self(tx: Transaction) -> Cell | None:
    """Return the cell that this database is, or None if it is not a cell."""
    return CELLS.one(tx, f"{SELECT_CELL} WHERE is_self = 1")


def put_cell(tx: Transaction, cell: Cell) -> None:
    """Insert a cell, or replace what is known about it."""
    tx.run(
        f"""INSERT INTO cells ({CELLS.stored}) VALUES ({CELLS.marks})
            ON CONFLICT (name) DO UPDATE SET url = excluded.url, public_url = excluded.public_url, home = excluded.home""",
        *cell,
    )


def mark_self(tx: Transaction, name: str) -> None:
    """Note that this database is the cell."""
    tx.run("UPDATE cells SET is_self = 1 WHERE name = ?", name)


def lock_cell(tx: Transaction, name: str) -> bool:
    """Lock a cell until the end of the transaction, so that it is not removed while a tenant is placed on it. Returns whether it
    exists."""
    return tx.one(f"SELECT name FROM cells WHERE name = ?{tx.dialect.for_update}", name) is not None


def lock_cells(tx: Transaction) -> None:
    """Let no other transaction change the cells until this one has ended. They are locked when this returns, on Postgres."""
    tx.run("LOCK TABLE cells IN SHARE ROW EXCLUSIVE MODE")
    tx.one("SELECT 1")  # statements without rows may run later, together with this one


def delete_cell(tx: Transaction, name: str) -> None:
    tx.run("DELETE FROM cells WHERE name = ?", name)


def delete_all_cells(tx: Transaction) -> None:
    tx.run("DELETE FROM cells")


# Numbers of cells, on Postgres. Each stands for a part of the ids of tenants, so none is used again, even if its cell is removed.


def take_number(tx: Transaction) -> int:
    """Take the next number. The cell that has tenants already gets 0, which this function does not return."""
    sql = """INSERT INTO id_blocks (kind, block, next, taken)
             SELECT 'cells', COALESCE(MAX(block), 0) + 1, 0, 1 FROM id_blocks WHERE kind = 'cells'
             ON CONFLICT DO NOTHING RETURNING block"""
    while (row := tx.one(sql)) is None:  # another transaction took it
        pass
    return int(row[0])


def reserve_number(tx: Transaction, number: int) -> bool:
    """Take this number. Returns False if it was taken before."""
    sql = "INSERT INTO id_blocks (kind, block, next, taken) VALUES ('cells', ?, 0, 1) ON CONFLICT DO NOTHING RETURNING block"
    return tx.one(sql, number) is not None


def list_tenant_numbers(tx: Transaction) -> list[int]:
    """List the numbers of the cells in which the tenants of this database were created."""
    rows = tx.all("SELECT DISTINCT id / ? FROM tenants ORDER BY 1", TENANT_IDS_PER_CELL)
    return [int(number) for (number,) in rows]


def lock_tenants(tx: Transaction) -> None:
    """Let no other transaction create a tenant until this one has ended."""
    tx.run("LOCK TABLE tenants IN SHARE ROW EXCLUSIVE MODE")


def set_next_tenant_id(tx: Transaction, tenant_id: int) -> None:
    tx.one("SELECT setval(pg_get_serial_sequence('tenants', 'id'), ?, false)", tenant_id)


# Where tenants are


def find_placement(tx: Transaction, tenant_name: str) -> str | None:
    row = tx.one("SELECT cell FROM placements WHERE tenant_name = ?", tenant_name)
    return str(row[0]) if row else None


def insert_placement(tx: Transaction, tenant_name: str, cell: str) -> bool:
    """Reserve a tenant's name. Returns False if it is taken."""
    sql = "INSERT INTO placements (tenant_name, cell, placed_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING cell"
    return tx.one(sql, tenant_name, cell, tx.now) is not None


def put_placement(tx: Transaction, tenant_name: str, cell: str) -> None:
    """Store where a tenant is. The row is locked when this returns."""
    tx.one(
        """INSERT INTO placements (tenant_name, cell, placed_at) VALUES (?, ?, ?)
           ON CONFLICT (tenant_name) DO UPDATE SET cell = excluded.cell, placed_at = excluded.placed_at RETURNING cell""",
        tenant_name,
        cell,
        tx.now,
    )


def delete_placement(tx: Transaction, tenant_name: str) -> None:
    tx.run("DELETE FROM placements WHERE tenant_name = ?", tenant_name)


def delete_placements(tx: Transaction, cell: str) -> None:
    tx.run("DELETE FROM placements WHERE cell = ?", cell)


def list_placements(tx: Transaction, cell: str | None = None) -> list[tuple[str, str]]:
    """List (tenant's name, cell), of one cell or of all."""
    condition, parameters = ("WHERE cell = ?", (cell,)) if cell else ("", ())
    rows = tx.all(f"SELECT tenant_name, cell FROM placements {condition} ORDER BY cell, tenant_name", *parameters)
    return [(str(name), str(cell)) for name, cell in rows]


# Moves


def find_move(tx: Transaction, move_id: str) -> Move | None:
    return MOVES.one(tx, f"{SELECT_MOVE} WHERE id = ?", move_id)


def find_last_move(tx: Transaction, tenant_name: str) -> Move | None:
    """Return the last move of a tenant that this database has taken part in. `updated_at` is by the clock of this database."""
    return MOVES.one(tx, f"{SELECT_MOVE} WHERE tenant_name = ? ORDER BY updated_at DESC LIMIT 1", tenant_name)


def insert_move(tx: Transaction, move: Move) -> bool:
    """Insert a move. Returns False if there is one with this id. Waits for a transaction that is about to insert it."""
    sql = f"INSERT INTO moves ({MOVES.stored}) VALUES ({MOVES.marks}) ON CONFLICT DO NOTHING RETURNING id"
    return tx.one(sql, *move) is not None


def list_open_moves(tx: Transaction) -> list[Move]:
    """List the moves out of this database that are neither completed nor undone."""
    return MOVES.all(tx, f"{SELECT_MOVE} WHERE state IN ('fenced', 'departed') ORDER BY started_at, id")


def set_move_state(tx: Transaction, move_id: str, state: MoveState) -> None:
    tx.run("UPDATE moves SET state = ?, updated_at = ? WHERE id = ?", state, tx.now, move_id)


def find_departed(tx: Transaction, digest: str) -> str | None:
    """Return the cell to which the tenant of a token has moved."""
    row = tx.one("SELECT cell FROM departed_tokens WHERE hash = ?", digest)
    return str(row[0]) if row else None


# SQL for moving a tenant: its jobs and schedules are parked, its tokens are noted, its rows are deleted. Only for
# Postgres.


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


def settle_move(tx: Transaction, move_id: str) -> None:
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
    """Make the waiting jobs due never, and take the running ones from their processes. Their states are stored. Without
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


def lock_placement(tx: Transaction, tenant_name: str) -> str | None:
    """Return where a tenant is, which cannot change before this transaction ends."""
    row = tx.one("SELECT cell FROM placements WHERE tenant_name = ? FOR UPDATE", tenant_name)
    return str(row[0]) if row else None


# The rest in the source, and rows that the target forgets


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
