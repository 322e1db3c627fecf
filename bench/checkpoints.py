"""Goals: the cost of recording progress on a sub-goal, compared with LangGraph's checkpointers, and how that cost grows.

Our checkpoint is one transaction: the sub-goal's row, an entry in the goal's journal, and three events for the live views (the
entry, the sub-goal, and the goal with its progress). LangGraph's checkpoint is one row with a snapshot of the whole state, here the
same sub-goals with the same texts, and notifies no one. Both use SQLite in WAL mode with `synchronous=FULL`, LangGraph's default;
`goal.checkpoint` asserts it.
"""

import asyncio
import time
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple

from bench.bulk import new_ledger
from bench.harness import Measurements, Workshop, at_least, at_most, benchmark, growing, in_turns, rate
from bench.peer import LANGGRAPH
from bench.peers.garden import DESCRIPTION, EXPECTED, OUTCOME
from headway.actions.access import local_tenant
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import jobs, runs, sub_goals
from headway.ledger.goal import PlannedStep, SubGoal
from headway.ledger.job import Job
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.stores import goals as goal_store
from headway.storage.transaction import Transaction, Work

USUAL, SMALL = 20, 3
STEPS = 200
CALLERS = 16
ROUNDS = 15
SIZES = (10, 100, 500)
WORKLOAD = "a sub-goal begins or ends: its row, the journal, three events, in a durable commit"


class Garden:
    """A ledger whose goals have this many sub-goals."""

    def __init__(self, url: str, tenant_id: int, size: int) -> None:
        self.url = url
        self.tenant_id = tenant_id
        self.size = size

    @classmethod
    def on_sqlite(cls, shop: Workshop, name: str, size: int) -> "Garden":
        ledger = new_ledger(shop.folder / f"{name}.db")
        return cls(ledger.url, ledger.tenant_id, size)

    def steps(self, limit: int) -> list[Work[Any]]:
        """Return this many steps of progress, on goals that are set and planned beforehand."""
        with DirectDatabase(self.url) as database:
            goal_plans = (database.write(self.lay_out) for _ in count())
            return list(islice((step for goal_steps in goal_plans for step in goal_steps), limit))

    def lay_out(self, tx: Transaction) -> list[Work[Any]]:
        tenant_id = self.tenant_id
        goal = goals.add_goal(tx, tenant_id, NewGoal("A garden."))
        plan = [planned(n) for n in range(self.size)]
        goals.apply_plan(tx, goal, plan, "")
        known = goal_store.list_sub_goals(tx, tenant_id, goal.id)
        step = partial(Step, tenant_id, goal.run_id or "")
        return [move for n, sub_goal in enumerate(known) for move in (step(sub_goal.id, n).begin, step(sub_goal.id, n).end)]


class Step(NamedTuple):
    """A sub-goal that the goal's main agent works on."""

    tenant_id: int
    run_id: str
    sub_goal_id: int
    n: int

    def begin(self, tx: Transaction) -> None:
        sub_goals.start_sub_goal(tx, self.one(tx, "pending"), runs.get_run(tx, self.tenant_id, self.run_id))

    def end(self, tx: Transaction) -> None:
        result = {"status": "completed", "summary": OUTCOME.format(n=self.n), "data": None, "error": None}
        sub_goals.end_sub_goal(tx, self.one(tx, "in-progress"), runs.get_run(tx, self.tenant_id, self.run_id), result)

    def one(self, tx: Transaction, status: str) -> SubGoal:
        sub_goal = goal_store.find_sub_goal(tx, self.tenant_id, self.sub_goal_id)
        assert sub_goal is not None
        assert sub_goal.status == status
        return sub_goal


def planned(n: int) -> PlannedStep:
    below = (str(n - 1),) if n else ()
    return PlannedStep(str(n), DESCRIPTION.format(n=n), EXPECTED.format(n=n), "work", "inline", "index", 5, 0.5, 0, below)


def at_a_time(garden: Garden) -> float:
    """Return checkpoints per second, written one after the other on the caller's thread."""
    steps = garden.steps(STEPS)
    with DirectDatabase(garden.url) as database:
        database.read(lambda tx: tx.one("SELECT 1"))
        return rate(STEPS, lambda: [database.write(step) for step in steps])


