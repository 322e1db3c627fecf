"""A person changes the limits and the text of a goal while it is pursued; and the plans that it went through."""

from pathlib import Path

import pytest

from headway.actions.goals import goals, views
from headway.actions.goals.goals import GoalEdit
from headway.ledger.errors import Conflict
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.storage.transaction import Transaction
from tests.autonomy.goal_harness import (
    Gate,
    Pursuit,
    agent,
    by_part,
    evaluation_form,
    failure,
    find_key,
    get_question,
    in_order,
    open_pursuit,
    plan,
    replan,
    reply_done,
    step,
)
from tests.model_server import Reply, Request, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")

TEN_DOLLARS = 10 * NANOS_PER_DOLLAR


def edit(pursuit: Pursuit, **fields: int | str) -> None:
    pursuit.act(goals.edit_goal, pursuit.goal_id, GoalEdit(**fields), pursuit.headway.settings.limits)  # type: ignore[arg-type]


def set_deadline_soon(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    """The time of the transaction that sets the deadline counts, so that it is still in the future."""
    goals.edit_goal(tx, tenant_id, goal_id, GoalEdit(deadline_at=tx.now + 300))


def test_a_spent_budget_pauses_a_goal_until_it_is_raised(database_url: str, tmp_path: Path) -> None:
    script = by_part({"dig": text("A hole.", usage=(20_000, 0))}, plan=plan(step("dig"), step("fill", "dig")))
    with open_pursuit(database_url, tmp_path, script, priced=True, budget_usd="10000") as pursuit:
        pursuit.set_goal(budget=TEN_DOLLARS)
        goal = pursuit.wait_until_paused()
        assert (goal.pause_kind, goal.budget) == ("goal_budget", TEN_DOLLARS)
        assert goal.pause_reason.startswith("It has used up its budget: $2"), goal.pause_reason
        edit(pursuit, priority=1)
        assert pursuit.goal().status == "paused", "the priority has nothing to do with it"
        edit(pursuit, budget=10 * TEN_DOLLARS)
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.goal().budget == 10 * TEN_DOLLARS
        assert [entry["fields"] for entry in pursuit.journal("edited")] == [["priority"], ["budget"]]
        assert [entry["after"] for entry in pursuit.journal("resumed")] == ["goal_budget"]
        assert pursuit.events("goal_changed")[-1]["goal"]["budget_usd"] == 100


def test_sub_agents_continue_when_the_budget_is_raised(database_url: str, tmp_path: Path) -> None:
    notes = [calls(("remember", {"text": f"note {n}"})) for n in range(6)]
    script = by_part({"dig": in_order(*notes, text("A hole."))}, plan=plan(agent("dig")))
    with open_pursuit(database_url, tmp_path, script, priced=True, budget_usd="100000") as pursuit:
        pursuit.set_goal(budget=NANOS_PER_DOLLAR)
        assert pursuit.wait_until_paused().pause_kind == "goal_budget"
        assert pursuit.run_of("dig").status == "waiting"
        edit(pursuit, budget=10_000 * NANOS_PER_DOLLAR)
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.goal().budget == 10_000 * NANOS_PER_DOLLAR


def test_a_deadline_that_is_set_later_ends_a_wait_and_can_be_removed(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    work = {"dig": gate.before(reply_done)}
    with open_pursuit(database_url, tmp_path, by_part(work, plan=plan(agent("dig"), step("fill", "dig")))) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: "dig" in pursuit.list_started_tasks() and pursuit.run().status == "waiting")
        pursuit.act(set_deadline_soon, pursuit.goal_id)
        goal = pursuit.wait_until_paused()
        assert (goal.pause_kind, goal.pause_reason) == ("deadline", "Its deadline has passed.")
        edit(pursuit, deadline_at=0)
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"


def test_a_new_description_leads_to_a_new_plan_that_follows_it(database_url: str, tmp_path: Path) -> None:
    gate, questions = Gate(), list[str]()

    def another_way(request: Request) -> Reply:
        questions.append(get_question(request))
        return replan(step("build a pond"))

    work = {"dig": gate.before(reply_done)}
    with open_pursuit(database_url, tmp_path, by_part(work, plan=plan(agent("dig")), replan=another_way)) as pursuit:
        pursuit.set_goal("A garden.")
        pursuit.until(lambda: "dig" in pursuit.list_started_tasks() and pursuit.run().status == "waiting")
        edit(pursuit, description="A pond.", success_criteria="It holds water.")
        pursuit.until(lambda: pursuit.goal().plan_no == 2)
        gate.open()
        goal = pursuit.wait_until_ended()
        assert (goal.status, goal.description, goal.success_criteria) == ("completed", "A pond.", "It holds water.")
        assert "A pond." in questions[0]
        assert "It holds water." in questions[0]
        assert "A person changed what the goal should achieve." in questions[0]
        assert pursuit.journal("edited")[0]["old"] == {"description": "A garden.", "success_criteria": ""}
        with pytest.raises(Conflict, match="can no longer be changed"):
            edit(pursuit, priority=3)


def test_plans_have_titles_and_say_what_they_changed(database_url: str, tmp_path: Path) -> None:
    long = "Dig with the large shovel until the hole is deep enough for the oldest tree of all"
    steps = plan(
        step("measure", title="  Measure\nthe bed "),
        step("dig", "measure", title=long),
        step("plant", "dig"),
        step("paint", "plant"),
    )

    def another_way(request: Request) -> Reply:
        return replan(
            step("drill", find_key(request, "measure"), title="Drill"), {"id": find_key(request, "plant"), "depends_on": ["drill"]}
        )

    script = by_part({"dig": failure()}, plan=steps, replan=another_way)
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        numbers = {sub_goal.description: sub_goal.id for sub_goal in pursuit.sub_goals()}
        assert pursuit.sub_goal("measure").title == "Measure the bed"
        assert pursuit.sub_goal("dig").name == "Dig with the large shovel until the hole is deep enough for…"
        assert pursuit.sub_goal("plant").name == "plant"
        second, first = pursuit.read(views.list_plans, pursuit.goal_id, 10).plans
        assert (second["plan"], second["in_force"], second["total"], second["done"]) == (2, True, 3, 3)
        assert [member["id"] for member in second["added"]] == [numbers["drill"]]
        assert [member["id"] for member in second["removed"]] == [numbers["dig"], numbers["paint"]]
        assert [member["id"] for member in second["changed"]] == [numbers["plant"]]
        assert second["sub_goals"] == [numbers["measure"], numbers["plant"], numbers["drill"]]
        assert "It rains." in second["reason"]
        assert (first["plan"], first["in_force"], first["reason"], len(first["added"])) == (1, False, "", 4)
        assert pursuit.goal().progress["in_plan"] == pursuit.goal().progress["done"] == 3
        started = next(entry for entry in pursuit.journal("sub_goal_started") if entry["sub_goal_id"] == numbers["measure"])
        assert (started["title"], started["description"]) == ("Measure the bed", "measure")


def test_an_outcome_that_diverged_does_not_count_as_done(sqlite_url: str, tmp_path: Path) -> None:
    script = by_part(
        plan=plan(step("dig"), step("fill", "dig")),
        evaluation=evaluation_form("major", "The hole is in the wrong place."),
        replan=replan(step("dig again")),
    )
    with open_pursuit(sqlite_url, tmp_path, script, replan_limit="1") as pursuit:
        pursuit.set_goal()
        assert pursuit.wait_until_paused().pause_kind == "replans"
        progress = pursuit.goal().progress
        assert (progress["completed"], progress["in_plan"], progress["done"]) == (2, 1, 0)
        assert pursuit.sub_goal("dig").superseded_by == 2
        assert pursuit.sub_goal("dig again").superseded_by == 0
