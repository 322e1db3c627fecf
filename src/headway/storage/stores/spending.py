"""Rows of money and usage: what models cost per tenant, run and day, and each tenant's use of shared resources."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from headway.ledger.job import Job
from headway.ledger.run import SpendingGroup
from headway.ledger.tenancy import Tenant
from headway.storage.columns import Column, Columns
from headway.storage.stores.jobs import SELECT, load_job
from headway.storage.stores.tenants import ACTIVE, NOT_DEPARTED, TENANTS
from headway.storage.transaction import Query, Row, Transaction


class Pool(NamedTuple):
    """A tenant's budget pool. It keeps running totals, so that no rows have to be summed: the amount spent since `counted_from` and
    the amount reserved by calls in flight."""

    ceiling: int | None = None  # set for this tenant; by default the operator's applies
    spent: int = 0
    reserved: int = 0
    counted_from: int = 0
    operator_ceiling: int | None = None  # the highest that an administrator may set; by default the installation's


class ModelCall(NamedTuple):
    tier: str
    model: str
    input_tokens: int  # all of them, whether cached or not
    output_tokens: int
    cost: int
    cached_tokens: int = 0  # read from the provider's prompt cache
    cache_write_tokens: int = 0  # written to it


POOLS = Columns(Pool)
CALLS = Columns(ModelCall)
SELECT_POOL = f"SELECT {POOLS.selected} FROM pools WHERE tenant_id = ?"
UPDATE_POOL = f"UPDATE pools SET {POOLS.assignments} WHERE tenant_id = ?"
INSERT_CALL = f"INSERT INTO model_calls (tenant_id, run_id, {CALLS.stored}, at) VALUES (?, ?, {CALLS.marks}, ?)"


def build_insert_call(tx: Transaction, tenant_id: int, run_id: str, call: ModelCall) -> Query:
    return Query(INSERT_CALL, (tenant_id, run_id, *call, tx.now))


def get_pool(tx: Transaction, tenant_id: int) -> Pool:
    return POOLS.one(tx, SELECT_POOL, tenant_id) or Pool()


def lock_pool(tx: Transaction, tenant_id: int) -> Pool:
    """Return the pool, locked so that no other transaction can draw on it before this one ends."""
    query = build_lock_pool(tx, tenant_id)
    row = tx.one(query.sql, *query.parameters)
    if row is None:
        tx.run("INSERT INTO pools (tenant_id) VALUES (?) ON CONFLICT (tenant_id) DO NOTHING", tenant_id)
        row = tx.one(query.sql, *query.parameters)
    return Pool._make(row) if row else Pool()


def build_lock_pool(tx: Transaction, tenant_id: int) -> Query:
    return Query(SELECT_POOL + tx.dialect.for_update, (tenant_id,))


def save_pool(tx: Transaction, tenant_id: int, pool: Pool) -> None:
    query = build_save_pool(tenant_id, pool)
    tx.run(query.sql, *query.parameters)


def build_save_pool(tenant_id: int, pool: Pool) -> Query:
    return Query(UPDATE_POOL, (*pool, tenant_id))


def build_sum_expired(tenant_id: int, end: int) -> Query:
    """Build the query for the cost of the calls before `end` that the pool still counts. It must follow the lock of the pool."""
    sql = """SELECT COALESCE(SUM(cost), 0) FROM model_calls
        WHERE tenant_id = ? AND at >= (SELECT counted_from FROM pools WHERE tenant_id = ?) AND at < ?"""
    return Query(sql, (tenant_id, tenant_id, end))


def sum_cost_between(tx: Transaction, tenant_id: int, start: int, end: int) -> int:
    """Sum the cost of calls from `start` (inclusive) to `end` (exclusive)."""
    row = tx.one("SELECT SUM(cost) FROM model_calls WHERE tenant_id = ? AND at >= ? AND at < ?", tenant_id, start, end)
    return int(row[0]) if row and row[0] is not None else 0


# The calls of a turn's runs. The plus sign keeps SQLite from reading all calls of the tenant through that column's index.
FROM_TURN = """FROM runs JOIN model_calls ON +model_calls.tenant_id = runs.tenant_id AND model_calls.run_id = runs.id
    WHERE runs.tenant_id = ? AND runs.turn_id = ?"""
SUMS = "COUNT(*), SUM(input_tokens), SUM(cached_tokens), SUM(cache_write_tokens), SUM(output_tokens), SUM(model_calls.cost)"


class SpendingTotal(NamedTuple):
    """Totals of a group of model calls."""

    name: str
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0

    def add(self, call: ModelCall) -> "SpendingTotal":
        return SpendingTotal(
            self.name,
            self.calls + 1,
            self.input_tokens + call.input_tokens,
            self.cached_tokens + call.cached_tokens,
            self.cache_write_tokens + call.cache_write_tokens,
            self.output_tokens + call.output_tokens,
            self.cost + call.cost,
        )

    def merge(self, other: "SpendingTotal") -> "SpendingTotal":
        return SpendingTotal(self.name, *(mine + its for mine, its in zip(self[1:], other[1:], strict=True)))


def list_by_model(tx: Transaction, tenant_id: int, since: int) -> list[SpendingTotal]:
    return list_by_column(tx, "model", tenant_id, since, 100)


def list_by_run(tx: Transaction, tenant_id: int, since: int, limit: int) -> list[SpendingTotal]:
    return list_by_column(tx, "run_id", tenant_id, since, limit)


def list_by_column(tx: Transaction, column: str, tenant_id: int, since: int, limit: int) -> list[SpendingTotal]:
    rows = tx.all(
        f"""SELECT {column}, {SUMS} FROM model_calls
            WHERE tenant_id = ? AND at >= ? GROUP BY {column} ORDER BY SUM(cost) DESC, {column} LIMIT ?""",
        tenant_id,
        since,
        limit,
    )
    return load_totals(rows)


def list_spending(tx: Transaction, since: int) -> list[tuple[str, Pool, SpendingTotal]]:
    """List the totals of every tenant by model: the tenant's name, its pool with only the ceilings, and the model's total."""
    rows = tx.all(
        f"""SELECT tenants.name, pools.ceiling, pools.operator_ceiling, model_calls.model, {SUMS}
            FROM tenants JOIN model_calls ON model_calls.tenant_id = tenants.id AND model_calls.at >= ?
            LEFT JOIN pools ON pools.tenant_id = tenants.id
            WHERE {NOT_DEPARTED}
            GROUP BY tenants.name, pools.ceiling, pools.operator_ceiling, model_calls.model ORDER BY 1, 4""",
        since,
    )
    return [
        (str(name), Pool(ceiling, operator_ceiling=operators), SpendingTotal(str(model), *map(int, sums)))
        for name, ceiling, operators, model, *sums in rows
    ]


def build_list_turn(tenant_id: int, turn_id: str) -> Query:
    """Build the query for the totals of the calls of the turn's runs, its sub-agents included: by model, in order of the first
    call of each."""
    sql = f"SELECT model_calls.model, {SUMS} {FROM_TURN} GROUP BY model_calls.model ORDER BY MIN(model_calls.id)"
    return Query(sql, (tenant_id, turn_id))


class GoalRun(NamedTuple):
    """One of a goal's runs, without its texts."""

    id: str
    parent_run_id: str | None
    sub_goal_id: int | None
    role: str
    status: str
    iterations: int
    limit: int
    cost: int
    created_at: int
    updated_at: int
    ended_at: int


