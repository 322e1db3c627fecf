"""A turn, and a goal, whose calls people must approve are killed with SIGKILL at every possible point: while a call is proposed,
while a person decides although nothing runs, and while the next process makes the call. Each time there is one approval per call,
one notice and one decision, and each call is made once if it was approved and never if not."""

import json
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

import pytest

from tests.journeys import approval_scenario
from tests.journeys.accounts import strip_takeover
from tests.journeys.forked_process import ForkServer, ProcessPlan
from tests.journeys.goal_scenario import count_notes
from tests.journeys.snapshot import Snapshot, normalize
from tests.model_server import ModelServer
from tests.proofs import Proof

STRIDE = 240
GOAL_STRIDE = 320
pytestmark = pytest.mark.proof
FEWEST = 249  # statements
FAR = 1_000_000  # beyond any statement


@pytest.fixture
def model(goal_model: ModelServer) -> ModelServer:
    goal_model.script = approval_scenario.reply
    return goal_model


def load_left(plan: ProcessPlan) -> Snapshot:
    left: Snapshot = json.loads(plan.left.read_text())
    return left


def run_story(processes: ForkServer, plan: ProcessPlan, number: int = 0) -> bool:
    """Run the plan to its end: one process until a person is needed, one in which a person decides, and so on.

    One of them is killed before the point with this number, counted from the first. Return whether one was.
    """
    while True:
        for people in ("wait", "decide"):
            killed = not processes.run_plan(plan._replace(people=people, number=number))
            if killed:
                print(f"{Path(plan.home).parent.name}, {people}: {plan.point_log.read_text()}")
                assert processes.run_plan(plan._replace(people="live"))
                return True
            number -= int(plan.points.read_text())
            left = load_left(plan)
            if all(row["ended_at"] for row in left["turns"] + left["goals"]):
                return False


def is_certain(left: Snapshot) -> bool:
    """Whether no call was interrupted."""
    return all(effect["state"] != "unknown" for effect in left["effects"])


def simplify(left: Snapshot) -> Snapshot:
    """The normal form, with the events in any order: calls that are approved one by one are made in between."""
    simple: Snapshot = normalize(strip_takeover(left))
    return simple | {"events": sorted(event["kind"] for event in simple["events"])}


def explain(got: Snapshot, expected: Snapshot) -> str:
    """The first rows that differ: the whole would take minutes to compare."""
    rows = [(name, *pair) for name in expected for pair in zip_longest(got[name], expected[name]) if pair[0] != pair[1]]
    return "\n".join(map(str, rows[:5]))


def kill_turns_at(points: Sequence[int], processes: ForkServer, database_url: str, folder: Path) -> int:
    """Kill a new turn before each of these points, until it ends first. Return the number of kills."""
    unkilled: Snapshot | None = None
    for kills, number in enumerate(chain([FAR], points)):
        plan = approval_scenario.build_scenario(folder / f"killed before {number}", database_url)
        killed = run_story(processes, plan, number)
        left = load_left(plan)
        approval_scenario.check_turn(left, count_notes(plan))
        unkilled = unkilled or left
        if is_certain(left):
            got, expected = simplify(left), simplify(unkilled)
            assert [name for name in expected if got[name] != expected[name]] == [], explain(got, expected)
        if kills and not killed:
            assert number > FEWEST
            return kills - 1
    return len(points)


def kill_goals_at(points: Sequence[int], processes: ForkServer, database_url: str, folder: Path) -> int:
    """Kill a new goal before each of these points, until it ends first. Return the number of kills."""
    for kills, number in enumerate(points):
        plan = approval_scenario.build_goal_scenario(folder / f"killed before {number}", database_url)
        killed = run_story(processes, plan, number)
        approval_scenario.check_goal(load_left(plan), count_notes(plan))
        if not killed:
            assert number > FEWEST
            return kills
    return len(points)


@pytest.mark.usefixtures("model")
@pytest.mark.kill_points(stride=STRIDE, share=[249])
def test_a_turn_killed_before_any_statement_proposes_decides_and_calls_once(
    points: Sequence[int], goal_processes: ForkServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_turns_at(points, goal_processes, sqlite_url, tmp_path)
    proof.tried("kill -9 of a turn that needs approval before a statement, sqlite", kills)


@pytest.mark.torture
@pytest.mark.usefixtures("model")
@pytest.mark.kill_points(stride=STRIDE)
def test_a_turn_killed_before_any_statement_on_postgres_proposes_decides_and_calls_once(
    points: Sequence[int], goal_processes: ForkServer, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_turns_at(points, goal_processes, postgres_url, tmp_path)
    proof.tried("kill -9 of a turn that needs approval before a statement, postgres", kills)


@pytest.mark.kill_points(stride=GOAL_STRIDE, step=4, share=[245])
def test_a_goal_killed_before_any_statement_proposes_decides_and_calls_once(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    goal_model.script = approval_scenario.reply_to_goal
    kills = kill_goals_at(points, goal_processes, sqlite_url, tmp_path)
    proof.tried("kill -9 of a goal that needs approval before a statement, sqlite", kills)


@pytest.mark.torture
@pytest.mark.kill_points(stride=GOAL_STRIDE, step=4)
def test_a_goal_killed_before_any_statement_on_postgres_proposes_decides_and_calls_once(
    points: Sequence[int], goal_processes: ForkServer, goal_model: ModelServer, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    goal_model.script = approval_scenario.reply_to_goal
    kills = kill_goals_at(points, goal_processes, postgres_url, tmp_path)
    proof.tried("kill -9 of a goal that needs approval before a statement, postgres", kills)
