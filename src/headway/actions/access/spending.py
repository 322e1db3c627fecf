"""Money: the limits and the spending of tenants, reserved before a model is called, settled afterwards, and counted per day."""

from collections.abc import Sequence
from datetime import date, timedelta
from functools import reduce
from typing import Any, Final, NamedTuple
from uuid import uuid4

from headway.actions.access import audit
from headway.ledger.errors import OperatorOnly
from headway.ledger.events import Event, encode_json
from headway.ledger.job import NEVER
from headway.ledger.money import to_dollars
from headway.ledger.run import Run, SpendingGroup
from headway.ledger.text import to_one_line
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores.spending import DAY_MS, ModelCall, Pool, SpendingTotal
from headway.storage.transaction import Query, Row, Transaction

WINDOW_S = 24 * 3600
WINDOW_MS = WINDOW_S * 1000
RUNS_LIMIT = 100
TENANTS_LIMIT = 100
TRIAL_ROLE = "trial"


class Usage(NamedTuple):
    """The tokens and the cost of a turn. `input_tokens` includes `cached_tokens`, which were read from the provider's cache."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class LockedPool:
    """The pool in one transaction: locked, and without the calls that have left the window. It is read when it is first needed, and
    again if another part of the transaction has changed it."""

    def __init__(self, tx: Transaction, tenant_id: int, known: Pool | None = None) -> None:
        self.tx = tx
        self.tenant_id = tenant_id
        self.known = known
        self.known_changes = tx.count_writes("pools")

    def get(self) -> Pool:
        if self.known is None or self.tx.count_writes("pools") != self.known_changes:
            self.keep(roll_window(self.tx, self.tenant_id, spending_store.lock_pool(self.tx, self.tenant_id)))
        assert self.known is not None
        return self.known

    def keep(self, pool: Pool) -> None:
        """Remember the state that was read or written just now."""
        self.known, self.known_changes = pool, self.tx.count_writes("pools")


def build_lock_pool(tx: Transaction, tenant_id: int) -> tuple[Query, Query]:
    """Build the queries that lock the pool and read what `load_pool` needs."""
    return spending_store.build_lock_pool(tx, tenant_id), spending_store.build_sum_expired(tenant_id, tx.now - WINDOW_MS)


def load_pool(tx: Transaction, tenant_id: int, pools: list[Row], sums: list[Row]) -> Pool | None:
    """Return the pool from the rows of these queries. None if the tenant has none yet."""
    return roll_window(tx, tenant_id, Pool._make(pools[0]), int(sums[0][0])) if pools else None


def reserve(tx: Transaction, run: Run, amount: int, budget: int, pool: LockedPool | None = None) -> Run | None:
    """Reserve an amount for the run's next call. Returns the updated run, or None if the pool cannot cover it. An amount of zero
    always passes."""
    if amount == run.reserved:
        return run
    pool = pool or LockedPool(tx, run.tenant_id)
    state = pool.get()
    state = state._replace(reserved=state.reserved - run.reserved)
    if amount and state.spent + state.reserved + amount > get_limit(state, budget):
        return None
    state = state._replace(reserved=state.reserved + amount)
    spending_store.save_pool(tx, run.tenant_id, state)
    pool.keep(state)
    return run._replace(reserved=amount)


def has_room(tx: Transaction, tenant_id: int, budget: int) -> bool:
    """Whether the pool has anything left."""
    pool = roll_window(tx, tenant_id, spending_store.get_pool(tx, tenant_id))
    return pool.spent + pool.reserved < get_limit(pool, budget)


def settle_payment(tx: Transaction, run: Run, call: ModelCall, budget: int, pool: LockedPool | None = None) -> Run:
    """Record the cost of a call and release its reservation."""
    return book_call(tx, run, call, budget, run.reserved, pool)


def settle_late(tx: Transaction, tenant_id: int, run_id: str, call: ModelCall, budget: int) -> None:
    """Record the cost of a call that returned after its run had ended or was taken over by another process. No reservation is
    released here: it is released already, or belongs to the new owner's next call."""
    job_store.find_locked_job(tx, tenant_id, run_id)  # only the holder of the job's lock may change the run
    run = run_store.find_run(tx, tenant_id, run_id)
    if run:
        run_store.save_run(tx, book_call(tx, run, call, budget, 0))