GOAL_RUNS = Columns(GoalRun, limit=Column("iteration_limit"))


def list_goal_runs(tx: Transaction, tenant_id: int, goal_id: int, limit: int) -> list[GoalRun]:
    """List the runs of a goal, newest first."""
    sql = f"""SELECT {GOAL_RUNS.selected} FROM runs WHERE tenant_id = ? AND goal_id = ?
        ORDER BY created_at DESC, id DESC LIMIT ?"""
    return GOAL_RUNS.all(tx, sql, tenant_id, goal_id, limit)


def list_by_goal_run(tx: Transaction, tenant_id: int, goal_id: int) -> list[SpendingTotal]:
    """List the totals of the model calls of a goal's runs, by run."""
    sql = f"""SELECT model_calls.run_id, {SUMS}
        FROM runs JOIN model_calls ON +model_calls.tenant_id = runs.tenant_id AND model_calls.run_id = runs.id
        WHERE runs.tenant_id = ? AND runs.goal_id = ? GROUP BY model_calls.run_id"""
    return load_totals(tx.all(sql, tenant_id, goal_id))


def count_goal_runs(tx: Transaction, tenant_id: int, goal_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM runs WHERE tenant_id = ? AND goal_id = ?", tenant_id, goal_id)
    return int(row[0]) if row else 0


def list_by_goal(tx: Transaction, tenant_id: int, goal_ids: Sequence[int]) -> list[SpendingTotal]:
    """List the totals of the model calls of goals, by goal. A goal without calls has none."""
    marks = ", ".join("?" * len(goal_ids)) or "NULL"
    sql = f"""SELECT runs.goal_id, {SUMS}
        FROM runs JOIN model_calls ON +model_calls.tenant_id = runs.tenant_id AND model_calls.run_id = runs.id
        WHERE runs.tenant_id = ? AND runs.goal_id IN ({marks}) GROUP BY runs.goal_id"""
    return load_totals(tx.all(sql, tenant_id, *goal_ids))


def load_totals(rows: list[Row]) -> list[SpendingTotal]:
    return [SpendingTotal(str(name), *(int(number) for number in numbers)) for name, *numbers in rows]


# SQL for what all tenants use, for the operator.


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


def count_all_jobs(tx: Transaction) -> tuple[int, int]:
    """Count the due jobs and the running jobs of all tenants."""
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
    """Return when the job that has waited longest was due, of all tenants; 0 if no job waits."""
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


# SQL for what model calls cost per day, by model, role and goal.


DAY_MS = 24 * 3600 * 1000
SUM_COLUMNS = ("calls", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "cost")
DAY_SUMS = ", ".join(f"SUM({name})" for name in SUM_COLUMNS)
COLUMNS = {"model": "model", "role": "role", "goal": "goal_id"}


class DayTotal(NamedTuple):
    """The calls of one day that belong to a model, a role or a goal. `total.name` says which."""

    day: int  # since 1970-01-01, in UTC
    total: SpendingTotal


def build_add_call(tx: Transaction, tenant_id: int, role: str, goal_id: int | None, call: ModelCall) -> Query:
    """Build the statement that adds a call to today's row."""
    changes = ", ".join(f"{name} = spending_days.{name} + excluded.{name}" for name in SUM_COLUMNS)
    sql = f"""INSERT INTO spending_days (tenant_id, day, model, role, goal_id, {", ".join(SUM_COLUMNS)})
              VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)
              ON CONFLICT (tenant_id, day, model, role, goal_id) DO UPDATE SET {changes}"""
    sums = call.input_tokens, call.cached_tokens, call.cache_write_tokens, call.output_tokens, call.cost
    return Query(sql, (tenant_id, tx.now // DAY_MS, call.model, role, goal_id or 0, *sums))


def list_days(tx: Transaction, tenant_id: int, group: SpendingGroup, first_day: int) -> list[DayTotal]:
    """List the totals per day and model, role or goal, from a day on, oldest first."""
    column = COLUMNS[group]
    rows = tx.all(
        f"""SELECT day, {column}, {DAY_SUMS} FROM spending_days WHERE tenant_id = ? AND day >= ?
            GROUP BY day, {column} ORDER BY day, {column}""",
        tenant_id,
        first_day,
    )
    return [DayTotal(int(day), SpendingTotal(str(name), *map(int, sums))) for day, name, *sums in rows]


def list_goal_descriptions(tx: Transaction, tenant_id: int, goal_ids: Collection[int]) -> dict[int, str]:
    """Return the descriptions of the goals that still exist."""
    if not goal_ids:
        return {}
    marks = ", ".join("?" * len(goal_ids))
    rows = tx.all(f"SELECT id, description FROM goals WHERE tenant_id = ? AND id IN ({marks})", tenant_id, *goal_ids)
    return {int(goal_id): str(description) for goal_id, description in rows}
