"""The pool counts the calls of the last day, whatever clocks say."""

from headway.actions import spending, turns
from headway.ledger.run import NANOS
from headway.storage.spending_store import ModelCall
from headway.testing import Desk, FixedClock

DAY_MS = 24 * 3600 * 1000
LIMIT = 100 * NANOS
CALL = ModelCall("strong", "openai-chat:gpt-4o", 1, 1, NANOS)  # a dollar


def test_a_clock_that_was_days_ahead_leaves_nothing_in_the_pool(desk: Desk, clock: FixedClock) -> None:
    run = desk.write(turns.start, desk.conversation().id, turns.Beginning("x"))

    def pay() -> None:
        nonlocal run
        run = desk.database.write(lambda tx: spending.settle(tx, run, CALL, LIMIT))

    def spent() -> float:
        return float(desk.read(spending.costs, LIMIT)["spent_usd"])

    began = clock.now
    clock.now = began + 3 * DAY_MS
    pay()
    clock.now = began
    for _ in range(4):
        pay()
    assert spent() == 5

    clock.now = began + 2 * DAY_MS
    pay()
    assert spent() == 2  # this one, and the one that has yet to come
    clock.now = began + 5 * DAY_MS
    assert spent() == 0
