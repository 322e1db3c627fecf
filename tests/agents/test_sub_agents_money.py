"""Sub-agents draw on the same pool as everybody else; one that finds it empty waits, and the operator is asked."""

from pathlib import Path

import pytest

from headway.actions import jobs, spending
from headway.ledger.run import NANOS_PER_DOLLAR
from tests.agents.delegating import answered, asked, cancel_turn, cast, delegated, job_of, over, said, states, sub_agents
from tests.agents.turning import Talk, talking
from tests.model_server import Reply, Request, calls, text

PRICED = "openai-chat:gpt-4o"
WORKER = said(calls(("now", {}), usage=(1_000, 500)), text("A hole.", usage=(2_000, 700)))


def test_what_a_sub_agent_costs_is_its_own_and_comes_out_of_the_one_pool(database_url: str, tmp_path: Path) -> None:
    script = cast(index=said(delegated("dig"), text("Dug.", usage=(100, 50))), researcher=WORKER)
    with talking(database_url, tmp_path, script, model=PRICED) as talk:
        talk.say()
        child, parent = sub_agents(talk)["dig"], talk.run_row()
        assert answered(talk.server.requests[-1], "delegate")[0]["cost_usd"] == pytest.approx(child.cost / NANOS_PER_DOLLAR)
        spent = talk.database.read(lambda tx: tx.all("SELECT run_id, SUM(cost), COUNT(*) FROM model_calls GROUP BY run_id"))
        assert {run_id: (int(cost), calls) for run_id, cost, calls in spent} == {
            child.id: (child.cost, 2),
            parent.id: (parent.cost, 2),
        }
        assert child.cost > parent.cost > 0
        assert talk.pool().spent == child.cost + parent.cost
        shown = talk.database.read(lambda tx: spending.build_costs(tx, talk.tenant_id, 5 * NANOS_PER_DOLLAR))
        assert {one["run_id"]: one["calls"] for one in shown["by_run"]} == {child.id: 2, parent.id: 2}
        assert {told["run_id"] for told in talk.told("cost_changed")} == {child.id, parent.id}


def look_again(talk: Talk) -> None:
    """The time after which it looks whether there is money has come."""
    child = sub_agents(talk)["dig"]
    talk.database.write(lambda tx: jobs.wake(tx, talk.tenant_id, child.id))
    talk.headway.nudge()


def test_a_sub_agent_that_finds_the_pool_spent_waits_until_it_is_raised(database_url: str, tmp_path: Path) -> None:
    def spend(_: Request) -> Reply:
        talk.set_pool(ceiling=1)
        return delegated("dig")

    with talking(database_url, tmp_path, cast(index=said(spend, text("Dug.")), researcher=WORKER), model=PRICED) as talk:
        talk.wait(talk.begin())
        talk.wait(talk.until(lambda: bool(sub_agents(talk)) and states(talk)["dig"] == ("waiting", "delayed")))
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))
        assert asked(talk, "researcher") == []
        (notice,) = talk.notices()
        assert notice[0] == "budget"
        before = job_of(talk, sub_agents(talk)["dig"]).due_at
        look_again(talk)
        talk.wait(talk.until(lambda: job_of(talk, sub_agents(talk)["dig"]).due_at > before))
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))
        assert len(talk.notices()) == 1
        assert talk.pool().reserved == 0
        talk.set_pool(ceiling=5 * NANOS_PER_DOLLAR)
        look_again(talk)
        assert over(talk)["outcome"] == "answered"
        assert answered(talk.server.requests[-1], "delegate")[0]["status"] == "completed"
        assert len(talk.notices()) == 1


def test_a_sub_agent_that_waits_for_money_can_be_canceled_with_its_turn(sqlite_url: str, tmp_path: Path) -> None:
    def spend(_: Request) -> Reply:
        talk.set_pool(ceiling=1)
        return delegated("dig")

    with talking(sqlite_url, tmp_path, cast(index=spend), model=PRICED) as talk:
        talk.wait(talk.begin())
        talk.wait(talk.until(lambda: bool(sub_agents(talk)) and states(talk)["dig"] == ("waiting", "delayed")))
        cancel_turn(talk)
        assert states(talk) == {"dig": ("canceled", "canceled")}
        assert talk.turn()["status"] == "canceled"
