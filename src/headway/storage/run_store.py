"""Rows of runs: what each agent at work was asked, what it said, and the tools it called."""

from headway.ledger.run import Effect, Run
from headway.storage.transaction import Transaction

COLUMNS = """id, tenant_id, conversation_id, turn_id, parent_run_id, role, task, depth, status, result, iterations,
    iteration_limit, resubmissions, owner, refusals, plan_mark, reserved, cost, created_at, updated_at, ended_at"""
INSERT = f"""INSERT INTO runs ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING RETURNING id"""
GET = f"SELECT {COLUMNS} FROM runs WHERE tenant_id = ? AND id = ?"
UPDATE = """UPDATE runs SET status = ?, result = ?, iterations = ?, iteration_limit = ?, resubmissions = ?, owner = ?,
    refusals = ?, plan_mark = ?, reserved = ?, cost = ?, updated_at = ?, ended_at = ? WHERE tenant_id = ? AND id = ?"""


def insert(tx: Transaction, run: Run) -> bool:
    """Whether it was taken; a conversation that has a running turn takes no second one."""
    return tx.one(INSERT, *run) is not None


def get(tx: Transaction, tenant_id: int, run_id: str) -> Run | None:
    row = tx.one(GET, tenant_id, run_id)
    return Run._make(row) if row else None


def get_locked(tx: Transaction, tenant_id: int, run_id: str) -> Run | None:
    row = tx.one(GET + tx.dialect.for_update, tenant_id, run_id)
    return Run._make(row) if row else None


def of_turn(tx: Transaction, tenant_id: int, turn_id: str) -> Run | None:
    """The run that answers the turn; one that somebody else's loop works on has none."""
    row = tx.one(f"SELECT {COLUMNS} FROM runs WHERE tenant_id = ? AND turn_id = ? AND parent_run_id IS NULL", tenant_id, turn_id)
    return Run._make(row) if row else None


def save(tx: Transaction, run: Run) -> None:
    tx.run(
        UPDATE,
        run.status,
        run.result,
        run.iterations,
        run.limit,
        run.resubmissions,
        run.owner,
        run.refusals,
        run.plan_mark,
        run.reserved,
        run.cost,
        run.updated_at,
        run.ended_at,
        run.tenant_id,
        run.id,
    )


# The transcript


def messages(tx: Transaction, tenant_id: int, run_id: str) -> list[tuple[int, str, bool]]:
    """(number, message, whether it is still sent), in order."""
    rows = tx.all("SELECT n, message, sent FROM transcript WHERE tenant_id = ? AND run_id = ? ORDER BY n", tenant_id, run_id)
    return [(int(n), str(message), bool(sent)) for n, message, sent in rows]


def length(tx: Transaction, tenant_id: int, run_id: str) -> int:
    row = tx.one("SELECT MAX(n) FROM transcript WHERE tenant_id = ? AND run_id = ?", tenant_id, run_id)
    return int(row[0]) + 1 if row and row[0] is not None else 0


def append(tx: Transaction, tenant_id: int, run_id: str, n: int, message: str) -> None:
    tx.run(
        "INSERT INTO transcript (run_id, n, tenant_id, message, at) VALUES (?, ?, ?, ?, ?)", run_id, n, tenant_id, message, tx.now
    )


def withdraw(tx: Transaction, tenant_id: int, run_id: str, n: int) -> None:
    """The message stays in the journal and is not sent any more."""
    tx.run("UPDATE transcript SET sent = 0 WHERE tenant_id = ? AND run_id = ? AND n = ?", tenant_id, run_id, n)


# Effects

EFFECT_COLUMNS = "n, place, call_id, tool, arguments, state, result"


def effects(tx: Transaction, tenant_id: int, run_id: str, n: int) -> dict[int, Effect]:
    """The tool calls of one message that were begun, by their place in it."""
    sql = f"SELECT {EFFECT_COLUMNS} FROM effects WHERE tenant_id = ? AND run_id = ? AND n = ?"
    return {int(row[1]): Effect._make(row) for row in tx.all(sql, tenant_id, run_id, n)}


def put_effect(tx: Transaction, tenant_id: int, run_id: str, effect: Effect) -> None:
    ended_at = 0 if effect.state == "started" else tx.now
    tx.run(
        f"""INSERT INTO effects (run_id, tenant_id, {EFFECT_COLUMNS}, started_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (run_id, n, place) DO UPDATE SET state = excluded.state, result = excluded.result,
            ended_at = excluded.ended_at""",
        run_id,
        tenant_id,
        *effect,
        tx.now,
        ended_at,
    )


# Who drives what. These look across tenants: they belong to the engine room, which no door leads to.


def unfinished(tx: Transaction, not_by: str, alive_since: int) -> list[Run]:
    """Runs under way that nobody drives: handed back, or left by a process that is no more."""
    rows = tx.all(
        f"""SELECT {COLUMNS} FROM runs WHERE ended_at = 0 AND owner <> ? AND NOT EXISTS (
                SELECT 1 FROM worker_leases WHERE executor_id = owner AND beat_at >= ?) ORDER BY created_at, id""",
        not_by,
        alive_since,
    )
    return [Run._make(row) for row in rows]


def take_over(tx: Transaction, run: Run, owner: str) -> bool:
    """Whether it is ours now; of several that try, one is told so."""
    sql = "UPDATE runs SET owner = ?, updated_at = ? WHERE id = ? AND owner = ? AND ended_at = 0 RETURNING id"
    return tx.one(sql, owner, tx.now, run.id, run.owner) is not None


def hand_back(tx: Transaction, owner: str) -> None:
    tx.run("UPDATE runs SET owner = '' WHERE owner = ? AND ended_at = 0", owner)
    tx.run("DELETE FROM worker_leases WHERE executor_id = ?", owner)


def beat(tx: Transaction, owner: str) -> None:
    tx.run(
        """INSERT INTO worker_leases (executor_id, beat_at) VALUES (?, ?)
           ON CONFLICT (executor_id) DO UPDATE SET beat_at = excluded.beat_at""",
        owner,
        tx.now,
    )


def owned(tx: Transaction, owner: str) -> set[str]:
    return {str(row[0]) for row in tx.all("SELECT id FROM runs WHERE owner = ? AND ended_at = 0", owner)}
