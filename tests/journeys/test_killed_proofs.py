"""A turn, its sub-agent and a goal whose work has checks are killed with SIGKILL at every possible point: before the checks start,
while a command runs in the sandbox, before the receipt is stored and before the work is completed. Each time nothing is done
without a passing receipt, and there is one receipt for each time that the checks were needed."""

import json
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.journeys import proof_scenario
from tests.journeys.forked_process import ForkServer, ProcessPlan
from tests.journeys.snapshot import Snapshot
from tests.model_server import ModelServer
from tests.proofs import Proof
from tests.surfaces.server_harness import wait_until

STRIDE = 240
FEWEST = 141  # statements
pytestmark = pytest.mark.proof


def load_left(plan: ProcessPlan) -> Snapshot:
    left: Snapshot = json.loads(plan.left.read_text())
    return left


def run_killed(processes: ForkServer, plan: ProcessPlan, number: int) -> bool:
    """Run the plan to its end. The first process is killed before this point; return whether it was."""
    killed = not processes.run_plan(plan._replace(number=number))
    if killed:
        print(f"{Path(plan.home).parent.name}: {plan.point_log.read_text()}")
        assert processes.run_plan(plan)
    return killed


def kill_turns_at(points: Sequence[int], processes: ForkServer, database_url: str, folder: Path) -> int:
    for kills, number in enumerate(points):
        plan = proof_scenario.build_scenario(folder / f"turn killed before {number}", database_url)
        killed = run_killed(processes, plan, number)
        proof_scenario.check_turn(plan, load_left(plan))
        if not killed:
            assert number > FEWEST
            return kills
    return len(points)


def kill_goals_at(points: Sequence[int], processes: ForkServer, database_url: str, folder: Path) -> int:
    for kills, number in enumerate(points):
        plan = proof_scenario.build_goal_scenario(folder / f"goal killed before {number}", database_url)
        killed = run_killed(processes, plan, number)
        proof_scenario.check_goal(plan, load_left(plan))
        if not killed:
            assert number > FEWEST
            return kills
    return len(points)


@pytest.mark.kill_points(stride=STRIDE, share=[141])
def test_a_turn_killed_before_any_statement_proves_its_work_once(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    goal_model.script = proof_scenario.reply
    kills = kill_turns_at(points, goal_processes, sqlite_url, tmp_path)
    proof.tried("kill -9 of a turn whose todos have checks before a statement, sqlite", kills)


def list_processes(argument: str) -> list[Path]:
    """The processes that were started with this text among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [process] if argument.encode() in (process / "cmdline").read_bytes() else []
    return found


def test_a_turn_killed_while_a_command_runs_starts_it_again_and_leaves_none_behind(
    goal_processes: ForkServer, goal_model: ModelServer, sqlite_url: str, tmp_path: Path
) -> None:
    goal_model.script = proof_scenario.reply
    command = f": {tmp_path}; touch started; until [ -e go ]; do sleep 0.02; done; echo lit >> lamp"
    plan = proof_scenario.build_scenario(tmp_path, sqlite_url, command)
    desk = tmp_path / proof_scenario.DESK
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(goal_processes.run_plan, plan)
        wait_until((desk / "started").exists, "the command runs")
        os.kill(int(plan.pid_file.read_text()), signal.SIGKILL)
        assert not running.result()
    wait_until(lambda: not list_processes(command), "the kernel has killed the command")
    assert proof_scenario.list_proofs(plan, "todos")[0] == ("pending", "unproven")
    assert proof_scenario.list_receipts(plan) == [("todo", False), ("todo", True)]
    (desk / "go").touch()
    assert goal_processes.run_plan(plan)
    proof_scenario.check_turn(plan, load_left(plan))
    assert (desk / "lamp").read_text() == "lit\n"


@pytest.mark.torture
@pytest.mark.kill_points(stride=STRIDE)
def test_a_turn_killed_before_any_statement_on_postgres_proves_its_work_once(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    goal_model.script = proof_scenario.reply
    kills = kill_turns_at(points, goal_processes, postgres_url, tmp_path)
    proof.tried("kill -9 of a turn whose todos have checks before a statement, postgres", kills)


@pytest.mark.kill_points(stride=STRIDE, share=[141])
def test_a_goal_killed_before_any_statement_proves_its_work_once(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    goal_model.script = proof_scenario.reply_to_goal
    kills = kill_goals_at(points, goal_processes, sqlite_url, tmp_path)
    proof.tried("kill -9 of a goal with checks before a statement, sqlite", kills)


@pytest.mark.torture
@pytest.mark.kill_points(stride=STRIDE)
def test_a_goal_killed_before_any_statement_on_postgres_proves_its_work_once(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    goal_model.script = proof_scenario.reply_to_goal
    kills = kill_goals_at(points, goal_processes, postgres_url, tmp_path)
    proof.tried("kill -9 of a goal with checks before a statement, postgres", kills)
