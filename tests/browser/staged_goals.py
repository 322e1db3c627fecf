"""Half-finished goals, as a pursuit would have left them, with their jobs delayed so that nothing changes them."""

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import jobs, runs, sub_goals
from headway.ledger.goal import Goal
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.storage.stores import goals as goal_store
from headway.storage.transaction import Transaction
from tests.goal_plans import add_plan, end, evaluate, get_main_run, get_sub_goal

STEPS: dict[str, list[str]] = {
    "Map services on the checkout path": [],
    "Collect p95 traces for the last 14 days": [],
    "Reproduce production load in staging": ["Map services on the checkout path"],
    "Rank spans by share of total latency": ["Map services on the checkout path", "Collect p95 traces for the last 14 days"],
    "Record baseline benchmark": ["Reproduce production load in staging"],
    "Audit indexes on the orders table": ["Rank spans by share of total latency"],
    "Draft and rank hypotheses": ["Rank spans by share of total latency", "Record baseline benchmark"],
    "Profile cart service": ["Draft and rank hypotheses"],
    "Profile payment gateway client": ["Draft and rank hypotheses"],
    "Add composite index on orders": ["Audit indexes on the orders table"],
    "Remove N+1 query in promotions": ["Profile cart service"],
    "Batch cart price lookups": ["Profile cart service"],
    "Try gRPC keep-alive on the gateway": ["Profile payment gateway client"],
    "Pool gateway connections": ["Profile payment gateway client"],
    "Verify new index in staging": ["Add composite index on orders"],
    "Combined staging soak, two hours": ["Batch cart price lookups", "Pool gateway connections", "Verify new index in staging"],
    "Compare cost against baseline": ["Record baseline benchmark", "Combined staging soak, two hours"],
    "Canary on 5% of traffic": ["Compare cost against baseline"],
    "Write change report for the operator": ["Canary on 5% of traffic"],
}
DONE = [*list(STEPS)[:10], "Verify new index in staging"]
DROPPED = "Remove N+1 query in promotions"
FAILED = "Try gRPC keep-alive on the gateway"
AT_WORK = ["Batch cart price lookups", "Pool gateway connections"]
WANTED = "Cut checkout p95 below 400 ms without raising cost"


def add_sleeping_goal(tx: Transaction, tenant_id: int, wanted: NewGoal) -> Goal:
    """A goal whose job never becomes due."""
    goal = goals.add_goal(tx, tenant_id, wanted)
    jobs.delay(tx, jobs.get_locked_job(tx, tenant_id, goal.run_id or ""))
    return goal


def start_sub_agent(tx: Transaction, tenant_id: int, one_id: int, goal: Goal) -> None:
    """A sub-agent that has just started."""
    sub_goal = get_sub_goal(tx, goal, one_id)
    child = runs.begin_child(tx, get_main_run(tx, goal), "coder", sub_goal.description, 20, 5, sub_goal.id)
    jobs.delay(tx, jobs.get_locked_job(tx, tenant_id, child.id))
    sub_goals.start_sub_goal(tx, sub_goal, child)


def add_half_done_goal(tx: Transaction, tenant_id: int) -> Goal:
    criteria = "p95 of the checkout stays below 400 ms for a week."
    goal = add_sleeping_goal(tx, tenant_id, NewGoal(WANTED, criteria, priority=20, budget=10 * NANOS_PER_DOLLAR))
    ids = add_plan(tx, goal, STEPS)
    about = {"plan_no": 1, "added": [{"id": sub_goal_id} for sub_goal_id in ids.values()], "kept": [], "dropped": []}
    sub_goals.append(tx, tenant_id, goal.id, "planned", about)
    for step in DONE:
        end(tx, goal, ids[step], "p95 is 612 ms.")
        evaluate(tx, goal, ids[step])
    end(tx, goal, ids[FAILED], "", "503 Service Unavailable from the sandbox gateway after 5 attempts")
    sub_goals.skip(tx, get_sub_goal(tx, goal, ids[DROPPED]), "The new plan does not include it.", superseded_by=2)
    for step in AT_WORK:
        start_sub_agent(tx, tenant_id, ids[step], goal)
    return goals.get_goal(tx, tenant_id, goal.id)


def add_intervention(tx: Transaction, tenant_id: int, goal: Goal) -> None:
    half_done = [sub_goal.id for sub_goal in goal_store.list_sub_goals(tx, tenant_id, goal.id) if sub_goal.status == "in-progress"]
    sub_goals.append(tx, tenant_id, goal.id, "interrupted", {"agents": ["coder", "coder"], "sub_goals": half_done})
    decided = dict(zip(map(str, half_done), ("resume", "retry"), strict=True))
    sub_goals.append(tx, tenant_id, goal.id, "recovered", {"sub_goals": decided})


def add_one_of_each_status(tx: Transaction, tenant_id: int) -> None:
    """Add a goal of each status."""
    for description in ("Translate help centre to Portuguese", "Migrate invoices to the new ledger table"):
        goal = add_sleeping_goal(tx, tenant_id, NewGoal(description))
        ids = add_plan(tx, goal, {"look": [], "act": ["look"], "check": ["act"]})
        end(tx, goal, ids["look"])
        if "Migrate" in description:
            end(tx, goal, ids["act"])
            end(tx, goal, ids["check"])
            goals.complete_goal(tx, goals.get_goal(tx, tenant_id, goal.id), "All invoices are there.")
        else:
            goals.abandon(tx, tenant_id, goal.id)
    goals.propose(tx, tenant_id, NewGoal("Find and fix flaky tests in the billing suite"), "Three of them failed twice this week.")
    add_half_done_goal(tx, tenant_id)
