"""Sub-agents spend from the tenant's pool. One that finds it empty waits, and the operator gets a notice."""

from pathlib import Path

import pytest

from headway.actions.access import spending
from headway.actions.runs import jobs
from headway.ledger.money import NANOS_PER_DOLLAR
from tests.agents.sub_agent_harness import (
    by_role,
    by_transcript,
    cancel_turn,
    delegate_call,
    get_job,
    get_states,
    list_requests,
    list_sub_agents,
    list_tool_answers,
    wait_for_end,
)
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import Reply, Request, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")

PRICED = "openai-chat:gpt-4o"
WORKER = by_transcript(calls(("now", {}), usage=(1_000, 500)), text("A hole.", usage=(2_000, 700)))


def test_the_cost_of_a_sub_agent_is_on_its_run_and_comes_from_the_shared_pool(database_url: str, tmp_path: Path) -> None:
    script = by_role(index=by_transcript(delegate_call("dig"), text("Dug.", usage=(100, 50))), researcher=WORKER)
    with open_talk(database_url, tmp_path, script, model=PRICED) as talk:
        talk.say()
        child, parent = list_sub_agents(talk)["dig"], talk.run_row()
        assert list_tool_answers(talk.server.requests[-1], "delegate")[0]["cost_usd"] == pytest.approx(
            child.cost / NANOS_PER_DOLLAR
        )
        spent = talk.database.read(lambda tx: tx.all("SELECT run_id, SUM(cost), COUNT(*) FROM model_calls GROUP BY run_id"))
        assert {run_id: (int(cost), calls) for run_id, cost, calls in spent} == {
            child.id: (child.cost, 2),
            parent.id: (parent.cost, 2),
        }
        assert child.cost > parent.cost > 0
        assert talk.pool().spent == child.cost + parent.cost
        costs = talk.database.read(lambda tx: spending.build_costs(tx, talk.tenant_id, 5 * NANOS_PER_DOLLAR))
        assert {entry["run_id"]: entry["calls"] for entry in costs["by_run"]} == {child.id: 2, parent.id: 2}
        assert {event["run_id"] for event in talk.list_event_data("cost_changed")} == {child.id, parent.id}


def wake_sub_agent(talk: Talk) -> None:
    """Wake the waiting sub-agent, as if its delay had passed."""
    child = list_sub_agents(talk)["dig"]
    talk.database.write(lambda tx: jobs.wake_job(tx, talk.tenant_id, child.id))
    talk.headway.nudge()


def test_a_sub_agent_that_finds_the_pool_spent_waits_until_it_is_raised(database_url: str, tmp_path: Path) -> None:
    def spend(_: Request) -> Reply:
        talk.set_pool(ceiling=1)
        return delegate_call("dig")

    with open_talk(
        database_url, tmp_path, by_role(index=by_transcript(spend, text("Dug.")), researcher=WORKER), model=PRICED
    ) as talk:
        talk.wait(talk.begin())
        talk.wait(talk.until(lambda: bool(list_sub_agents(talk)) and get_states(talk)["dig"] == ("waiting", "delayed")))
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))
        assert list_requests(talk, "researcher") == []
        (notice,) = talk.notices()
        assert notice[0] == "budget"
        before = get_job(talk, list_sub_agents(talk)["dig"]).due_at
        wake_sub_agent(talk)
        talk.wait(talk.until(lambda: get_job(talk, list_sub_agents(talk)["dig"]).due_at > before))
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))
        assert len(talk.notices()) == 1
        assert talk.pool().reserved == 0
        talk.set_pool(ceiling=5 * NANOS_PER_DOLLAR)
        wake_sub_agent(talk)
        assert wait_for_end(talk)["outcome"] == "answered"
        assert list_tool_answers(talk.server.requests[-1], "delegate")[0]["status"] == "completed"
        assert len(talk.notices()) == 1


def test_a_sub_agent_that_waits_for_money_can_be_canceled_with_its_turn(sqlite_url: str, tmp_path: Path) -> None:
    def spend(_: Request) -> Reply:
        talk.set_pool(ceiling=1)
        return delegate_call("dig")

    with open_talk(sqlite_url, tmp_path, by_role(index=spend), model=PRICED) as talk:
        talk.wait(talk.begin())
        talk.wait(talk.until(lambda: bool(list_sub_agents(talk)) and get_states(talk)["dig"] == ("waiting", "delayed")))
        cancel_turn(talk)
        assert get_states(talk) == {"dig": ("canceled", "canceled")}
        assert talk.turn()["status"] == "canceled"
