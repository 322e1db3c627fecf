"""The page of a goal of 500 sub-goals in a browser: how long it takes to open, and how fast an event is drawn."""

from functools import partial
from typing import Any

from bench.harness import Measurements, Workshop, at_most, benchmark, in_turns
from bench.page import FRAME_BUDGET_MS, ROUNDS, WATCH, Stage, drawing, live, stage
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import jobs, sub_goals
from headway.ledger.goal import PlannedStep
from headway.storage.direct import DirectDatabase
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

SUB_GOALS = 500
SCREEN = 30  # sub-goals that are on screen at once; the others are drawn after them
CHAIN = 5  # sub-goals that follow each other; the chains begin together and end together
OPEN_BUDGET_MS = 1_000.0
TENANT_ID = 1
SELECTORS = {"list": ".plan-table tbody tr", "graph": ".node"}

# The time since the navigation began, at the end of the frame that shows that many sub-goals.
COUNT_DRAWN = """([selector, count]) => {
    const look = () => document.querySelectorAll(selector).length >= count
        ? requestAnimationFrame(() => setTimeout(() => { window.openedAt = performance.now(); }))
        : requestAnimationFrame(look);
    document.addEventListener('DOMContentLoaded', look);
}"""


def build_step(key: str, after: list[str]) -> PlannedStep:
    words = f"{key}: move the rows, compare the counts and write down what differs, so that the next step can rely on it"
    return PlannedStep(key, words, "The counts are equal.", "move", "agent", "worker", 5, 0.5, 0, tuple(after), title=key)


def build_plan() -> list[PlannedStep]:
    middle = [f"Step {n}" for n in range(SUB_GOALS - 2)]
    steps = [build_step(name, ["Begin"] if n % CHAIN == 0 else [middle[n - 1]]) for n, name in enumerate(middle)]
    ends = [name for n, name in enumerate(middle) if n % CHAIN == CHAIN - 1 or n == len(middle) - 1]
    return [build_step("Begin", []), *steps, build_step("Report", ends)]


def add_goal(tx: Transaction) -> tuple[int, list[int]]:
    """A goal that no process pursues, and the ids of its sub-goals."""
    goal = goals.add_goal(tx, TENANT_ID, NewGoal("Move every table to the new database"))
    jobs.delay(tx, jobs.get_locked_job(tx, TENANT_ID, goal.run_id or ""))
    goals.apply_plan(tx, goal, build_plan(), "")
    return goal.id, [sub_goal.id for sub_goal in goal_store.list_sub_goals(tx, TENANT_ID, goal.id)]


def start(tx: Transaction, goal_id: int, sub_goal_id: int) -> None:
    goal = goals.get_goal(tx, TENANT_ID, goal_id)
    run, sub_goal = run_store.find_run(tx, TENANT_ID, goal.run_id or ""), goal_store.find_sub_goal(tx, TENANT_ID, sub_goal_id)
    assert run is not None
    assert sub_goal is not None
    sub_goals.start_sub_goal(tx, sub_goal, run)


def stage_goal(shop: Workshop) -> tuple[Stage, DirectDatabase, int, list[int]]:
    site = shop.once(stage)
    database = shop.cleanup.enter_context(DirectDatabase(f"sqlite:///{shop.folder / 'page' / 'headway.db'}"))
    goal_id, ids = database.write(add_goal)
    return site, database, goal_id, ids


def open_page(site: Stage, goal_id: int, view: str) -> float:
    """Return the milliseconds until the plan fills the screen, with the files of the page in the browser's cache."""
    page = site.context.new_page()
    page.add_init_script(f"({COUNT_DRAWN})({[SELECTORS[view], SCREEN]!r})")
    page.goto(f"{site.url}/goals/{goal_id}?view={view}")
    page.wait_for_function("() => window.openedAt")
    took = float(page.evaluate("() => window.openedAt"))
    page.close()
    return took


def measure_opening(shop: Workshop, view: str) -> Measurements:
    site, _database, goal_id, _ids = shop.once(stage_goal)
    return in_turns(lambda: open_page(site, goal_id, view), lambda: OPEN_BUDGET_MS, ROUNDS, "ms")


@benchmark("page.goal.500.list", "a goal of 500 sub-goals, from its address until its list fills the screen", "1 s", at_most(1))
def open_list(shop: Workshop) -> Measurements:
    return measure_opening(shop, "list")


@benchmark("page.goal.500.graph", "a goal of 500 sub-goals, from its address until its graph fills the screen", "1 s", at_most(1))
def open_graph(shop: Workshop) -> Measurements:
    return measure_opening(shop, "graph")


@benchmark("page.goal.500.event", "an event among 500 sub-goals, all drawn as a graph, until it is drawn", "50 ms", at_most(1))
def follow(shop: Workshop) -> Measurements:
    site, database, goal_id, ids = shop.once(stage_goal)
    page: Any = site.context.new_page()
    page.add_init_script(f"({WATCH})()")
    page.goto(f"{site.url}/goals/{goal_id}?view=graph")
    live(page)
    page.wait_for_function(f"() => document.querySelectorAll('.node').length === {SUB_GOALS}")
    waiting = list(ids)

    def change() -> None:
        database.write(lambda tx: start(tx, goal_id, waiting.pop(len(waiting) // 2)))

    measurements = in_turns(partial(drawing, page, change), lambda: FRAME_BUDGET_MS, ROUNDS, "ms")
    page.close()
    return measurements
