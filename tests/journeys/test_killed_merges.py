"""A turn whose sub-agents work in a git repository is killed with SIGKILL before every git command and every statement. The next
process continues: each agent's work is merged exactly once, and nothing is lost."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.journeys import repository_scenario
from tests.journeys.forked_process import ForkServer
from tests.model_server import ModelServer
from tests.proofs import Proof

GIT_STRIDE = 60
STRIDE = 400
pytestmark = pytest.mark.proof
FEWEST = {"git": 60, "": 300}


@pytest.fixture(autouse=True)
def model(goal_model: ModelServer) -> ModelServer:
    goal_model.script = repository_scenario.reply
    return goal_model


def kill_at_points(points: Sequence[int], only: str, processes: ForkServer, database_url: str, folder: Path) -> int:
    """Kill a new turn before each of these points, until it ends first. Return the number of kills."""
    for kills, number in enumerate(points):
        plan = repository_scenario.build_scenario(folder / f"killed before {number}", database_url)
        killed = not processes.run_plan(plan._replace(number=number, only=only))
        if killed:
            print(f"{number}: {plan.point_log.read_text()}")
            assert processes.run_plan(plan)
        repository_scenario.check_end(plan, json.loads(plan.left.read_text()))
        if not killed:
            assert number > FEWEST[only]
            return kills
    return len(points)


@pytest.mark.kill_points(stride=GIT_STRIDE, share=[47])
def test_a_turn_killed_before_any_git_command_merges_once(
    points: Sequence[int], goal_processes: ForkServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_at_points(points, "git", goal_processes, sqlite_url, tmp_path)
    proof.tried("kill -9 of a turn in a repository before a git command", kills)


@pytest.mark.torture
@pytest.mark.kill_points(stride=STRIDE, step=4)
def test_a_turn_in_a_repository_killed_before_any_statement_merges_once(
    points: Sequence[int], goal_processes: ForkServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_at_points(points, "", goal_processes, sqlite_url, tmp_path)
    proof.tried("kill -9 of a turn in a repository before a statement, sqlite", kills)
