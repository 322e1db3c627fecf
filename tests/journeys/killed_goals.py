"""Goals pursued by a sequence of processes, each killed when the test decides."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.forked_process import ForkServer, ProcessPlan
from tests.journeys.goal_scenario import Script, build_process_plan
from tests.journeys.worker_processes import read_rows
from tests.model_server import ModelServer, Request
from tests.surfaces.server_harness import wait_until

RunningProcess = Future[bool]  # whether it ended normally


class KilledGoals:
    def __init__(
        self, processes: ForkServer, model: ModelServer, desk: TenantHarness, plan: ProcessPlan, pool: ThreadPoolExecutor
    ) -> None:
        self.processes, self.model, self.desk, self.plan, self.pool = processes, model, desk, plan, pool

    @property
    def script(self) -> Script:
        assert isinstance(self.model.script, Script)
        return self.model.script

    def begin(self) -> RunningProcess:
        """Run the plan in another process, in parallel with the test."""
        self.plan.pid_file.unlink(missing_ok=True)
        running = self.pool.submit(self.processes.run_plan, self.plan)
        wait_until(self.plan.pid_file.exists, "the process starts")
        return running

    def kill(self, running: RunningProcess) -> None:
        os.kill(int(self.plan.pid_file.read_text()), signal.SIGKILL)
        assert not running.result()

    def run_until_stuck(self) -> None:
        """Kill the process once all possible work is done and the stuck agents wait for answers that never arrive."""
        expected = len(self.script.stuck)
        running = self.begin()
        wait_until(lambda: len(self.script.waiting) == expected and self.settled, "everybody waits")
        self.kill(running)

    @property
    def settled(self) -> bool:
        """Whether every completed sub-goal is judged and only stuck agents have work left."""
        modes = {step.name: step.mode for steps in self.script.plans.values() for step in steps}
        stuck = [name for name in self.script.waiting if modes[name] == "agent"]
        unjudged = read_rows(self.desk, "SELECT 1 FROM sub_goals WHERE status = 'completed' AND divergence IS NULL")
        ready = read_rows(self.desk, "SELECT 1 FROM jobs WHERE state IN ('queued', 'running') AND kind = 'agent'")
        return not unjudged and len(ready) == len(stuck)

    def run_to_the_end(self) -> dict[str, Any]:
        assert self.processes.run_plan(self.plan)
        return self.left

    @property
    def left(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = json.loads(self.plan.left.read_text())
        return snapshot

    def asked_for(self, form: str) -> list[Request]:
        return [request for request in self.model.requests if request.tools == [form]]


@contextmanager
def open_killed_goals(
    processes: ForkServer, model: ModelServer, script: Script, database_url: str, folder: Path, **ways: Any
) -> Iterator[KilledGoals]:
    """A harness for goals that have not started yet."""
    model.script = script
    with DirectDatabase(database_url) as database, ThreadPoolExecutor(1) as pool:
        desk = TenantHarness(database)
        plan = build_process_plan(folder, database_url, desk, list(script.plans))._replace(**ways)
        try:
            yield KilledGoals(processes, model, desk, plan, pool)
        finally:
            script.gate.set()
            if plan.pid_file.exists() and not plan.left.exists():
                kill_if_alive(int(plan.pid_file.read_text()))


def kill_if_alive(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
