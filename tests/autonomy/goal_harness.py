"""A complete Headway that pursues goals, with a scripted model for every role over real HTTP, and views of the result.

    with open_pursuit(url, tmp_path, by_part(plan=plan(step("dig"), step("fill", "dig")))) as pursuit:
        goal = pursuit.wait_until_ended(pursuit.set_goal("A garden."))

Every test also checks that no request broke the rules of the model's API, that no money stays reserved for idle runs, and that
every sub-goal that was started has exactly one end in the journal.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import pytest

from headway import settings
from headway.actions.access import spending
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.installation import tenants
from headway.actions.runs import jobs, notices
from headway.ledger.goal import Decision, Goal, JournalEntry, SubGoal
from headway.ledger.job import Job
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.run import Run
from headway.process.assembly import Headway
from headway.storage.direct import DirectDatabase
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores.spending import Pool
from tests.certificates import skip_certificates
from tests.dispatch.local_dispatch import find_dispatcher, hurry
from tests.model_server import MODEL, ModelServer, Reply, Request, Script, calls, environment, text, to_script
from tests.people_rows import check_waiting
from tests.proof_rows import check_proofs

T = TypeVar("T")

PATIENCE_S = 60
PRICED: Final = f"openai-chat:{MODEL}"
PRICES: Final = f'["{PRICED}"]\ninput = 1000.0\noutput = 1000.0\n'  # 1,000 tokens cost one dollar
FORMS: Final = ("plan", "replan", "evaluation", "verdict", "intervention", "resumption")
Part = Reply | Script


class Pursuit:
    """The goals of one tenant, and the process that pursues them."""

    def __init__(self, headway: Headway, database: DirectDatabase, server: ModelServer, loop: asyncio.Runner) -> None:
        self.headway = headway
        self.database = database
        self.server = server
        self.loop = loop
        self.tenant_id = database.write(lambda tx: tenants.add_tenant(tx, "acme")).id
        self.goal_id = 0  # the goal set last

    def start_over(self, script: Part) -> None:
        """Continue with another script, as another tenant: a new Headway takes longer than a short goal."""
        self.until(lambda: not self.headway.engine.tasks)
        check_goals(self)
        self.server.forget()
        self.server.script = to_script(script)
        self.tenant_id = self.database.write(lambda tx: tenants.add_tenant(tx, uuid4().hex)).id
        self.goal_id = 0

    # Actions of the operator

    def act(self, action: Callable[..., T], *given: Any, **options: Any) -> T:
        """Write as this tenant, and wake the engine."""
        result = self.database.write(lambda tx: action(tx, self.tenant_id, *given, **options))
        self.headway.nudge()
        return result

    def set_goal(self, description: str = "A garden.", **more: Any) -> Goal:
        goal = self.act(goals.add_goal, NewGoal(description, **more), self.headway.settings.limits)
        self.goal_id = goal.id
        return goal

    def decide(self, action: Decision, note: str = "") -> Goal:
        return self.act(goals.decide_goal, self.goal_id, action, note, self.headway.settings.limits)

    def set_pool(self, dollars: float) -> None:
        self.act(spending.set_limit, int(dollars * NANOS_PER_DOLLAR))

    # Waiting

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the event loop until the coroutine returns."""
        return self.loop.run(asyncio.wait_for(coroutine, PATIENCE_S))

    def until(self, condition: Callable[[], object]) -> None:
        async def poll() -> None:
            while not condition():
                await asyncio.sleep(0.01)

        try:
            self.wait(poll())
        except TimeoutError:
            raise AssertionError(self.describe_state()) from None

    def describe_state(self) -> str:
        """The state of the goal, for the message of a test that timed out."""
        lines = [str(self.goal()), *map(str, self.sub_goals()), *(f"{entry.kind} {entry.data[:300]}" for entry in self.entries())]
        return "\n".join(lines + [f"{job.kind} {job.state} {job.attempts} {job.errors}" for job in self.jobs()])

    def wait_for_status(self, *statuses: str) -> Goal:
        """Wait until the goal has one of these statuses and no step of it is running; return it."""
        self.until(lambda: self.goal().status in statuses and self.goal().run_id not in self.headway.engine.tasks)
        return self.goal()

    def wait_until_ended(self, _goal: Goal | None = None) -> Goal:
        return self.wait_for_status("completed", "abandoned")

    def wait_until_paused(self) -> Goal:
        return self.wait_for_status("paused")

    def achieve(self, description: str = "A garden.", **more: Any) -> Goal:
        """Set a goal and wait until it is completed."""
        goal = self.wait_until_ended(self.set_goal(description, **more))
        assert goal.status == "completed", self.describe_state()
        return goal

    # Views

    def read(self, view: Callable[..., T], *given: Any) -> T:
        return self.database.read(lambda tx: view(tx, self.tenant_id, *given))

    def goal(self, goal_id: int = 0) -> Goal:
        return self.read(goals.get_goal, goal_id or self.goal_id)

    def sub_goals(self, goal_id: int = 0) -> list[SubGoal]:
        return self.read(goal_store.list_sub_goals, goal_id or self.goal_id)

    def sub_goal(self, description: str) -> SubGoal:
        """The newest sub-goal with this description."""
        return next(sub_goal for sub_goal in reversed(self.sub_goals()) if sub_goal.description == description)

    def statuses(self) -> dict[str, str]:
        return {sub_goal.description: sub_goal.status for sub_goal in self.sub_goals()}

    def entries(self) -> list[JournalEntry]:
        return self.read(goal_store.list_entries, self.goal_id, 1_000, 2**62)

    def journal(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(entry.data) for entry in self.entries() if entry.kind == kind]

    def jobs(self) -> list[Job]:
        return self.read(job_store.list_job_page, None, 500)

    def job(self) -> Job:
        return self.read(jobs.get_job, self.goal().run_id or "")

    def run(self) -> Run:
        run = self.read(run_store.find_run, self.goal().run_id or "")
        assert run is not None
        return run

    def run_of(self, description: str) -> Run:
        run = self.read(run_store.find_run, self.sub_goal(description).run_id or "")
        assert run is not None
        return run

    def notices(self) -> list[tuple[str, str]]:
        rows = self.database.read(
            lambda tx: tx.all("SELECT kind, text FROM notices WHERE tenant_id = ? ORDER BY id", self.tenant_id)
        )
        return [(str(kind), str(body)) for kind, body in rows]

    def open_notices(self) -> list[str]:
        """The kinds of the notices that are not done."""
        page = self.database.read(lambda tx: notices.list_page(tx, self.tenant_id, 100, is_done=False))
        return [notice["kind"] for notice in page["notices"]]

    def events(self, kind: str) -> list[dict[str, Any]]:
        sql = "SELECT data FROM events WHERE tenant_id = ? AND kind = ? ORDER BY seq"
        return [json.loads(data) for (data,) in self.database.read(lambda tx: tx.all(sql, self.tenant_id, kind))]

    def pool(self) -> Pool:
        return self.read(spending_store.get_pool)

    def list_requests(self, part: str) -> list[Request]:
        """The requests sent to the model in this role."""
        return [request for request in self.server.requests if get_part(request) == part]

    def list_started_tasks(self) -> list[str]:
        """The tasks, in the order in which work on them started."""
        return list(dict.fromkeys(get_task(request) for request in self.list_requests("work")))


