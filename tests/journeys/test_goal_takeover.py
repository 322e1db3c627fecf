"""Workers that pursue a goal: a clean stop reports no interruption, and the work of a killed or frozen worker is taken over. A
worker that wakes up late changes nothing."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway.actions.goals import goals
from headway.ledger.job import LEASE_MS
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.forked_process import age_beats
from tests.journeys.goal_scenario import Errand, Script, make_home
from tests.journeys.worker_processes import Worker, build_environment, count_notes, count_owners, list_events, read_rows, run_worker
from tests.model_server import ModelServer
from tests.surfaces.server_harness import wait_until

TORTURE = pytest.mark.torture
# A main agent and two sub-agents that run in parallel, and the sub-goals that depend on them.
PLAN = [
    Errand("first", "agent"),
    Errand("second", "agent"),
    Errand("inline", "inline"),
    Errand("both", "agent", ("first", "second")),
    Errand("last", "inline", ("inline", "both")),
]
NAMES = [errand.name for errand in PLAN]
TOGETHER = {"first", "second", "inline"}
TABLES = ("goals", "sub_goals", "journal", "planning_cycles", "runs", "effects", "notices")


class Crew:
    def __init__(self, url: str, folder: Path, desk: TenantHarness, model: ModelServer, script: Script) -> None:
        self.url, self.folder, self.desk, self.model, self.script = url, folder, desk, model, script
        self.env = build_environment(folder, model, restart_stagger_s="0")

    @contextmanager
    def run_worker(self) -> Iterator[Worker]:
        with run_worker(self.url, self.folder, self.env) as worker:
            yield worker

    def set_goal(self, description: str) -> int:
        return self.desk.write(goals.add_goal, goals.NewGoal(description, "Everything is noted.")).id

    def wait_until_completed(self, goal_id: int) -> None:
        wait_until(
            lambda: read_rows(self.desk, "SELECT status FROM goals WHERE id = ?", goal_id) == [("completed",)],
            "the goal is reached",
        )

    def check_once(self, names: list[str] = NAMES) -> None:
        assert count_notes(self.folder) == dict.fromkeys(names, 1)
        assert read_rows(self.desk, "SELECT DISTINCT status, divergence FROM sub_goals") == [("completed", "none")]
        for kind in ("sub_goal_started", "sub_goal_ended", "evaluated"):
            assert len(read_rows(self.desk, "SELECT 1 FROM journal WHERE kind = ?", kind)) == len(names)
        jobs = read_rows(self.desk, "SELECT DISTINCT state, owner FROM jobs WHERE kind IN ('goal', 'agent')")
        assert jobs == [("completed", "")]


@contextmanager
def open_crew(url: str, folder: Path, script: Script) -> Iterator[Crew]:
    make_home(folder / "home")
    with ModelServer(script) as model, DirectDatabase(url) as database:
        try:
            yield Crew(url, folder, TenantHarness(database), model, script)
        finally:
            script.gate.set()
        assert model.violations == []


@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=TORTURE), "postgres"])
def test_a_clean_restart_is_not_a_crash_and_says_nothing(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    script = Script({"Restart.": PLAN}, stuck_before=["first"], stuck_after=["second", "inline"])
    with open_crew(request.getfixturevalue(f"{kind}_url"), tmp_path, script) as crew:
        goal_id = crew.set_goal("Restart.")
        with crew.run_worker() as first:
            wait_until(lambda: set(script.waiting) == TOGETHER, "everybody is at work")
            assert first.end() == 0
        assert count_owners(crew.desk) == {}
        assert set(read_rows(crew.desk, "SELECT state, attempts, errors FROM jobs")) == {("queued", 0, "[]")}
        assert read_rows(crew.desk, "SELECT status FROM planning_cycles") == [("active",)]
        with crew.run_worker() as second:
            crew.wait_until_completed(goal_id)
            assert second.end() == 0
        crew.check_once()
        assert list_events(crew.desk, "recovered") == list_events(crew.desk, "operator_notice") == []
        assert read_rows(crew.desk, "SELECT status FROM planning_cycles") == [("completed",)]
        assert read_rows(crew.desk, "SELECT 1 FROM journal WHERE kind IN ('interrupted', 'recovered')") == []
        assert [request for request in crew.model.requests if request.tools == ["submit_resumption"]] == []


@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=TORTURE), signal.SIGSTOP])
def test_the_work_of_a_frozen_worker_is_taken_over_and_its_late_writes_change_nothing(
    how: signal.Signals, postgres_url: str, tmp_path: Path
) -> None:
    script = Script({"Take over.": PLAN, "Later.": [Errand("later", "agent")]}, gated=TOGETHER)
    with open_crew(postgres_url, tmp_path, script) as crew, crew.run_worker() as left, crew.run_worker() as right:
        goal_id = crew.set_goal("Take over.")
        wait_until(lambda: set(script.waiting) == TOGETHER, "everybody is at work")
        ((owner,),) = read_rows(crew.desk, "SELECT owner FROM jobs WHERE kind = 'goal'")
        victim, successor = (left, right) if left.owner == owner else (right, left)
        held = count_owners(crew.desk)[victim.owner]
        victim.send(how)
        crew.desk.database.write(lambda tx: age_beats(tx, LEASE_MS + 1, victim.owner))
        script.gate.set()  # if it is only frozen, its answers wait in its sockets
        crew.wait_until_completed(goal_id)
        crew.check_once()
        assert [(event["runs"], event["goals"]) for event in list_events(crew.desk, "recovered")] == [(held, 1)]
        assert [event["kind"] for event in list_events(crew.desk, "operator_notice")] == ["recovered"]
        cycles = Counter(status for (status,) in read_rows(crew.desk, "SELECT status FROM planning_cycles"))
        assert cycles == {"interrupted": 1, "completed": 1}
        if how == signal.SIGKILL:
            return

        before = [read_rows(crew.desk, f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TABLES]
        victim.send(signal.SIGCONT)
        assert successor.end() == 0
        crew.wait_until_completed(crew.set_goal("Later."))  # by the time this goal ends, the worker has noticed the takeover
        assert victim.end() == 0
        crew.check_once([*NAMES, "later"])
        after = [read_rows(crew.desk, f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TABLES]
        assert all(set(old) <= set(new) for old, new in zip(before, after, strict=True))
        assert len(list_events(crew.desk, "recovered")) == 1
