"""Headway in processes that start within milliseconds: each is forked from one that has loaded every module.

A process starts the turn or goal, or resumes the one its predecessor left, and exits when it has ended, unless killed earlier.
"""

import asyncio
import faulthandler
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.warm_start import build_command

PATIENCE_S = 60


class ProcessPlan(NamedTuple):
    """The work of a process, and the point before which it is killed."""

    home: str
    database_url: str
    tenant_id: int
    conversation_id: int
    number: int | None = None  # the point before which it is killed,
    only: str = ""  # counting only points of this sort
    key: str = "alive"  # the API key that the model sees
    goals: Sequence[str] = ()  # goals to pursue; if empty, a turn is answered
    request: str = ""  # of the turn; if empty, the party is prepared
    goal_checks: str = ""  # JSON
    stagger_s: str = "0"
    cleans_up: bool = False  # wait until the worktrees of ended agents are removed
    people: str = ""  # `decide`: a person decides, and nothing runs; `wait`: end when a person is needed; `live`: one decides then

    fork_at: int | None = None  # fork the turn of the predecessor at this step

    @property
    def found(self) -> Path:
        """The state of the ledger when the process started."""
        return Path(self.home) / "found.json"

    @property
    def left(self) -> Path:
        """The state of the ledger when the process ended normally."""
        return Path(self.home) / "left.json"

    @property
    def pid_file(self) -> Path:
        """Holds the id of the process that runs the plan, or ran it last."""
        return Path(self.home) / "process"

    @property
    def workspace(self) -> Path:
        return Path(self.home) / "workspace" / str(self.tenant_id)

    @property
    def point_log(self) -> Path:
        return Path(self.home) / "last moment"

    @property
    def points(self) -> Path:
        """Holds the number of points that the process passed, if it ended normally."""
        return Path(self.home) / "points"


class ForkServer(NamedTuple):
    """The parent's handle on the process that forks one child per plan, one after the other."""

    process: "subprocess.Popen[str]"
    model_url: str  # of the model that the children ask

    def run_plan(self, plan: ProcessPlan) -> bool:
        """Run the plan. Return whether the process ended normally, rather than by SIGKILL."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([self.model_url, plan]) + "\n")
        self.process.stdin.flush()
        code = json.loads(self.process.stdout.readline())
        assert code in (0, -signal.SIGKILL), (code, plan)
        return bool(code == 0)


@contextmanager
def run_fork_server(model_url: str, folder: Path) -> Iterator[ForkServer]:
    """Run the fork server until the block ends. Tracebacks of its children appear in the test's output."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "SSL_CERT_"))}
    env = {
        **own,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "SSL_CERT_DIR": str(folder),  # no test here uses TLS; loading certificates would cost 0.1 s per plan
    }
    command = build_command(__file__)
    with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield ForkServer(process, model_url)
        finally:
            process.terminate()


# In the fork server


