"""/v1/costs/history: what agents spent per day, by model, role and goal."""

from datetime import UTC, datetime, timedelta
from typing import Any

from headway.actions.access import spending
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import jobs
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.goal import Goal
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.run import Run
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import DAY_MS, ModelCall
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell

BUDGET = 1_000 * NANOS_PER_DOLLAR


def begin_run(desk: TenantHarness) -> Run:
    """A run that no process works on."""

    def begin(tx: Transaction, tenant_id: int) -> Run:
        run = turns.start_turn(tx, tenant_id, conversations.add_conversation(tx, tenant_id).id, turns.TurnRequest("hello"))
        jobs.close(tx, tenant_id, run.id, "canceled", "")
        return run

    return desk.write(begin)


def add_goal(tx: Transaction, tenant_id: int) -> Goal:
    goal = goals.add_goal(tx, tenant_id, NewGoal("Halve the\nbuild time"))
    jobs.close(tx, tenant_id, goal.run_id or "", "canceled", "")
    return goal


def book(desk: TenantHarness, run: Run, model: str, dollars: float, *, cached: int = 0) -> None:
    """Book a call of 1,000 tokens in and 100 out."""

    def work(tx: Transaction, _tenant_id: int) -> None:
        call = ModelCall("large", model, 1_000, 100, int(dollars * NANOS_PER_DOLLAR), cached)
        run_store.save_run(tx, spending.settle_payment(tx, run, call, BUDGET))

    desk.write(work)


def move_calls(desk: TenantHarness, days: int) -> None:
    """Move the calls of today to a day before."""

    def work(tx: Transaction, tenant_id: int) -> None:
        tx.run("UPDATE spending_days SET day = day - ? WHERE tenant_id = ? AND day = ?", days, tenant_id, tx.now // DAY_MS)
        tx.run("UPDATE model_calls SET at = at - ? WHERE tenant_id = ?", days * DAY_MS, tenant_id)

    desk.write(work)


def get_history(client: Client, **query: Any) -> dict[str, Any]:
    history: dict[str, Any] = client.ok("GET", "/v1/costs/history", params=query)["history"]
    return history


def format_day(days_ago: int = 0) -> str:
    return (datetime.now(UTC).date() - timedelta(days=days_ago)).isoformat()


def test_spending_is_summed_per_day_and_model_with_the_cached_share(client: Client) -> None:
    empty = get_history(client)
    assert (empty["groups"], empty["rows"], empty["total"]["calls"]) == ([], [], 0)
    run = begin_run(client.desk)
    book(client.desk, run, "large-1", 0.5, cached=800)
    move_calls(client.desk, 3)
    book(client.desk, run, "large-1", 0.25)
    book(client.desk, run, "small-1", 0.125)
    book(client.desk, run, "small-1", 0)

    history = get_history(client, days=7)
    assert (history["first_day"], history["last_day"]) == (format_day(6), format_day())
    assert [(group["name"], group["cost_usd"], group["calls"]) for group in history["groups"]] == [
        ("large-1", 0.75, 2),
        ("small-1", 0.125, 2),
    ]
    rows = [(row["day"], row["name"], row["cost_usd"], row["cached_tokens"]) for row in history["rows"]]
    assert rows == [(format_day(3), "large-1", 0.5, 800), (format_day(), "large-1", 0.25, 0), (format_day(), "small-1", 0.125, 0)]
    assert (history["total"]["cost_usd"], history["total"]["input_tokens"]) == (0.875, 4_000)
    assert [row["day"] for row in get_history(client, days=3)["rows"]] == [format_day()] * 2
    for bad in ({"days": 0}, {"days": 367}, {"by": "mood"}):
        client.refused("GET", "/v1/costs/history", 422, "invalid", params=bad)


def test_spending_is_grouped_by_role_and_goal_and_the_smallest_groups_are_one(client: Client, service: Service) -> None:
    desk = client.desk
    plain = begin_run(desk)
    goal = desk.write(add_goal)
    for number in range(10):
        book(desk, plain._replace(role=f"role-{number}"), "m", 1 + number)
    book(desk, plain._replace(goal_id=goal.id, role="planner"), "m", 40)
    book(desk, plain._replace(goal_id=987_654, role="planner"), "m", 2)

    by_role = get_history(client, by="role")["groups"]
    assert [group["name"] for group in by_role[:3]] == ["planner", "role-9", "role-8"]
    assert (len(by_role), by_role[-1]["name"], by_role[-1]["label"], by_role[-1]["cost_usd"]) == (9, None, "all others", 6)
    by_goal = {group["name"]: group["label"] for group in get_history(client, by="goal")["groups"]}
    assert by_goal == {"0": "without a goal", str(goal.id): "Halve the build time", "987654": "Goal 987654, deleted"}
    with service.tenant() as neighbour:
        assert get_history(neighbour, by="goal")["groups"] == []


def test_the_sums_stay_when_old_calls_are_deleted(client: Client) -> None:
    run = begin_run(client.desk)
    for _ in range(3):
        book(client.desk, run, "m", 1)
    client.desk.write(lambda tx, tenant_id: tx.run("DELETE FROM model_calls WHERE tenant_id = ?", tenant_id))

    assert get_history(client)["total"]["cost_usd"] == 3


def test_the_command_line_prints_the_days_and_the_groups(headway: Shell) -> None:
    headway.ok("chat", "hello")
    history = headway.json("costs", "--days", "7", "--by", "role")["history"]
    assert [group["name"] for group in history["groups"]] == ["index"]
    printed = headway.ok("costs", "--days", "7")
    assert format_day() in printed
    assert "rehearsal" in printed
    assert "--by needs --days" in headway("costs", "--by", "role").err
