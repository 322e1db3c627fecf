"""/v1/goals/{id}/graph and /runs: the drawing of a plan and of its current part, and who worked at it."""

from typing import Any

from headway.actions.access import spending
from headway.actions.goals import goals, views
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import jobs, runs, sub_goals
from headway.ledger.goal import Goal
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction
from tests.browser.staged_plans import build_step, build_wide_plan
from tests.goal_plans import add_plan, end, evaluate, get_main_run, get_sub_goal
from tests.surfaces.server_harness import Client, Service

BUDGET = 5 * NANOS_PER_DOLLAR


def add_goal(tx: Transaction, tenant_id: int) -> Goal:
    return goals.pause(tx, tenant_id, goals.add_goal(tx, tenant_id, NewGoal("reach it")).id)


def list_superseded(client: Client, goal: Goal) -> dict[str, int | None]:
    whole: dict[str, Any] = client.ok("GET", f"/v1/goals/{goal.id}")["goal"]
    return {one["description"]: one["superseded_by"] for one in whole["sub_goals"]}


def test_a_plan_that_was_replaced_is_left_out_of_the_current_drawing(client: Client) -> None:
    def first(tx: Transaction, tenant_id: int) -> Goal:
        goal = goals.apply_plan(
            tx, add_goal(tx, tenant_id), [build_step("look"), build_step("act", ["look"]), build_step("fly")], ""
        )
        ids = {one["description"]: one["id"] for one in views.show_goal(tx, tenant_id, goal.id)["sub_goals"]}
        for name, divergence in (("look", "none"), ("act", "major")):
            end(tx, goal, ids[name])
            evaluate(tx, goal, ids[name], divergence, "Too late.")  # type: ignore[arg-type]
        return goals.get_goal(tx, tenant_id, goal.id)

    goal = client.desk.write(first)
    assert list_superseded(client, goal) == {"look": None, "act": None, "fly": None}
    steps = [build_step("act again", [])]
    client.desk.write(lambda tx, tenant_id: goals.apply_plan(tx, goals.get_goal(tx, tenant_id, goal.id), steps, "It diverged."))

    assert list_superseded(client, goal) == {"look": None, "act": 2, "fly": 2, "act again": None}
    drawn = {
        plan: len(client.ok("GET", f"/v1/goals/{goal.id}/graph", params={"plan": plan})["graph"]["nodes"])
        for plan in ("all", "current")
    }
    assert drawn == {"all": 4, "current": 2}


def test_a_drawing_is_as_wide_as_asked_for(client: Client) -> None:
    def add(tx: Transaction, tenant_id: int) -> Goal:
        goal = add_goal(tx, tenant_id)
        add_plan(tx, goal, build_wide_plan())
        return goal

    path = f"/v1/goals/{client.desk.write(add).id}/graph"
    for columns in (2, 6, 9):
        graph = client.ok("GET", path, params={"columns": columns})["graph"]
        tops = [node["y"] for node in graph["nodes"]]
        assert max(map(tops.count, tops)) == columns
    client.refused("GET", path, 422, "invalid", params={"columns": 0})
    client.refused("GET", path, 422, "invalid", params={"plan": "mine"})


def test_the_runs_of_a_goal_have_their_tokens_and_no_texts(service: Service, client: Client) -> None:
    def add(tx: Transaction, tenant_id: int) -> tuple[Goal, int]:
        goal = add_goal(tx, tenant_id)
        ids = add_plan(tx, goal, {"go": []})
        sub_goal = get_sub_goal(tx, goal, ids["go"])
        child = runs.begin_child(tx, get_main_run(tx, goal), "coder", "a secret task", 20, 5, sub_goal.id)
        jobs.delay(tx, jobs.get_locked_job(tx, tenant_id, child.id))  # or the server would end it
        sub_goals.start_sub_goal(tx, sub_goal, child)
        for _ in range(2):
            call = ModelCall("mid", "model-1", 1_000, 50, NANOS_PER_DOLLAR // 100, 600)
            child = spending.settle_payment(tx, child, call, BUDGET)
        run_store.save_run(tx, child)
        return goal, sub_goal.id

    goal, sub_goal_id = client.desk.write(add)
    answer = client.ok("GET", f"/v1/goals/{goal.id}/runs")
    main, child = sorted(answer["runs"], key=lambda run: run["parent_run_id"] is not None)
    assert (main["id"], main["parent_run_id"], main["sub_goal_id"]) == (goal.run_id, None, None)
    assert (child["parent_run_id"], child["sub_goal_id"], child["role"], child["ended_at"]) == (
        goal.run_id,
        sub_goal_id,
        "coder",
        0,
    )
    assert (child["input_tokens"], child["cached_tokens"], child["output_tokens"], child["cost_usd"]) == (2_000, 1_200, 100, 0.02)
    assert answer["usage"] == {"input_tokens": 2_000, "cached_tokens": 1_200, "output_tokens": 100}
    assert (child["start_ms"] // 1000, child["end_ms"]) == (child["created_at"], 0)
    (stored,) = client.ok("GET", f"/v1/goals/{goal.id}")["goal"]["sub_goals"]
    assert (stored["start_ms"] // 1000, stored["end_ms"]) == (stored["started_at"], 0)
    assert answer["omitted"] == 0
    assert "a secret task" not in str(answer)
    with service.tenant() as stranger:
        stranger.refused("GET", f"/v1/goals/{goal.id}/runs", 404, "not_found")