def check_goals(pursuit: Pursuit) -> None:
    """Check the invariants of every goal."""
    database, tenant_id = pursuit.database, pursuit.tenant_id
    reserved = database.read(lambda tx: tx.one("SELECT COALESCE(SUM(reserved), 0) FROM runs WHERE tenant_id = ?", tenant_id))
    at_work = database.read(lambda tx: tx.one("SELECT COUNT(*) FROM jobs WHERE tenant_id = ? AND state = 'running'", tenant_id))
    assert reserved is not None
    assert at_work is not None
    assert pursuit.pool().reserved == reserved[0]
    assert at_work[0] or not reserved[0], "nothing is set aside for who is not at work"
    check_waiting(database)
    check_proofs(database)
    for (goal_id,) in database.read(lambda tx: tx.all("SELECT id FROM goals WHERE tenant_id = ?", tenant_id)):
        entries = pursuit.read(goal_store.list_entries, goal_id, 1_000, 2**62)
        assert [entry.n for entry in entries] == list(range(1, len(entries) + 1))
        ended = [json.loads(entry.data)["sub_goal_id"] for entry in entries if entry.kind in ("sub_goal_ended", "sub_goal_skipped")]
        assert sorted(ended) == [sub_goal.id for sub_goal in pursuit.sub_goals(goal_id) if sub_goal.ended], (
            "one checkpoint for every end"
        )


