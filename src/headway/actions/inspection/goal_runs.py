"""The agent runs of a goal: who worked when, at what, and what that used."""

from functools import reduce
from typing import Any, Final

from headway.actions import goals, jobs
from headway.ledger.run import to_dollars
from headway.storage.stores import spending as spending_store
from headway.storage.stores.spending import GoalRun, SpendingTotal
from headway.storage.transaction import Transaction

RUNS_LIMIT: Final = 2_000


def list_runs(tx: Transaction, tenant_id: int, goal_id: int) -> dict[str, Any]:
    """Return the newest runs with their tokens, and the tokens of all."""
    goals.get(tx, tenant_id, goal_id)
    rows = spending_store.list_goal_runs(tx, tenant_id, goal_id, RUNS_LIMIT)
    retry_times = jobs.retry_times(tx, tenant_id, [run.id for run in rows if not run.ended_at])
    totals = {total.name: total for total in spending_store.list_by_goal_run(tx, tenant_id, goal_id)}
    nothing = SpendingTotal("")
    return {
        "runs": [encode_run(run, totals.get(run.id, nothing), retry_times.get(run.id, 0)) for run in rows],
        "usage": encode_tokens(reduce(SpendingTotal.merge, totals.values(), nothing)),
        "omitted": spending_store.count_goal_runs(tx, tenant_id, goal_id) - len(rows),
    }


def encode_run(run: GoalRun, total: SpendingTotal, retry_at: int) -> dict[str, Any]:
    document = run._asdict()
    cost = document.pop("cost")
    times = {name: document[name] // 1000 for name in ("created_at", "updated_at", "ended_at")}
    exact_times = {"start_ms": run.created_at, "end_ms": run.ended_at}
    return {**document, **times, **exact_times, **encode_tokens(total), "cost_usd": to_dollars(cost), "retry_at": retry_at}


def encode_tokens(total: SpendingTotal) -> dict[str, int]:
    return {
        "input_tokens": total.input_tokens,
        "cached_tokens": total.cached_tokens,
        "output_tokens": total.output_tokens,
    }
