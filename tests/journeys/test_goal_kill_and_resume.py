"""A goal of ten sub-goals is killed with SIGKILL at every boundary of its journal, and before every third statement. Each time the
next process completes it, each sub-goal completes once, and nothing is done twice."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headway.storage.direct import DirectDatabase
from tests.journeys import goal_scenario
from tests.journeys.forked_process import ForkServer, ProcessPlan
from tests.journeys.goal_scenario import GOAL, TEN, Errand, Script, check_journal, check_once, count_notes
from tests.model_server import ModelServer
from tests.proofs import Proof

pytestmark = pytest.mark.proof
TORTURE = [pytest.mark.torture]


STRIDE = 60
FEWEST = {"journal": 70, "": 1_000}  # points of a goal that is never killed
# Points until the next kill of a goal killed repeatedly. Each process must also get past the entries that recovery writes: ten
# processes in a row without progress would be a fault.
SPAN = {"journal": (16, 32), "": (200, 500)}


def resume_and_check(processes: ForkServer, plan: ProcessPlan, model: ModelServer, errands: Sequence[Errand] = TEN) -> None:
    """Run the goal to its end in the next process, and check the result."""
    print(f"{Path(plan.home).parent.name}: {plan.point_log.read_text()}")
    assert processes.run_plan(plan)
    left: dict[str, Any] = json.loads(plan.left.read_text())
    check_once(left, count_notes(plan), errands)
    check_journal(left)
    check_jobs(plan)
    check_plan_requests(model, left)
    model.forget()  # requests are large, and there are thousands


def check_jobs(plan: ProcessPlan) -> None:
    """Check that every goal and agent job is completed; the job of a notice may still be open."""
    with DirectDatabase(plan.database_url) as database:
        sql = "SELECT DISTINCT state, owner FROM jobs WHERE tenant_id = ? AND kind IN ('goal', 'agent')"
        assert database.read(lambda tx: tx.all(sql, plan.tenant_id)) == [("completed", "")]


def check_plan_requests(model: ModelServer, left: dict[str, Any]) -> None:
    """Check that a plan was requested once, plus at most once per process killed before the plan was stored."""
    requests = sum(request.tools == ["submit_plan"] for request in model.requests)
    early = [entry["kind"] for entry in left["journal"]].index("planned")
    assert 1 <= requests <= 1 + sum(entry["kind"] == "interrupted" for entry in left["journal"][:early])


def kill_at_points(points: Sequence[int], only: str, processes: ForkServer, model: ModelServer, url: str, folder: Path) -> int:
    """Kill a new goal before each of these points, until a process ends first. Return the number of kills."""
    for kills, number in enumerate(points):
        plan = goal_scenario.build_scenario(folder / f"killed before {number}", url)
        if processes.run_plan(plan._replace(number=number, only=only)):
            assert number > FEWEST[only]
            return kills
        resume_and_check(processes, plan, model)
    return len(points)


@pytest.mark.kill_points(stride=STRIDE, share=[47])
def test_a_goal_killed_at_any_boundary_of_its_journal_is_reached_and_nothing_is_done_twice(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_at_points(points, "journal", goal_processes, goal_model, sqlite_url, tmp_path)
    proof.tried("kill -9 of a goal at a boundary of its journal, sqlite", kills)


@pytest.mark.torture
@pytest.mark.kill_points(stride=STRIDE)
def test_a_goal_killed_at_any_boundary_of_its_journal_on_postgres_is_reached_and_nothing_is_done_twice(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_at_points(points, "journal", goal_processes, goal_model, postgres_url, tmp_path)
    proof.tried("kill -9 of a goal at a boundary of its journal, postgres", kills)


@pytest.mark.torture
@pytest.mark.kill_points(stride=STRIDE, step=3)  # there are thousands of statements, and all of them would take hours
def test_a_goal_killed_before_any_statement_is_reached_and_nothing_is_done_twice(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, database_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_at_points(points, "", goal_processes, goal_model, database_url, tmp_path)
    proof.tried("kill -9 of a goal before a statement", kills)


@pytest.mark.parametrize(
    ("kind", "only"),
    [
        ("postgres", "journal"),
        pytest.param("postgres", "", marks=TORTURE),
        pytest.param("sqlite", "", marks=TORTURE),
        pytest.param("sqlite", "journal", marks=TORTURE),
    ],
)
def test_a_goal_killed_over_and_over_is_reached_and_nothing_is_done_twice(
    kind: str,
    only: str,
    goal_processes: ForkServer,
    goal_model: ModelServer,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    proof: Proof,
) -> None:
    """Each process gets a little further, up to a random point."""
    plan = goal_scenario.build_scenario(tmp_path, request.getfixturevalue(f"{kind}_url"))
    chance = random.Random(kind + only)
    kills = 0
    while not goal_processes.run_plan(plan._replace(number=chance.randint(*SPAN[only]), only=only)):
        kills += 1
        print(f"{kills}: {plan.point_log.read_text()}")
    assert kills > 3
    proof.tried(f"kill -9 of a goal over and over, {kind}", kills)
    resume_and_check(goal_processes, plan, goal_model)


@pytest.mark.kill_points(stride=4, share=[13])
@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=TORTURE), "postgres"])
def test_a_goal_killed_around_the_end_of_its_one_sub_agent_is_reached(
    kind: str,
    points: Sequence[int],
    goal_processes: ForkServer,
    goal_model: ModelServer,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """Kill at every boundary of a short journal, including after the sub-agent has ended and before the pursuit has noticed."""
    database_url: str = request.getfixturevalue(f"{kind}_url")
    errand = Errand("only", "agent")
    for number in points:
        goal_model.script = Script({GOAL: [errand]})
        plan = goal_scenario.build_scenario(tmp_path / f"killed before {number}", database_url)
        if goal_processes.run_plan(plan._replace(number=number, only="journal")):
            assert number > 16
            break
        resume_and_check(goal_processes, plan, goal_model, [errand])
