"""The cost pool that all agents of a tenant draw on, per rolling 24 hours: set aside before a call, settled after it."""

from typing import Any

from headway.ledger.events import Event, encode_json
from headway.ledger.job import NEVER
from headway.ledger.run import Run, to_dollars
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores.spending import ModelCall, Pool
from headway.storage.transaction import Transaction

WINDOW_S = 24 * 3600
RUNS_LIMIT = 100


def reserve(tx: Transaction, run: Run, amount: int, budget: int) -> Run | None:
    """The run with this much set aside for its next call, or nothing if the pool has no room for it.
    What costs nothing needs no room."""
    if amount == run.reserved:
        return run
    pool = roll_window(tx, run.tenant_id, spending_store.lock_pool(tx, run.tenant_id))
    pool = pool._replace(reserved=pool.reserved - run.reserved)
    if amount and pool.spent + pool.reserved + amount > get_limit(pool, budget):
        return None
    spending_store.save_pool(tx, run.tenant_id, pool._replace(reserved=pool.reserved + amount))
    return run._replace(reserved=amount)


def has_room(tx: Transaction, tenant_id: int, budget: int) -> bool:
    """Whether the pool has anything left."""
    pool = roll_window(tx, tenant_id, spending_store.get_pool(tx, tenant_id))
    return pool.spent + pool.reserved < get_limit(pool, budget)


def settle(tx: Transaction, run: Run, call: ModelCall, budget: int) -> Run:
    """Write down what a call came to, and give back what was set aside for it."""
    return book_call(tx, run, call, budget, run.reserved)


def settle_late(tx: Transaction, tenant_id: int, run_id: str, call: ModelCall, budget: int) -> None:
    """A call that came back when its run had ended, or was somebody else's: it is paid for all the same. What was set aside for it
    has been given back, or is for the next call of whoever took the run over."""
    job_store.find_locked(tx, tenant_id, run_id)  # who holds it may move the run, nobody else
    run = run_store.find(tx, tenant_id, run_id)
    if run:
        run_store.save(tx, book_call(tx, run, call, budget, 0))


def book_call(tx: Transaction, run: Run, call: ModelCall, budget: int, given_back: int) -> Run:
    if not call.cost and not given_back:
        spending_store.insert_call(tx, run.tenant_id, run.id, call)
        return run
    pool = roll_window(tx, run.tenant_id, spending_store.lock_pool(tx, run.tenant_id))  # before it is among what is counted
    spending_store.insert_call(tx, run.tenant_id, run.id, call)
    pool = pool._replace(spent=pool.spent + call.cost, reserved=pool.reserved - given_back)
    spending_store.save_pool(tx, run.tenant_id, pool)
    spent = {
        "run_id": run.id,
        "cost_usd": to_dollars(call.cost),
        "spent_usd": to_dollars(pool.spent),
        "limit_usd": to_dollars(get_limit(pool, budget)),
    }
    tx.emit(Event(run.tenant_id, "cost_changed", encode_json(spent), run.conversation_id, run.turn_id))
    return run._replace(reserved=run.reserved - given_back, cost=run.cost + call.cost)


def release(tx: Transaction, run: Run) -> Run:
    """Give back what was set aside for a call that will not be made."""
    return reserve(tx, run, 0, 0) or run


def set_limit(tx: Transaction, tenant_id: int, nanos: int) -> None:
    """A limit of the tenant's own. Runs that wait for money look again at once."""
    pool = spending_store.lock_pool(tx, tenant_id)
    spending_store.save_pool(tx, tenant_id, pool._replace(ceiling=nanos))
    job_store.wake_waiting_runs(tx, tenant_id)


def get_limit(pool: Pool, budget: int) -> int:
    return budget if pool.ceiling is None else pool.ceiling


def roll_window(tx: Transaction, tenant_id: int, pool: Pool) -> Pool:
    """The pool as of now: calls that left the window are taken off, each once."""
    start = tx.now - WINDOW_S * 1000
    if pool.counted_from > tx.now:  # the clock was ahead: what was booked since lies before it, and would never be taken off
        return pool._replace(spent=spending_store.sum_cost_between(tx, tenant_id, start, NEVER), counted_from=start)
    if pool.counted_from >= start:
        return pool
    gone = spending_store.sum_cost_between(tx, tenant_id, pool.counted_from, start)
    return pool._replace(spent=pool.spent - gone, counted_from=start)


def build_costs(tx: Transaction, tenant_id: int, budget: int) -> dict[str, Any]:
    """What was spent, against what may be; by model and by run."""
    since = tx.now - WINDOW_S * 1000
    pool = roll_window(tx, tenant_id, spending_store.get_pool(tx, tenant_id))
    return {
        "spent_usd": to_dollars(pool.spent),
        "limit_usd": to_dollars(get_limit(pool, budget)),
        "window_s": WINDOW_S,
        "by_model": [encode_total("model", one) for one in spending_store.list_by_model(tx, tenant_id, since)],
        "by_run": [encode_total("run_id", one) for one in spending_store.list_by_run(tx, tenant_id, since, RUNS_LIMIT)],
    }


def encode_total(name: str, spent: spending_store.SpendingTotal) -> dict[str, Any]:
    return {
        name: spent.name,
        "calls": spent.calls,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost_usd": to_dollars(spent.cost),
    }