def book_call(tx: Transaction, run: Run, call: ModelCall, budget: int, released: int, pool: LockedPool | None = None) -> Run:
    insert = spending_store.build_insert_call(tx, run.tenant_id, run.id, call)
    add_to_day = spending_store.build_add_call(tx, run.tenant_id, run.role, run.goal_id, call)
    if not call.cost and not released:
        tx.run_together(insert, add_to_day)
        return run
    pool = pool or LockedPool(tx, run.tenant_id)
    state = pool.get()  # before the call is inserted, so as not to count it twice
    state = state._replace(spent=state.spent + call.cost, reserved=state.reserved - released)
    tx.run_together(insert, add_to_day, spending_store.build_save_pool(run.tenant_id, state))
    pool.keep(state)
    spent = {
        "run_id": run.id,
        "cost_usd": to_dollars(call.cost),
        "spent_usd": to_dollars(state.spent),
        "limit_usd": to_dollars(get_limit(state, budget)),
    }
    tx.emit(Event(run.tenant_id, "cost_changed", encode_json(spent), run.conversation_id, run.turn_id))
    return run._replace(reserved=run.reserved - released, cost=run.cost + call.cost)


def record_trial(tx: Transaction, tenant_id: int, call: ModelCall, budget: int) -> None:
    """Record a call that a person made to try a model: as a separate run, which has ended, so that the pool pays for it. What was
    asked and answered is not stored."""
    run = Run(
        id=str(uuid4()),
        tenant_id=tenant_id,
        conversation_id=0,
        turn_id=None,
        parent_run_id=None,
        role=TRIAL_ROLE,
        task=f"Try {call.model}, the model of the tier {call.tier}",
        depth=0,
        status="completed",
        created_at=tx.now,
        updated_at=tx.now,
        limit=1,
        iterations=1,
        cost=call.cost,
        ended_at=tx.now,
        model=call.model,
    )
    run_store.insert_run(tx, run)
    book_call(tx, run, call, budget, 0)


def release(tx: Transaction, run: Run) -> Run:
    """Release the reservation of a call that will not be made."""
    return reserve(tx, run, 0, 0) or run


def set_limit(tx: Transaction, tenant_id: int, nanos: int) -> None:
    """Set a tenant's limit for the operator. The tenant's administrator may lower it, but not raise it above this."""
    pool = spending_store.lock_pool(tx, tenant_id)
    save_limit(tx, tenant_id, pool, pool._replace(ceiling=nanos, operator_ceiling=nanos))


def set_own_limit(tx: Transaction, tenant_id: int, nanos: int, budget: int) -> None:
    """Set a tenant's limit for its administrator. Raises OperatorOnly if it exceeds the one that the operator has set."""
    pool = spending_store.lock_pool(tx, tenant_id)
    most = get_operator_limit(pool, budget)
    if nanos > most:
        raise OperatorOnly(
            f"Only the installation's operator may set a limit above ${to_dollars(most):.2f} for this tenant: with `headway costs "
            "--limit`, or with a token of `headway token add --operator`. Nothing was changed."
        )
    save_limit(tx, tenant_id, pool, pool._replace(ceiling=nanos))


def save_limit(tx: Transaction, tenant_id: int, pool: Pool, changed: Pool) -> None:
    """Store a changed limit. Runs that wait for budget check again at once."""
    if changed != pool:
        spending_store.save_pool(tx, tenant_id, changed)
        old, new = None if pool.ceiling is None else to_dollars(pool.ceiling), to_dollars(changed.ceiling or 0)
        audit.record_in_audit(tx, tenant_id, "limit.set", "costs", {"limit_usd": old}, {"limit_usd": new})
        tx.emit(Event(tenant_id, "cost_limit_changed", encode_json({"old_usd": old, "limit_usd": new})))
    job_store.wake_waiting_runs(tx, tenant_id)


