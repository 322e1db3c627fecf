"""Goals with small, wide and large plans, and with plans that were replaced."""

from collections.abc import Mapping, Sequence

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.ledger.goal import Goal, PlannedStep
from headway.storage.transaction import Transaction
from tests.browser.staged_goals import add_sleeping_goal, start_sub_agent
from tests.goal_plans import add_plan, end, evaluate

WIDE = 57  # sub-goals in one layer
LARGE = 150  # more than the page draws first
FILES = ("billing", "checkout", "search", "login", "reports", "gateway", "mailer", "exports")


def build_wide_plan() -> dict[str, list[str]]:
    items = [f"Review the {FILES[n % len(FILES)]} service, part {n // len(FILES) + 1}" for n in range(WIDE)]
    first, last = "List every service and its owners", "Summarize the findings for the operator"
    return {first: [], **{item: [first] for item in items}, last: items}


def build_large_plan() -> dict[str, list[str]]:
    """Chains of five steps that begin together and end together, as a migration of a hundred tables would be."""
    first, last = "Read the schema", "Write the report"
    steps: dict[str, list[str]] = {first: []}
    verbs = ("Copy", "Check", "Switch", "Watch", "Drop the old")
    ends = []
    for table in range((LARGE - 2) // len(verbs) + 1):
        before = first
        for verb in verbs[: LARGE - 1 - len(steps)]:
            before = f"{verb} table {table + 1}"
            steps[before] = [first if verb == "Copy" else f"{verbs[verbs.index(verb) - 1]} table {table + 1}"]
        ends.append(before)
    return {**steps, last: ends}


def add_goal(tx: Transaction, tenant_id: int, wanted: str, steps: Mapping[str, Sequence[str]], done: int, running: int) -> Goal:
    """A goal some of whose sub-goals are done, in the order of the plan, and some in progress."""
    goal = add_sleeping_goal(tx, tenant_id, NewGoal(wanted, "Everything is reviewed."))
    ids = add_plan(tx, goal, steps)
    names = list(ids)
    for name in names[:done]:
        end(tx, goal, ids[name], f"**{name}**: done.\n\n- nothing unusual")
        evaluate(tx, goal, ids[name])
    for name in names[done : done + running]:
        start_sub_agent(tx, tenant_id, ids[name], goal)
    return goals.get_goal(tx, tenant_id, goal.id)


def add_wide_goal(tx: Transaction, tenant_id: int) -> Goal:
    return add_goal(tx, tenant_id, "Review every service before the audit", build_wide_plan(), 31, 4)


def add_large_goal(tx: Transaction, tenant_id: int) -> Goal:
    return add_goal(tx, tenant_id, "Move a hundred tables to the new database", build_large_plan(), 70, 4)


SMALL: dict[str, list[str]] = {
    "Read the deployment descriptors": [],
    "List the services that still use the old queue": [],
    "Measure the load of each queue": ["List the services that still use the old queue"],
    "Write the migration guide": ["Read the deployment descriptors", "Measure the load of each queue"],
    "Move the mailer": ["Write the migration guide"],
    "Move the exports": ["Write the migration guide"],
    "Watch both for a day": ["Move the mailer", "Move the exports"],
    "Remove the old queue": ["Watch both for a day"],
}


def build_step(key: str, after: Sequence[str] = (), description: str = "") -> PlannedStep:
    return PlannedStep(
        key=key,
        description=description or key,
        expected_outcome=f"{key}: done",
        kind="work",
        mode="agent",
        role="coder",
        urgency=5,
        expected_value=0.5,
        cost_limit=0,
        depends_on=tuple(after),
    )
