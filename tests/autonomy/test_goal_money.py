"""The pool is empty: the whole goal pauses, the operator gets one notice, and the goal resumes once there is money."""

from pathlib import Path
from typing import Any

import pytest

from headway.actions.installation import tenants
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.storage.stores import spending as spending_store
from tests.autonomy.goal_harness import (
    Gate,
    Pursuit,
    agent,
    by_part,
    by_transcript,
    failure,
    in_order,
    open_pursuit,
    plan,
    replan,
    step,
)
from tests.model_server import Reply, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")

EVERYTHING = (99_500, 0)  # tokens; the pool holds 100 dollars


def costly(*steps: dict[str, Any]) -> Reply:
    return calls(("submit_plan", {"sub_goals": list(steps)}), usage=EVERYTHING)


def dry(pursuit: Pursuit) -> None:
    goal = pursuit.wait_until_paused()
    assert goal.pause_kind == "budget"
    assert "The cost pool is spent" in goal.pause_reason
    pursuit.until(lambda: not pursuit.headway.engine.tasks)
    assert pursuit.pool().reserved == 0
    ((kind, words),) = pursuit.notices()
    assert kind == "budget"
    assert words.startswith(f"Goal #{goal.id} is paused: “A garden.”. The cost pool is spent.")


@pytest.mark.parametrize(
    "script",
    [
        by_part(plan=costly(step("dig"), step("fill", "dig"))),
        by_part(plan=costly(agent("dig"), agent("fill"), step("rest", "fill"))),
        by_part({"dig": text("A hole.", usage=EVERYTHING)}, plan=plan(step("dig"), step("fill", "dig"))),
        by_part({"dig": text("A hole.", usage=EVERYTHING)}, plan=plan(agent("dig"), agent("fill", "dig"))),
    ],
    ids=["before inline work", "before sub-agents", "before an evaluation", "after a sub-agent"],
)
def test_an_empty_pool_pauses_a_goal_until_there_is_money(database_url: str, tmp_path: Path, script: Any) -> None:
    with open_pursuit(database_url, tmp_path, script, priced=True, budget_usd="100") as pursuit:
        pursuit.set_goal()
        dry(pursuit)
        pursuit.set_pool(10_000)
        assert pursuit.wait_until_ended().status == "completed"
        assert set(pursuit.statuses().values()) == {"completed"}
        assert [entry["after"] for entry in pursuit.journal("resumed")] == ["budget"]
        assert len(pursuit.notices()) == 1
        assert pursuit.open_notices() == []


def test_all_goals_of_a_tenant_pause_and_resume(database_url: str, tmp_path: Path) -> None:
    with open_pursuit(
        database_url, tmp_path, by_part(plan=costly(step("dig"), agent("fill"))), priced=True, budget_usd="100"
    ) as pursuit:
        other = pursuit.database.write(lambda tx: tenants.add_tenant(tx, "other")).id
        first = pursuit.set_goal("A garden.").id
        pursuit.wait_until_paused()
        second = pursuit.set_goal("A pond.").id
        pursuit.wait_until_paused()
        assert {pursuit.goal(goal_id).pause_kind for goal_id in (first, second)} == {"budget"}
        assert pursuit.database.read(lambda tx: spending_store.get_pool(tx, other)).spent == 0, "each tenant has a pool of its own"
        pursuit.set_pool(10_000)
        pursuit.until(lambda: {pursuit.goal(goal_id).status for goal_id in (first, second)} == {"completed"})
        assert [kind for kind, _ in pursuit.notices()] == ["budget", "budget"], "one for each goal"


def test_the_cost_of_a_goal_is_on_its_runs(sqlite_url: str, tmp_path: Path) -> None:
    work = {"dig": text("A hole.", usage=(999, 1)), "fill": text("Full.", usage=(1_999, 1))}
    with open_pursuit(
        sqlite_url, tmp_path, by_part(work, plan=plan(step("dig"), agent("fill"))), priced=True, budget_usd="999"
    ) as pursuit:
        pursuit.achieve()
        assert (pursuit.sub_goal("dig").cost, pursuit.sub_goal("fill").cost) == (NANOS_PER_DOLLAR, 2 * NANOS_PER_DOLLAR)
        goal = pursuit.events("goal_changed")[-1]["goal"]
        assert goal["cost_usd"] == pytest.approx(pursuit.pool().spent / NANOS_PER_DOLLAR)


def test_a_goal_waiting_for_money_without_running_agents_resumes_too(database_url: str, tmp_path: Path) -> None:
    """The agent that found the pool empty is dropped by a replan in progress; the remaining sub-goal has not started."""
    working, planning = Gate(), Gate()
    script = by_part(
        {"dig": by_transcript(working.before(calls(("now", {}))), text("A hole.")), "measure": failure()},
        plan=plan(agent("dig"), step("measure")),
        replan=planning.before(replan(step("rest"))),
    )
    with open_pursuit(database_url, tmp_path, script, priced=True, budget_usd="1000") as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.list_requests("replan"))
        pursuit.set_pool(0)
        working.open()
        pursuit.until(lambda: pursuit.goal().pause_kind == "budget")
        planning.open()
        pursuit.until(lambda: pursuit.statuses().get("rest") == "in-progress" and pursuit.job().state == "delayed")
        assert pursuit.goal().pause_kind == "budget"
        assert pursuit.statuses()["dig"] == "skipped"
        pursuit.set_pool(1_000)
        assert pursuit.wait_until_ended().status == "completed"


def test_the_sub_agents_of_a_goal_spend_no_more_than_its_budget(database_url: str, tmp_path: Path) -> None:
    """The limit is noticed while agents run, not at the next check-in. After the operator's decision, their work continues."""
    notes = [calls(("remember", {"text": f"note {n}"})) for n in range(6)]
    script = by_part({"dig": in_order(*notes, text("A hole."))}, plan=plan(agent("dig")))
    with open_pursuit(database_url, tmp_path, script, priced=True, budget_usd="100000") as pursuit:
        pursuit.set_goal(budget=NANOS_PER_DOLLAR)
        goal = pursuit.wait_until_paused()
        assert goal.pause_kind == "goal_budget"
        assert len(pursuit.list_requests("work")) < 5
        assert "It has used up its budget: $" in goal.pause_reason
        assert pursuit.run_of("dig").status == "waiting"

        pursuit.decide("continue")
        assert pursuit.wait_until_ended().status == "completed"
        assert len(pursuit.list_requests("work")) == 7
