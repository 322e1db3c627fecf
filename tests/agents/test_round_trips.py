"""What a turn costs on Postgres, counted in statements and round trips."""

from pathlib import Path

from tests.agents.turn_harness import complete_next, in_order, open_talk, plan_call
from tests.model_server import Reply, calls, text
from tests.sent_statements import SentTransaction, trace_statements

NOW = calls(("now", {}))
ITEMS = [f"Step {number}" for number in range(8)]


def test_a_steady_iteration_is_eleven_statements_in_two_round_trips(postgres_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Bake"), *[NOW] * 8, complete_next, text("Done."))
    with open_talk(postgres_url, tmp_path, script) as talk, trace_statements() as sent:
        assert talk.say()["outcome"] == "drained"
        steady = [transaction for transaction in sent.list_transactions() if is_steady(transaction)]
        assert len(steady) == 8
        for transaction in steady:
            assert len(transaction.statements) <= 11, transaction.statements
            assert transaction.round_trips == 2


def is_steady(transaction: SentTransaction) -> bool:
    """Whether this is the step of a run that has made a call that changes nothing."""
    is_step = transaction.has("INSERT INTO model_calls") and transaction.has("INSERT INTO effects")
    return is_step and not transaction.has("todo_lists")


def test_a_plan_is_written_in_one_statement_however_long_it_is(postgres_url: str, tmp_path: Path) -> None:
    plans = ITEMS[:1], ITEMS[:2], ITEMS  # the first one also takes a range of ids
    answers = [write_todos(plan, status) for plan in plans for status in ("pending", "completed", "")]
    with open_talk(postgres_url, tmp_path, in_order(*answers)) as talk:
        costs = []
        for plan in plans:
            with trace_statements() as sent:
                talk.say()
            assert [(todo.subject, todo.position) for todo in talk.plan()] == [(item, place) for place, item in enumerate(plan)]
            [written] = [each for each in sent.list_transactions() if each.has("INSERT INTO todos")]
            costs.append((len(written.statements), written.round_trips))
    assert costs[1] == costs[2]


def write_todos(plan: list[str], status: str) -> Reply:
    todos = [{"content": item, "status": status} for item in plan]
    return calls(("write_todos", {"todos": todos})) if status else text("Done.")
