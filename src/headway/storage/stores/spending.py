"""SQL for model calls and the budget pools that pay for them."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.storage.columns import Column, Columns
from headway.storage.stores.tenants import NOT_DEPARTED
from headway.storage.transaction import Query, Row, Transaction


class Pool(NamedTuple):
    """A tenant's budget pool. It keeps running totals, so that no rows have to be summed: the amount spent since `counted_from` and
    the amount reserved by calls in flight."""

    ceiling: int | None = None  # set for this tenant; None: the operator's applies
    spent: int = 0
    reserved: int = 0
    counted_from: int = 0
    operator_ceiling: int | None = None  # the highest that an administrator may set; None: the installation's default


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


def list_all(tx: Transaction, since: int) -> list[tuple[str, Pool, SpendingTotal]]:
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