@contextmanager
def open_pursuit(
    url: str, home: Path, script: Part, /, *, breaches: bool = False, priced: bool = False, **options: str
) -> Iterator[Pursuit]:
    """Run Headway with these settings until the block ends. With `breaches`, violations of the model's API are left to the test."""
    chosen = {
        "home": str(home),
        "database_url": url,
        "model": PRICED,
        "retry_delay_s": "0.001",
        "restart_stagger_s": "0",
        **options,
    }
    if priced:
        (home / "prices.toml").write_text(PRICES, encoding="utf-8")
    with (
        pytest.MonkeyPatch.context() as patch,
        ModelServer(script) as server,
        DirectDatabase(url) as database,
        asyncio.Runner() as loop,
    ):
        for variable, value in environment(server).items():
            patch.setenv(variable, value)
        skip_certificates(patch)
        headway = Headway(settings.load(chosen))
        pursuit = Pursuit(headway, database, server, loop)
        try:
            loop.run(start_headway(headway))
            yield pursuit
        finally:
            server.release()
            loop.run(stop_headway(headway))
        check_goals(pursuit)
        if not breaches:
            assert server.violations == []


async def start_headway(headway: Headway) -> None:
    dispatcher = headway.dispatcher = find_dispatcher()
    headway.start()
    headway.start_agents()
    await headway.agents_ready()
    if dispatcher and dispatcher.faults.lost:
        hurry(headway.engine)


async def stop_headway(headway: Headway) -> None:
    await headway.stop_agents()
    headway.close()


# Roles


def get_part(request: Request) -> str:
    """The role that a request is for. Each form has its own submit tool; every other request is work."""
    return next((form for form in FORMS if f"submit_{form}" in request.tools), "work")


def get_task(request: Request) -> str:
    """The first line of the task in the request."""
    handed = next(words for words, message in zip(request.texts, request.messages, strict=True) if message["role"] == "user")
    return handed.split(" CONTEXT]\n\n", 1)[1].split("\n")[0]


def get_question(request: Request) -> str:
    """The text of the first user message."""
    return next(words for words, message in zip(request.texts, request.messages, strict=True) if message["role"] == "user")


def by_part(work: Mapping[str, Part] | Part | None = None, **parts: Part) -> Script:
    """Answer by role and by task. By default outcomes are as expected and tasks succeed."""
    scripts = {"evaluation": evaluation_form(), "verdict": verdict(), **parts}
    by_task = work if isinstance(work, Mapping) else {}
    anything = reply_done if work is None or isinstance(work, Mapping) else to_script(work)

    def script(request: Request) -> Reply:
        part = get_part(request)
        if part == "work":
            return to_script(by_task.get(get_task(request), anything))(request)
        return to_script(scripts[part])(request)

    return script


def in_order(*replies: Part) -> Script:
    """Answer the first request with the first reply, the second with the second, and so on. The last reply repeats."""
    numbers = count()

    def script(request: Request) -> Reply:
        return to_script(replies[min(next(numbers), len(replies) - 1)])(request)

    return script


def by_transcript(*replies: Part) -> Script:
    """Choose the reply by the number of answers in the transcript. The last reply repeats."""
    return lambda request: to_script(replies[min(request.assistant_turns, len(replies) - 1)])(request)


def reply_done(request: Request) -> Reply:
    return text(f"Done: {get_task(request)}.")


class Gate:
    """Blocks requests until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def open(self) -> None:
        self.opened.set()

    def before(self, part: Part) -> Script:
        def script(request: Request) -> Reply:
            self.opened.wait(PATIENCE_S)
            return to_script(part)(request)

        return script


def find_key(request: Request, description: str) -> str:
    """The key of an existing sub-goal, as the planner's prompt shows it."""
    matched = re.search(rf"- (#\d+) \[[^]]*\] {re.escape(description)}", get_question(request))
    assert matched, get_question(request)
    return matched[1]


# Replies


def step(description: str, *depends_on: str, **more: Any) -> dict[str, Any]:
    """A sub-goal of a plan. Its description is also its id."""
    outcome = f"{description} is done"
    return {"id": description, "description": description, "expected_outcome": outcome, "depends_on": list(depends_on), **more}


def agent(description: str, *depends_on: str, **more: Any) -> dict[str, Any]:
    return step(description, *depends_on, mode="agent", **more)


def plan(*steps: dict[str, Any]) -> Reply:
    return calls(("submit_plan", {"sub_goals": list(steps)}))


def replan(*steps: dict[str, Any], **more: Any) -> Reply:
    return calls(("submit_replan", {"sub_goals": list(steps), **more}))


def evaluation_form(divergence: str = "none", reason: str = "") -> Reply:
    return calls(("submit_evaluation", {"divergence": divergence, "reason": reason}))


def verdict(reason: str = "") -> Reply:
    """Met if there is no reason; otherwise not met."""
    return calls(("submit_verdict", {"met": not reason, "reason": reason}))


def intervention(action: str, words: str = "") -> Reply:
    return calls(("submit_intervention", {"action": action, "text": words}))


def failure(reason: str = "It rains.") -> Reply:
    return calls(("report_outcome", {"summary": reason, "success": False}))
