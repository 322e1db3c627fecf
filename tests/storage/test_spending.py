"""The pool counts the calls of the last 24 hours, even if the clock was wrong."""

from headway.actions import spending, turns
from headway.ledger.run import NANOS_PER_DOLLAR
from headway.storage.stores.spending import ModelCall
from headway.testing import FixedClock, TenantHarness

DAY_MS = 24 * 3600 * 1000
LIMIT = 100 * NANOS_PER_DOLLAR
CALL = ModelCall("strong", "openai-chat:gpt-4o", 1, 1, NANOS_PER_DOLLAR)  # a dollar


def test_a_clock_that_was_days_ahead_leaves_nothing_in_the_pool(desk: TenantHarness, clock: FixedClock) -> None:
    run = desk.write(turns.start, desk.conversation().id, turns.TurnRequest("x"))

    def pay() -> None:
        nonlocal run
        run = desk.database.write(lambda tx: spending.settle(tx, run, CALL, LIMIT))

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
