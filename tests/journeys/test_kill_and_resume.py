"""A turn is killed with SIGKILL at every possible point, and each time the next process ends it as if nothing had happened.

The scenario covers every path of the loop: ledger tools, external tools that may be repeated and one that may not, a refusal, a
call cut off and summarised, a writ, and an answer cut off and continued. The model is an HTTP server, as strict as the real API,
and outlives its clients. Compactions have a scenario of their own: test_killed_compaction.py.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from tests.journeys import turn_home
from tests.journeys.accounts import check_all
from tests.journeys.forked_process import ForkServer, ProcessPlan
from tests.journeys.snapshot import Snapshot
from tests.journeys.turn_model import run_turn_model
from tests.model_server import ModelProcess
from tests.proofs import Proof

STRIDE = 108
TORTURE = [pytest.mark.torture]
pytestmark = pytest.mark.proof
FEWEST = 300  # statements, and points inside tools
ANSWERS = 11  # of the model
INSIDE_TOOLS = ["invited", "about to order", "ordered", "about to order", "ordered"]


class KilledTurns:
    """Turns of the scenario, each in a process that is killed, and the next process, which ends it."""

    def __init__(self, processes: ForkServer, model: ModelProcess, folder: Path) -> None:
        self.processes, self.model, self.folder = processes, model, folder
        self.unkilled: dict[str, Snapshot] = {}  # what is left by a turn that is not killed, on each kind of database

    def run_unkilled(self, database_url: str) -> Snapshot:
        kind = database_url.partition(":")[0]
        if kind not in self.unkilled:
            plan = self.build_plan(database_url)
            assert self.processes.run_plan(plan)
            assert len(self.model.requests) == ANSWERS
            self.unkilled[kind] = load_snapshot(plan.left)
        return self.unkilled[kind]

    def build_plan(self, database_url: str) -> ProcessPlan:
        return turn_home.build_scenario(self.folder / uuid4().hex, database_url)

    def kill(self, plan: ProcessPlan) -> bool:
        """Run the turn, and let the next process end it if it was killed. Return whether it was."""
        unkilled = self.run_unkilled(plan.database_url)
        survived = self.processes.run_plan(plan)
        print(f"{plan.number} {plan.key}: {plan.point_log.read_text() if plan.point_log.exists() else 'by the model'}")
        if not survived:
            assert self.processes.run_plan(plan._replace(number=None, key="alive"))
            check_all(plan, unkilled, load_snapshot(plan.found))
        self.model.forget()  # requests are large, and there are thousands
        return not survived

    def kill_before(self, points: Sequence[int], database_url: str) -> int:
        """Kill a new turn before each of these points, until a process ends first. Return the number of kills."""
        for kills, number in enumerate(points):
            if not self.kill(self.build_plan(database_url)._replace(number=number)):
                assert number > FEWEST
                return kills
        return len(points)


@pytest.fixture(scope="session")
def all_turns(goal_processes: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledTurns]:
    with run_turn_model() as model:
        yield KilledTurns(goal_processes._replace(model_url=model.url), model, tmp_path_factory.mktemp("turns"))


@pytest.fixture
def turns(all_turns: KilledTurns) -> Iterator[KilledTurns]:
    all_turns.model.forget()
    yield all_turns
    assert all_turns.model.violations == []


def load_snapshot(path: Path) -> Snapshot:
    snapshot: Snapshot = json.loads(path.read_text())
    return snapshot


@pytest.mark.kill_points(stride=STRIDE, share=[112, 220])
def test_a_turn_killed_before_any_statement_ends_as_if_it_had_not_been(
    points: Sequence[int], turns: KilledTurns, sqlite_url: str, proof: Proof
) -> None:
    proof.tried("kill -9 of a turn before a statement, sqlite", turns.kill_before(points, sqlite_url))


@pytest.mark.torture
@pytest.mark.kill_points(stride=STRIDE)
def test_a_turn_killed_before_any_statement_on_postgres_ends_as_if_it_had_not_been(
    points: Sequence[int], turns: KilledTurns, postgres_url: str, proof: Proof
) -> None:
    proof.tried("kill -9 of a turn before a statement, postgres", turns.kill_before(points, postgres_url))


@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=TORTURE), "postgres"])
def test_a_turn_that_is_killed_repeatedly_still_ends(
    kind: str, turns: KilledTurns, request: pytest.FixtureRequest, proof: Proof
) -> None:
    """Each process gets a little further."""
    database_url: str = request.getfixturevalue(f"{kind}_url")
    kills = 0
    for number in range(120, 180) if proof.whole else [130]:
        plan = turns.build_plan(database_url)
        snapshots: list[Snapshot] = []
        while not turns.processes.run_plan(plan._replace(number=number)):
            snapshots.append(load_snapshot(plan.found))
        assert len(snapshots) > 1
        turns.model.forget()
        check_all(plan, turns.run_unkilled(database_url), *snapshots, load_snapshot(plan.found))
        kills += len(snapshots)
    proof.tried(f"kill -9 of a turn over and over, {kind}", kills)


@pytest.mark.parametrize("verb", ["before", "after"])
def test_a_turn_killed_around_any_answer_of_the_model_ends_as_if_it_had_not_been(
    verb: str, turns: KilledTurns, postgres_url: str, proof: Proof
) -> None:
    numbers = range(1, ANSWERS + 1) if proof.whole else [5]
    for number in numbers:
        killed = turns.kill(turns.build_plan(postgres_url)._replace(key=f"{verb}.{number}"))
        assert killed or (verb, number) == ("after", ANSWERS)
    proof.tried("kill -9 of a turn around a model's answer, postgres", len(numbers))


def test_a_turn_killed_inside_a_tool_ends_as_if_it_had_not_been(turns: KilledTurns, postgres_url: str, proof: Proof) -> None:
    numbers = range(1, len(INSIDE_TOOLS) + 1) if proof.whole else [3]
    for number in numbers:
        plan = turns.build_plan(postgres_url)._replace(number=number, only="tool")
        assert turns.kill(plan)
        assert plan.point_log.read_text() == INSIDE_TOOLS[number - 1]
    assert not proof.whole or not turns.kill(turns.build_plan(postgres_url)._replace(number=len(INSIDE_TOOLS) + 1, only="tool"))
    proof.tried("kill -9 of a turn inside a tool, postgres", len(numbers))
