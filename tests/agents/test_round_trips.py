"""The cost of a turn on Postgres, in statements and round trips."""

from pathlib import Path

import pytest

from tests.agents.turn_harness import STRONG, complete_next, in_order, open_talk, plan_call
from tests.model_server import Reply, calls, text
from tests.sent_statements import SentTransaction, trace_statements

PRICED = "openai-chat:gpt-4o"
NOW = calls(("now", {}), usage=(1_000, 500))
ITEMS = [f"Step {number}" for number in range(8)]


@pytest.mark.parametrize(("model", "statements"), [(STRONG, 12), (PRICED, 15)], ids=["free", "priced"])
def test_a_steady_iteration_takes_two_round_trips(postgres_url: str, tmp_path: Path, model: str, statements: int) -> None:
    """A model that costs money adds three statements: the pool, what has left its window, and the reservation."""
    script = in_order(plan_call("Bake"), *[NOW] * 8, complete_next, text("Done."))
    with open_talk(postgres_url, tmp_path, script, model=model) as talk, trace_statements() as sent:
        assert talk.say()["outcome"] == "drained"
        assert (talk.pool().spent > 0) == (model == PRICED)
        steady = [transaction for transaction in sent.list_transactions() if is_steady(transaction)]
        assert len(steady) == 8
        for transaction in steady:
            assert len(transaction.statements) <= statements, transaction.statements
            assert transaction.round_trips == 2


def is_steady(transaction: SentTransaction) -> bool:
    """Whether this is the step of a run that has made a call that changes nothing."""
    is_step = transaction.has("INSERT INTO model_calls") and transaction.has("INSERT INTO effects")
    return is_step and not transaction.has("todo_lists")


def test_a_plan_is_written_and_completed_in_as_many_round_trips_however_long_it_is(postgres_url: str, tmp_path: Path) -> None:
    plans = ITEMS[:1], ITEMS[:2], ITEMS  # the first one also takes a range of ids
    answers = [write_todos(plan, status) for plan in plans for status in ("pending", "completed", "")]
    with open_talk(postgres_url, tmp_path, in_order(*answers)) as talk:
        costs = []
        for plan in plans:
            with trace_statements() as sent:
                talk.say()
            assert [(todo.subject, todo.position) for todo in talk.plan()] == [(item, place) for place, item in enumerate(plan)]
            [written] = [each for each in sent.list_transactions() if each.has("INSERT INTO todos")]
            [completed] = [each for each in sent.list_transactions() if each.has("UPDATE todos")]
            costs.append((len(written.statements), written.round_trips, completed.round_trips))
    assert costs[1] == costs[2]
    assert costs[1][1:] == (7, 7)


def write_todos(plan: list[str], status: str) -> Reply:
    todos = [{"content": item, "status": status} for item in plan]
    return calls(("write_todos", {"todos": todos})) if status else text("Done.")
