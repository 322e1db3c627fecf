"""SQL for model calls and the budget pools that pay for them."""

from typing import NamedTuple

from headway.storage.transaction import Transaction


class Pool(NamedTuple):
    """A tenant's budget pool. It keeps running totals, so that no rows have to be summed: the amount spent since `counted_from` and
    the amount reserved by calls in flight."""

    ceiling: int | None = None  # set for this tenant; None: the default applies
    spent: int = 0
    reserved: int = 0
    counted_from: int = 0


class ModelCall(NamedTuple):
    tier: str
    model: str
    input_tokens: int
    output_tokens: int
    cost: int


def insert_call(tx: Transaction, tenant_id: int, run_id: str, call: ModelCall) -> None:
    tx.run(
        """INSERT INTO model_calls (tenant_id, run_id, tier, model, input_tokens, output_tokens, cost, at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
        tenant_id,
        run_id,
        *call,
        tx.now,
    )


SELECT_POOL = "SELECT ceiling, spent, reserved, counted_from FROM pools WHERE tenant_id = ?"


def get_pool(tx: Transaction, tenant_id: int) -> Pool:
    row = tx.one(SELECT_POOL, tenant_id)
    return Pool._make(row) if row else Pool()


def lock_pool(tx: Transaction, tenant_id: int) -> Pool:
    """Return the pool, locked so that no other transaction can draw on it before this one ends."""
    row = tx.one(SELECT_POOL + tx.dialect.for_update, tenant_id)
    if row is None:
        tx.run("INSERT INTO pools (tenant_id) VALUES (?) ON CONFLICT (tenant_id) DO NOTHING", tenant_id)
        row = tx.one(SELECT_POOL + tx.dialect.for_update, tenant_id)
    return Pool._make(row) if row else Pool()


def save_pool(tx: Transaction, tenant_id: int, pool: Pool) -> None:
    tx.run("UPDATE pools SET ceiling = ?, spent = ?, reserved = ?, counted_from = ? WHERE tenant_id = ?", *pool, tenant_id)


def sum_cost_between(tx: Transaction, tenant_id: int, start: int, end: int) -> int:
    """Sum the cost of calls from `start` (inclusive) to `end` (exclusive)."""
    row = tx.one("SELECT SUM(cost) FROM model_calls WHERE tenant_id = ? AND at >= ? AND at < ?", tenant_id, start, end)
    return int(row[0]) if row and row[0] is not None else 0


class SpendingTotal(NamedTuple):
    """Totals of a group of model calls."""

    name: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: int


def list_by_model(tx: Transaction, tenant_id: int, since: int) -> list[SpendingTotal]:
    return list_by_column(tx, "model", tenant_id, since, 100)


def list_by_run(tx: Transaction, tenant_id: int, since: int, limit: int) -> list[SpendingTotal]:
    return list_by_column(tx, "run_id", tenant_id, since, limit)


def list_by_column(tx: Transaction, column: str, tenant_id: int, since: int, limit: int) -> list[SpendingTotal]:
    rows = tx.all(
        f"""SELECT {column}, COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cost) FROM model_calls
            WHERE tenant_id = ? AND at >= ? GROUP BY {column} ORDER BY SUM(cost) DESC, {column} LIMIT ?""",
        tenant_id,
        since,
        limit,
    )
    return [SpendingTotal(str(row[0]), *(int(number) for number in row[1:])) for row in rows]
