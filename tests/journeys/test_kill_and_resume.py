"""A turn is killed with SIGKILL at every possible point, and each time the next process ends it as if nothing had happened.

The scenario covers every path of the loop: ledger tools, external tools that may be repeated and one that may not, a refusal, a
call cut off and summarised, a writ, and an answer cut off and continued. The model is an HTTP server, as strict as the real API,
and outlives its clients. Compactions have a scenario of their own: test_killed_compaction.py.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.journeys import turn_home
from tests.journeys.accounts import check_all
from tests.journeys.forked_process import ForkServer, ProcessPlan, run_fork_server
from tests.journeys.snapshot import Snapshot
from tests.journeys.turn_model import run_turn_model
from tests.model_server import ModelProcess
from tests.proofs import Proof

STRIDE = 108  # a normal run tries one point in this many: all of them take minutes
ORDINARY = 4
TORTURE = [pytest.mark.torture]
pytestmark = pytest.mark.proof
FEWEST = 300  # statements, and points inside tools


@pytest.fixture(scope="session")
def running_model() -> Iterator[ModelProcess]:
    with run_turn_model() as server:
        yield server


@pytest.fixture(scope="session")
def processes(running_model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """One fork server per test session, because loading every module takes seconds."""
    with run_fork_server(running_model.url, tmp_path_factory.mktemp("processes")) as server:
        yield server


@pytest.fixture
def model(running_model: ModelProcess) -> Iterator[ModelProcess]:
    running_model.forget()
    yield running_model
    assert running_model.violations == []


def load_snapshot(path: Path) -> Snapshot:
    snapshot: Snapshot = json.loads(path.read_text())
    return snapshot


def run_unkilled(processes: ForkServer, plan: ProcessPlan) -> Snapshot:
    """Run a plan without kills, and return the state it leaves."""
    assert processes.run_plan(plan)
    return load_snapshot(plan.left)


def resume_and_check(processes: ForkServer, plan: ProcessPlan, unkilled: Snapshot) -> None:
    """End the turn in the next process, and compare the result with the turn that was never killed."""
    print(f"{Path(plan.home).name}: {plan.point_log.read_text() if plan.point_log.exists() else 'by the model'}")
    assert processes.run_plan(plan)
    check_all(plan, unkilled, load_snapshot(plan.found))


@pytest.mark.parametrize("first", [pytest.param(one, marks=[] if one == ORDINARY else TORTURE) for one in range(1, STRIDE + 1)])
def test_a_turn_killed_before_any_statement_ends_as_if_it_had_not_been(
    first: int, processes: ForkServer, model: ModelProcess, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    proof.tried(
        "kill -9 of a turn before a statement, sqlite", kill_at_points(count(first, STRIDE), processes, model, sqlite_url, tmp_path)
    )


@pytest.mark.torture
@pytest.mark.parametrize("first", range(1, STRIDE + 1))
def test_a_turn_killed_before_any_statement_on_postgres_ends_as_if_it_had_not_been(
    first: int, processes: ForkServer, model: ModelProcess, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    proof.tried(
        "kill -9 of a turn before a statement, postgres",
        kill_at_points(count(first, STRIDE), processes, model, postgres_url, tmp_path),
    )


def kill_at_points(numbers: Iterable[int], processes: ForkServer, model: ModelProcess, database_url: str, folder: Path) -> int:
    """Kill a new turn before each of these points, until a process ends first. Return the number of kills."""
    unkilled = run_unkilled(processes, turn_home.build_scenario(folder / "unkilled", database_url))
    for kills, number in enumerate(numbers):
        plan = turn_home.build_scenario(folder / f"killed before {number}", database_url)
        if processes.run_plan(plan._replace(number=number)):
            assert number > FEWEST
            return kills
        resume_and_check(processes, plan, unkilled)
        model.forget()  # requests are large, and there are thousands
    raise AssertionError("there is no end of moments")


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=TORTURE), "postgres"])
def test_a_turn_that_is_killed_repeatedly_still_ends(
    kind: str, processes: ForkServer, request: pytest.FixtureRequest, tmp_path: Path, proof: Proof
) -> None:
    """Each process gets a little further."""
    database_url: str = request.getfixturevalue(f"{kind}_url")
    unkilled = run_unkilled(processes, turn_home.build_scenario(tmp_path / "unkilled", database_url))
    kills = 0
    for number in range(120, 180) if proof.whole else [130]:
        plan = turn_home.build_scenario(tmp_path / f"killed before every {number}", database_url)
        snapshots: list[Snapshot] = []
        while not processes.run_plan(plan._replace(number=number)):
            snapshots.append(load_snapshot(plan.found))
        assert len(snapshots) > 1
        check_all(plan, unkilled, *snapshots, load_snapshot(plan.found))
        kills += len(snapshots)
    proof.tried(f"kill -9 of a turn over and over, {kind}", kills)


@pytest.mark.parametrize("verb", ["before", "after"])
def test_a_turn_killed_around_any_answer_of_the_model_ends_as_if_it_had_not_been(
    verb: str, processes: ForkServer, model: ModelProcess, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    unkilled = run_unkilled(processes, turn_home.build_scenario(tmp_path / "unkilled", postgres_url))
    requests = len(model.requests)
    assert requests == 11
    first, step = (1, 1) if proof.whole else (1 if verb == "before" else 2, 2)
    for number in range(first, requests + 1, step):
        plan = turn_home.build_scenario(tmp_path / f"killed {verb} {number}", postgres_url)
        survived = processes.run_plan(plan._replace(key=f"{verb}.{number}"))
        assert not survived or (verb, number) == ("after", requests)
        resume_and_check(processes, plan, unkilled)
    proof.tried("kill -9 of a turn around a model's answer, postgres", len(range(first, requests + 1, step)))


@pytest.mark.usefixtures("model")
def test_a_turn_killed_inside_a_tool_ends_as_if_it_had_not_been(
    processes: ForkServer, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    unkilled = run_unkilled(processes, turn_home.build_scenario(tmp_path / "unkilled", postgres_url))
    moments = []
    for number in count(1):
        plan = turn_home.build_scenario(tmp_path / f"killed {number}", postgres_url)
        if processes.run_plan(plan._replace(number=number, only="tool")):
            break
        moments.append(plan.point_log.read_text())
        resume_and_check(processes, plan, unkilled)
    proof.tried("kill -9 of a turn inside a tool, postgres", len(moments))
    assert moments == ["invited", "about to order", "ordered", "about to order", "ordered"]
