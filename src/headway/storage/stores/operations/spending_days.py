"""SQL for what model calls cost per day, by model, role and goal."""

from collections.abc import Collection
from typing import NamedTuple

from headway.ledger.run import SpendingGroup
from headway.storage.stores.spending import ModelCall, SpendingTotal
from headway.storage.transaction import Query, Transaction

DAY_MS = 24 * 3600 * 1000
SUM_COLUMNS = ("calls", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "cost")
SUMS = ", ".join(f"SUM({name})" for name in SUM_COLUMNS)
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
        f"""SELECT day, {column}, {SUMS} FROM spending_days WHERE tenant_id = ? AND day >= ?
            GROUP BY day, {column} ORDER BY day, {column}""",
        tenant_id,
        first_day,
    )
    return [DayTotal(int(day), SpendingTotal(str(name), *map(int, sums))) for day, name, *sums in rows]


def list_goal_descriptions(tx: Transaction, tenant_id: int, goal_ids: Collection[int]) -> dict[int, str]:
    """Return the descriptions of those of the goals that still exist."""
    if not goal_ids:
        return {}
    marks = ", ".join("?" * len(goal_ids))
    rows = tx.all(f"SELECT id, description FROM goals WHERE tenant_id = ? AND id IN ({marks})", tenant_id, *goal_ids)
    return {int(goal_id): str(description) for goal_id, description in rows}