def main() -> None:
    from tests.journeys.kill_points import count_statements  # noqa: PLC0415

    count_statements()
    # The first plan runs in this process, which loads every module.
    asyncio.run(run_headway(read_plan(sys.stdin.readline())))
    print(0, flush=True)
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run_child(read_plan(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def read_plan(line: str) -> ProcessPlan:
    os.environ["OPENAI_BASE_URL"], plan = json.loads(line)
    os.environ["HEADWAY_DRIVE"] = "plan"
    return ProcessPlan._make(plan)


def run_child(plan: ProcessPlan) -> None:
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)  # print where a hanging process is stuck
    code = 1
    try:
        asyncio.run(run_headway(plan))
        code = 0
    except BaseException:  # noqa: BLE001  no exception may reach the parent's code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


async def run_headway(plan: ProcessPlan) -> None:
    from headway import settings  # noqa: PLC0415
    from headway.process.assembly import Headway  # noqa: PLC0415
    from tests.journeys import people  # noqa: PLC0415
    from tests.journeys.kill_points import KillPoint, arm  # noqa: PLC0415
    from tests.journeys.turn_model import CHEAP, STRONG  # noqa: PLC0415

    os.environ["OPENAI_API_KEY"] = f"{plan.key}.{os.getpid()}"
    names = {"model": f"openai-chat:{STRONG}", "model_cheap": f"openai-chat:{CHEAP}"}
    age_leases(plan.database_url)
    found = read_state(plan)
    plan.found.write_text(json.dumps(found))
    plan.pid_file.write_text(str(os.getpid()))
    # A request that gets no answer is made again, before the test gives up.
    pace = {"restart_stagger_s": plan.stagger_s, "retry_delay_s": "0.01", "model_timeout_s": "15"}
    headway = Headway(settings.load({"home": plan.home, "database_url": plan.database_url, **names, **pace}))
    headway.start()
    await headway.database.write(lambda _tx: None)  # wait until housekeeping is done, which is not under test
    if plan.number is not None:
        arm(plan.number, str(plan.point_log), plan.only)
    if plan.people == "decide":
        await people.decide_all(headway, plan)
    else:
        headway.start_agents(alone=not found["runs"] and not plan.goals)
        await headway.agents_ready()
        act = pursue if plan.goals else answer if plan.fork_at is None else fork
        work = act(headway, plan, found)
        await (people.accompany(headway, plan, work) if plan.people else work)
        await headway.stop_agents()
    headway.close()
    plan.points.write_text(str(KillPoint.passed))
    plan.left.write_text(json.dumps(read_state(plan)))


async def answer(headway: Any, plan: ProcessPlan, found: dict[str, Any]) -> None:
    from headway.actions.turns import steering  # noqa: PLC0415
    from tests.journeys.turn_model import MESSAGE, REQUEST  # noqa: PLC0415
    from tests.running_turns import run_turn  # noqa: PLC0415

    def begin(tx: Any) -> Any:
        """Begin the turn with a message that its agent has not read."""
        job = headway.begin_turn(tx, plan.tenant_id, plan.conversation_id, REQUEST)
        steering.send_to_agent(tx, plan.tenant_id, job.id, MESSAGE, "ada")
        return job

    run = next((run for run in found["runs"] if run["role"] == "index"), None)
    if run is None and plan.request:
        await run_turn(headway, plan.tenant_id, plan.conversation_id, plan.request)
    elif run is None:  # the caller never got an answer, so it asks again
        job = await headway.database.of(plan.tenant_id).write(begin)
        headway.engine.take(job)
        await headway.engine.ended(job.id)
    elif not run["ended_at"]:
        await headway.engine.ended(run["id"])
    while plan.cleans_up and await headway.database.of(plan.tenant_id).read(has_worktree_jobs):
        await asyncio.sleep(0.01)


def has_worktree_jobs(tx: Any) -> bool:
    return tx.one("SELECT 1 FROM jobs WHERE kind = 'worktree' AND state IN ('queued', 'running', 'delayed') LIMIT 1") is not None


async def fork(headway: Any, plan: ProcessPlan, found: dict[str, Any]) -> None:
    """Fork the first turn, unless a fork of it is in the ledger, and wait until the fork has ended."""
    from headway.actions.inspection.forks import ForkRequest  # noqa: PLC0415
    from headway.actions.runs import runs  # noqa: PLC0415

    original, *forks = found["runs"]
    if not forks:
        run = await headway.database.of(plan.tenant_id).read(lambda tx: runs.get_run(tx, plan.tenant_id, original["id"]))
        request = headway.forks.check(ForkRequest(plan.fork_at or 0))
        job = await headway.database.of(plan.tenant_id).write(
            lambda tx: headway.forks.begin(tx, plan.tenant_id, run.turn_id, request)
        )
        headway.engine.take(job)
        await headway.engine.ended(job.id)
    elif not forks[0]["ended_at"]:
        await headway.engine.ended(forks[0]["id"])


async def pursue(headway: Any, plan: ProcessPlan, found: dict[str, Any]) -> None:
    """Pursue all goals of the plan until each has ended or is stopped by a fault."""
    from headway.actions.goals import goals  # noqa: PLC0415

    known = {goal["description"]: goal["run_id"] for goal in found["goals"]}
    over = {goal["run_id"] for goal in found["goals"] if goal["ended_at"]}
    for description in plan.goals:
        if description not in known:
            new_goal = goals.NewGoal(description, "Everything is noted.", checks=plan.goal_checks)
            goal = await headway.database.of(plan.tenant_id).write(
                partial(goals.add_goal, tenant_id=plan.tenant_id, new_goal=new_goal)
            )
            headway.nudge()
            known[description] = goal.run_id
    await asyncio.gather(*map(headway.engine.ended, set(known.values()) - over))


def read_state(plan: ProcessPlan) -> dict[str, Any]:
    """The rows in the database, and the external tool calls on record."""
    from tests.journeys.snapshot import read_snapshot  # noqa: PLC0415

    calls = plan.workspace / "calls.jsonl"
    ran = [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []
    return {**read_snapshot(plan.database_url, plan.tenant_id), "ran": ran}


def age_leases(database_url: str) -> None:
    """Expire every lease, as if the processes that held them had been dead for a while."""
    from headway.ledger.job import LEASE_MS  # noqa: PLC0415
    from headway.storage.direct import DirectDatabase  # noqa: PLC0415

    with DirectDatabase(database_url) as database:
        database.write(partial(age_beats, by=LEASE_MS + 1))


def age_beats(tx: Any, by: int, owner: str = "%") -> None:
    tx.run("UPDATE worker_leases SET beat_at = beat_at - ? WHERE executor_id LIKE ?", by, owner)


if __name__ == "__main__":
    main()