def awaited(garden: Garden, callers: int) -> float:
    """Return checkpoints per second of so many concurrent goals, each awaiting one checkpoint after the other."""
    steps = [garden.steps(STEPS // callers) for _ in range(callers)]
    whole_database = Database(garden.url)
    database = whole_database.of(garden.tenant_id)

    async def caller(own_steps: list[Work[Any]]) -> None:
        for step in own_steps:
            await database.write(step)

    async def everybody() -> float:
        await database.read(lambda tx: tx.one("SELECT 1"))
        await database.write(lambda tx: tx.one("SELECT 1"))
        start = time.perf_counter()
        await asyncio.gather(*map(caller, steps))
        return STEPS / (time.perf_counter() - start)

    try:
        return asyncio.run(everybody())
    finally:
        whole_database.close()


def beside_put(shop: Workshop, size: int, *, writes: bool = False) -> Measurements:
    theirs, name = shop.once(LANGGRAPH), f"put-{size}-{writes}"
    garden, path = Garden.on_sqlite(shop, name, size), str(shop.folder / f"{name}-langgraph.db")
    mode, synchronous, _version = theirs.ask("durability", path=path)
    assert (mode, synchronous) == ("wal", "2"), "both sides must be equally durable"
    put_all = partial(theirs.ask, "puts", path=path, sub_goals=size, steps=STEPS, writes=writes)
    return in_turns(partial(at_a_time, garden), put_all, ROUNDS)


def beside_aput(shop: Workshop, callers: int, *, writes: bool = False) -> Measurements:
    theirs, name = shop.once(LANGGRAPH), f"aput-{callers}-{writes}"
    garden, path = Garden.on_sqlite(shop, name, USUAL), str(shop.folder / f"{name}-langgraph.db")
    put_all = partial(theirs.ask, "async_puts", path=path, sub_goals=USUAL, steps=STEPS, callers=callers, writes=writes)
    return in_turns(partial(awaited, garden, callers), put_all, ROUNDS)


@benchmark("goal.checkpoint", f"goals of 20 sub-goals: {WORKLOAD}", "LangGraph's SqliteSaver.put of the same state", None)
def checkpoint(shop: Workshop) -> Measurements:
    return beside_put(shop, USUAL)


@benchmark("goal.checkpoint.async", "the same, awaited by one caller", "LangGraph's AsyncSqliteSaver.aput", None)
def checkpoint_awaited(shop: Workshop) -> Measurements:
    return beside_aput(shop, 1)


@benchmark("goal.checkpoint.c16", "the same, 16 goals at once", "AsyncSqliteSaver.aput by 16 threads of a graph", at_least(1.2))
def checkpoints_at_once(shop: Workshop) -> Measurements:
    return beside_aput(shop, CALLERS)


@benchmark("goal.checkpoint.small", "the same, goals of 3 sub-goals", "SqliteSaver.put of as small a state", None)
def small_checkpoint(shop: Workshop) -> Measurements:
    return beside_put(shop, SMALL)


@benchmark(
    "goal.checkpoint.step",
    "the same, goals of 20 sub-goals",
    "SqliteSaver.put and put_writes, as one step of a graph calls both",
    at_least(0.7),
)
def whole_step(shop: Workshop) -> Measurements:
    return beside_put(shop, USUAL, writes=True)


@benchmark("goal.checkpoint.step.async", "the same, awaited by one caller", "AsyncSqliteSaver.aput and aput_writes", at_least(1.0))
def whole_step_awaited(shop: Workshop) -> Measurements:
    return beside_aput(shop, 1, writes=True)


@benchmark("goal.growth.checkpoint", "the same, goals of 500 sub-goals", "of 10", at_least(0.85))
def growth_of_checkpoint(shop: Workshop) -> Measurements:
    gardens = {size: Garden.on_sqlite(shop, f"growth-{size}", size) for size in SIZES}
    return growing({size: partial(at_a_time, garden) for size, garden in gardens.items()}, 5)


# A pursuit, with a model that answers at once

LOOKED_AT = 10  # sub-goals measured in each goal


class Pursuit:
    """One Headway. Every round is a goal with a plan of this many sub-goals, of which the first few are completed."""

    def __init__(self, shop: Workshop, url: str | None = None) -> None:
        from headway.agents.models.local import LocalModel
        from headway.testing import temporary_headway

        self.answers = 0
        self.enough = asyncio.Event()
        self.loop = asyncio.Runner()
        shop.cleanup.callback(self.loop.close)
        settings: dict[str, Any] = {"database_url": url} if url else {}
        self.context = temporary_headway(shop.folder / "pursuit", LocalModel("scripted", self.answer), **settings)
        self.headway = self.loop.run(self.context.__aenter__())
        shop.cleanup.callback(lambda: self.loop.run(self.context.__aexit__(None, None, None)))

    def answer(self, _messages: Any, parameters: Any) -> Any:
        """Complete every sub-goal at once, and evaluate it as expected."""
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

        if "submit_evaluation" in {tool.name for tool in parameters.function_tools}:
            self.answers += 1
            if self.answers == LOOKED_AT:
                self.enough.set()
            return ModelResponse([ToolCallPart("submit_evaluation", {"divergence": "none"}, "call_1")], finish_reason="tool_call")
        return ModelResponse([TextPart(OUTCOME.format(n=self.answers))], finish_reason="stop")

    def round(self, size: int) -> float:
        """Return the milliseconds per sub-goal, from its start to its evaluation."""
        return self.loop.run(self.pursued(size))

    def prepare(self, size: int) -> Job:
        """Set a goal whose job this process owns from the start."""
        return self.loop.run(self.headway.database.write(partial(self.lay_out, size=size)))

    async def pursued(self, size: int) -> float:
        from headway.autonomy.pursuit import pursue

        self.answers, self.enough = 0, asyncio.Event()
        job = await self.headway.database.write(partial(self.lay_out, size=size))
        start = time.perf_counter()
        pursuit = asyncio.create_task(pursue(self.headway.runtime.of(job.tenant_id), self.headway.settings.goals, job))
        await asyncio.wait_for(self.enough.wait(), 60)
        took = time.perf_counter() - start
        pursuit.cancel()
        await asyncio.wait([pursuit])
        return took * 1000 / LOOKED_AT

    def lay_out(self, tx: Transaction, size: int) -> Job:
        goal = goals.add_goal(tx, local_tenant.ensure_local(tx).id, NewGoal("A garden."))
        goals.apply_plan(tx, goal, [planned(n) for n in range(size)], "")
        job = jobs.get_job(tx, goal.tenant_id, goal.run_id or "")
        return jobs.move(tx, job._replace(owner=self.headway.runtime.owner), "running")


@benchmark("goal.growth.sub_goals", "a sub-goal begun, worked on and judged, in a goal of 500", "in one of 10", at_most(1.15))
def growth_of_goals(shop: Workshop) -> Measurements:
    pursuit = shop.once(Pursuit)
    return growing({size: partial(pursuit.round, size) for size in SIZES}, 5, "ms")