def get_limit(pool: Pool, budget: int) -> int:
    most = get_operator_limit(pool, budget)
    return most if pool.ceiling is None else min(pool.ceiling, most)


def get_operator_limit(pool: Pool, budget: int) -> int:
    return budget if pool.operator_ceiling is None else pool.operator_ceiling


def roll_window(tx: Transaction, tenant_id: int, pool: Pool, expired: int | None = None) -> Pool:
    """Subtract calls that have left the 24-hour window; each is subtracted once. `expired` is their cost, if it is known."""
    start = tx.now - WINDOW_MS
    if pool.counted_from > tx.now:  # the clock was set back: calls booked since then would never be subtracted
        return pool._replace(spent=spending_store.sum_cost_between(tx, tenant_id, start, NEVER), counted_from=start)
    if pool.counted_from >= start:
        return pool
    if expired is None:
        expired = spending_store.sum_cost_between(tx, tenant_id, pool.counted_from, start)
    return pool._replace(spent=pool.spent - expired, counted_from=start)


def subtract_expired(tx: Transaction, tenant_id: int) -> None:
    """Subtract the calls that have left the 24-hour window from the amount spent, so that their rows can be deleted."""
    pool = spending_store.lock_pool(tx, tenant_id)
    spending_store.save_pool(tx, tenant_id, roll_window(tx, tenant_id, pool))


def build_costs(tx: Transaction, tenant_id: int, budget: int, unpriced: Sequence[str] = ()) -> dict[str, Any]:
    """Return the amount spent and the limit, with totals by model and by run, and the configured models without a price."""
    since = tx.now - WINDOW_MS
    pool = roll_window(tx, tenant_id, spending_store.get_pool(tx, tenant_id))
    return {
        "spent_usd": to_dollars(pool.spent),
        "limit_usd": to_dollars(get_limit(pool, budget)),
        "window_s": WINDOW_S,
        "by_model": [encode_total("model", total) for total in spending_store.list_by_model(tx, tenant_id, since)],
        "by_run": [encode_total("run_id", total) for total in spending_store.list_by_run(tx, tenant_id, since, RUNS_LIMIT)],
        "unpriced": list(unpriced),
    }


def build_all_costs(tx: Transaction, budget: int) -> dict[str, Any]:
    """Return what all tenants together have spent, with totals by model, and the tenants that spent the most with their limits."""
    models: dict[str, SpendingTotal] = {}
    tenants: dict[str, tuple[int, int]] = {}  # spent, limit
    for tenant, pool, total in spending_store.list_spending(tx, tx.now - WINDOW_MS):
        models[total.name] = models.get(total.name, SpendingTotal(total.name)).merge(total)
        tenants[tenant] = tenants.get(tenant, (0, 0))[0] + total.cost, get_limit(pool, budget)
    most = sorted(tenants.items(), key=lambda item: (-item[1][0], item[0]))[:TENANTS_LIMIT]
    by_cost = sorted(models.values(), key=lambda total: (-total.cost, total.name))
    return {
        "spent_usd": to_dollars(sum(spent for spent, _ in tenants.values())),
        "window_s": WINDOW_S,
        "by_model": [encode_total("model", total) for total in by_cost],
        "by_tenant": [
            {"tenant": name, "spent_usd": to_dollars(spent), "limit_usd": to_dollars(limit)} for name, (spent, limit) in most
        ],
    }


class TurnSpending(NamedTuple):
    """Usage by the model calls of a turn and its sub-agents."""

    models: tuple[str, ...] = ()  # in order of the first call of each
    usage: Usage = Usage()

    def as_json(self) -> dict[str, Any]:
        return {"models": list(self.models), "usage": self.usage._asdict()}


