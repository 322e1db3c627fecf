"""Model calls: the pool counts the last 24 hours, even if the clock was wrong, and totals include the cached tokens."""

from contextlib import suppress
from uuid import uuid4

from headway.actions.access import spending
from headway.actions.access.spending import LockedPool, TurnSpending, Usage
from headway.actions.turns import turns
from headway.ledger.errors import Conflict
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.storage.direct import DirectDatabase
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores.spending import ModelCall, build_list_turn
from headway.storage.transaction import Transaction, within_tenant
from headway.testing import FixedClock, TenantHarness

DAY_MS = 24 * 3600 * 1000
LIMIT = 100 * NANOS_PER_DOLLAR
CALL = ModelCall("strong", "openai-chat:gpt-4o", 1, 1, NANOS_PER_DOLLAR)  # a dollar


def test_a_clock_that_was_days_ahead_leaves_nothing_in_the_pool(desk: TenantHarness, clock: FixedClock) -> None:
    run = desk.write(turns.start_turn, desk.conversation().id, turns.TurnRequest("x"))

    def pay() -> None:
        nonlocal run
        run = desk.database.write(lambda tx: spending.settle_payment(tx, run, CALL, LIMIT))

    def get_spent() -> float:
        return float(desk.read(spending.build_costs, LIMIT)["spent_usd"])

    start = clock.now
    clock.now = start + 3 * DAY_MS
    pay()
    clock.now = start
    for _ in range(4):
        pay()
    assert get_spent() == 5

    clock.now = start + 2 * DAY_MS
    pay()
    assert get_spent() == 2  # this call, and the one dated in the future
    clock.now = start + 5 * DAY_MS
    assert get_spent() == 0


def test_totals_include_the_cached_tokens(desk: TenantHarness) -> None:
    first = desk.write(turns.start_turn, desk.conversation().id, turns.TurnRequest("x"))
    other = desk.write(turns.start_turn, desk.conversation().id, turns.TurnRequest("y"))
    helper = first._replace(id=str(uuid4()), parent_run_id=first.id, depth=1)
    calls = [
        (first, ModelCall("strong", "a:b", 1_000, 10, NANOS_PER_DOLLAR, 600, 100)),
        (helper, ModelCall("strong", "a:b", 500, 5, 2 * NANOS_PER_DOLLAR, 400)),
        (helper, ModelCall("cheap", "a:c", 50, 1, 0)),
        (other, ModelCall("strong", "a:b", 7, 7, 0, 7)),
    ]

    def settle_all(tx: Transaction) -> None:
        run_store.insert_run(tx, helper)
        for run, call in calls:
            spending.settle_payment(tx, run, call, LIMIT)

    desk.database.write(settle_all)
    costs = desk.read(spending.build_costs, LIMIT, ["a:c"])
    keys = ("calls", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "cost_usd")
    by_model = {row["model"]: tuple(row[key] for key in keys) for row in costs["by_model"]}
    by_run = {row["run_id"]: tuple(row[key] for key in keys) for row in costs["by_run"]}
    assert by_model == {"a:b": (3, 1_507, 1_007, 100, 22, 3.0), "a:c": (1, 50, 0, 0, 1, 0.0)}
    assert by_run == {
        first.id: (1, 1_000, 600, 100, 10, 1.0),
        helper.id: (2, 550, 400, 0, 6, 2.0),
        other.id: (1, 7, 7, 0, 7, 0.0),
    }
    assert costs["unpriced"] == ["a:c"]

    spent = desk.read(spending.get_turn_spending, first.turn_id)
    assert spent == TurnSpending(("a:b", "a:c"), Usage(1_550, 1_000, 16, 3.0))
    stranger = TenantHarness(desk.database, "stranger")
    assert stranger.read(spending.get_turn_spending, first.turn_id) == TurnSpending()


def test_a_pool_that_another_part_of_the_transaction_changed_is_read_again(desk: TenantHarness) -> None:
    run, other = (desk.write(turns.start_turn, desk.conversation().id, turns.TurnRequest(request)) for request in "xy")

    def reserve_and_fail(tx: Transaction) -> None:
        assert spending.reserve(tx, other, 7 * NANOS_PER_DOLLAR, LIMIT)
        raise Conflict("no")

    def step(tx: Transaction) -> None:
        pool = LockedPool(tx, desk.tenant.id)
        paid = spending.settle_payment(tx, run, CALL, LIMIT, pool)
        assert spending.reserve(tx, other, 20 * NANOS_PER_DOLLAR, LIMIT)
        assert spending.reserve(tx, paid, 80 * NANOS_PER_DOLLAR, LIMIT, pool) is None  # a dollar is missing
        with suppress(Conflict):
            tx.attempt(reserve_and_fail)
        assert spending.reserve(tx, paid, 79 * NANOS_PER_DOLLAR, LIMIT, pool)

    desk.database.write(within_tenant(desk.tenant.id, step))
    pool = desk.read(spending_store.get_pool)
    assert (pool.spent, pool.reserved) == (NANOS_PER_DOLLAR, 99 * NANOS_PER_DOLLAR)


def test_the_usage_of_a_turn_is_read_through_indexes(sqlite_url: str) -> None:
    query = build_list_turn(1, "a turn")
    with DirectDatabase(sqlite_url) as database:
        steps = database.read(lambda tx: tx.all(f"EXPLAIN QUERY PLAN {query.sql}", *query.parameters))
    runs, calls = (str(row[-1]) for row in steps[:2])
    assert runs.startswith("SEARCH runs USING INDEX runs_of_turn")
    assert calls.startswith("SEARCH model_calls USING INDEX model_calls_of_run")
