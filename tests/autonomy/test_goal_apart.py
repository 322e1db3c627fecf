"""Goals side by side: each is pursued independently, and no tenant sees or pays for another's."""

from pathlib import Path

import pytest

from headway.actions.access import spending
from headway.actions.goals import goals, views
from headway.actions.goals.goals import NewGoal
from headway.actions.installation import tenants
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.storage.stores import spending as spending_store
from tests.autonomy.goal_harness import Gate, agent, by_part, get_question, open_pursuit, plan, step
from tests.model_server import Reply, Request

pytestmark = pytest.mark.usefixtures("dispatch")


def test_two_goals_of_a_tenant_are_pursued_for_themselves(database_url: str, tmp_path: Path) -> None:
    gate = Gate()

    def planner(request: Request) -> Reply:
        return (
            plan(agent("wait"), step("rest", "wait")) if "A garden." in get_question(request) else plan(step("dig"), agent("fill"))
        )

    with open_pursuit(database_url, tmp_path, by_part({"wait": gate.before(Reply("Waited."))}, plan=planner)) as pursuit:
        first = pursuit.set_goal("A garden.").id
        second = pursuit.achieve("A pond.").id
        assert pursuit.goal(first).status == "active"
        gate.open()
        pursuit.until(lambda: pursuit.goal(first).ended)
        assert [row.goal_id for row in pursuit.sub_goals(first)] == [first] * 2
        assert [row.goal_id for row in pursuit.sub_goals(second)] == [second] * 2
        page = pursuit.read(views.list_goals, None, 10).goals
        assert [(row["id"], row["status"]) for row in page] == [(second, "completed"), (first, "completed")]


def test_another_tenants_pool_and_goals_are_untouched(database_url: str, tmp_path: Path) -> None:
    with open_pursuit(database_url, tmp_path, by_part(plan=plan(step("dig"))), priced=True, budget_usd="1000") as pursuit:
        other = pursuit.database.write(lambda tx: tenants.add_tenant(tx, "other")).id
        pursuit.database.write(lambda tx: spending.set_limit(tx, other, 0))
        theirs = pursuit.database.write(
            lambda tx: goals.add_goal(tx, other, NewGoal("A castle."), pursuit.headway.settings.limits)
        ).id
        mine = pursuit.achieve("A garden.")
        pursuit.until(lambda: pursuit.database.read(lambda tx: goals.get_goal(tx, other, theirs)).pause_kind == "budget")
        assert mine.status == "completed"
        assert pursuit.pool().spent > 0
        assert pursuit.database.read(lambda tx: spending_store.get_pool(tx, other)).spent == 0
        for action in (goals.pause, goals.resume, goals.abandon):
            with pytest.raises(NotFound):
                pursuit.act(action, theirs)
        with pytest.raises(NotFound):
            pursuit.read(views.show_goal, theirs)


def test_an_invalid_goal_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part()) as pursuit:
        for wrong in (
            NewGoal(" "),
            NewGoal("x", priority=-1),
            NewGoal("x" * 10_001),
            NewGoal("a\0b"),
            NewGoal("x", deadline_at=1),
        ):
            with pytest.raises(Invalid):
                pursuit.act(goals.add_goal, wrong)
        assert pursuit.read(views.list_goals, None, 10).goals == []


def test_a_proposal_waits_for_a_yes(database_url: str, tmp_path: Path) -> None:
    with open_pursuit(database_url, tmp_path, by_part(plan=plan(step("dig")))) as pursuit:
        proposed = pursuit.act(goals.propose, NewGoal("A pond.", budget=10 * NANOS_PER_DOLLAR), "The frogs have nowhere to go.")
        pursuit.goal_id = proposed.id
        assert (proposed.status, proposed.pause_kind, proposed.source) == ("paused", "proposal", "agent-discovered")
        ((kind, words),) = pursuit.notices()
        assert kind == "proposal"
        assert "A pond." in words
        assert "The frogs have nowhere to go." in words
        pursuit.decide("continue")
        assert pursuit.wait_until_ended().status == "completed"
        assert "Evidence: The frogs have nowhere to go." in get_question(pursuit.list_requests("plan")[0])