def get_turn_spending(tx: Transaction, tenant_id: int, turn_id: str) -> TurnSpending:
    return load_turn_spending(tx.fetch(spending_store.build_list_turn(tenant_id, turn_id))[0])


def load_turn_spending(rows: list[Row]) -> TurnSpending:
    """Load the rows of `build_list_turn`."""
    totals = spending_store.load_totals(rows)
    total = reduce(SpendingTotal.merge, totals, SpendingTotal("turn"))
    usage = Usage(total.input_tokens, total.cached_tokens, total.output_tokens, to_dollars(total.cost))
    return TurnSpending(tuple(total.name for total in totals), usage)


def encode_total(name: str, spent: SpendingTotal) -> dict[str, Any]:
    return {
        name: spent.name,
        "calls": spent.calls,
        "input_tokens": spent.input_tokens,
        "cached_tokens": spent.cached_tokens,
        "cache_write_tokens": spent.cache_write_tokens,
        "output_tokens": spent.output_tokens,
        "cost_usd": to_dollars(spent.cost),
    }


# The spending of agents per day, by model, role or goal.


MOST_DAYS: Final = 366
MOST_GROUPS: Final = 8  # the others are one group
OTHERS: Final = "\0"  # the name of that group until it is encoded, which no model, role or goal has
LABEL_LIMIT: Final = 80
EPOCH: Final = date(1970, 1, 1)


def build_history(tx: Transaction, tenant_id: int, days: int, group: SpendingGroup) -> dict[str, Any]:
    """Return the totals of each day up to today, for the groups that cost the most and for all others together."""
    today = tx.now // DAY_MS
    rows = spending_store.list_days(tx, tenant_id, group, today - days + 1)
    totals: dict[str, SpendingTotal] = {}
    for _, total in rows:
        totals[total.name] = totals.get(total.name, SpendingTotal(total.name)).merge(total)
    ranked = sorted(totals.values(), key=lambda total: (-total.cost, -total.input_tokens, total.name))
    kept = {total.name for total in ranked[:MOST_GROUPS]}
    by_day: dict[tuple[int, str], SpendingTotal] = {}
    for day, total in rows:
        name = total.name if total.name in kept else OTHERS
        by_day[day, name] = by_day.get((day, name), SpendingTotal(name)).merge(total)
    labels = list_labels(tx, tenant_id, group, kept)
    groups, others = ranked[:MOST_GROUPS], ranked[MOST_GROUPS:]
    if others:
        groups.append(reduce(SpendingTotal.merge, others, SpendingTotal(OTHERS)))
    return {
        "by": group,
        "first_day": format_day(today - days + 1),
        "last_day": format_day(today),
        "total": {**encode_group(reduce(SpendingTotal.merge, ranked, SpendingTotal(OTHERS))), "label": "all"},
        "groups": [{**encode_group(total), "label": labels.get(total.name, total.name)} for total in groups],
        "rows": [{"day": format_day(day), **encode_group(total)} for (day, _), total in sorted(by_day.items())],
    }


def encode_group(total: SpendingTotal) -> dict[str, Any]:
    """Return the totals of a group. The name is null for all groups that are not named."""
    return {**encode_total("name", total), "name": None if total.name == OTHERS else total.name}


def list_labels(tx: Transaction, tenant_id: int, group: SpendingGroup, names: set[str]) -> dict[str, str]:
    """Return what people call the groups that are not called by their names."""
    labels = {OTHERS: "all others"}
    if group == "goal":
        goal_ids = sorted(int(name) for name in names if name != "0")
        texts = spending_store.list_goal_descriptions(tx, tenant_id, goal_ids)
        labels |= {str(goal_id): to_one_line(texts.get(goal_id, f"Goal {goal_id}, deleted"))[:LABEL_LIMIT] for goal_id in goal_ids}
        labels["0"] = "without a goal"
    return labels


def format_day(day: int) -> str:
    return (EPOCH + timedelta(days=day)).isoformat()
