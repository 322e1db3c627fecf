"""A turn that outgrows its model's context is killed with SIGKILL at every possible point. The next process compacts the context
in the same way, and sends the same requests.

The scenario covers both kinds of compaction: old results become stubs, and a note of the cheap tier replaces old messages.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.journeys import reading_scenario
from tests.journeys.accounts import strip_takeover
from tests.journeys.forked_process import ForkServer, ProcessPlan
from tests.journeys.snapshot import Snapshot, normalize
from tests.model_server import ModelServer
from tests.proofs import Proof

STRIDE = 120
pytestmark = pytest.mark.proof
FEWEST = 300  # statements


@pytest.fixture
def model(goal_model: ModelServer) -> ModelServer:
    goal_model.script = reading_scenario.reply
    return goal_model


def load_left(plan: ProcessPlan) -> Snapshot:
    left: Snapshot = json.loads(plan.left.read_text())
    return left


def take_requests(model: ModelServer) -> list[str]:
    """The requests since the last time, without repetitions."""
    requests = [json.dumps(normalize(request.body), sort_keys=True) for request in model.requests]
    model.forget()
    return list(dict.fromkeys(requests))


def list_compactions(state: Snapshot) -> list[str]:
    facts = [(message.get("metadata") or {}).get("headway") or {} for message in state["transcript"]]
    return ["stubs" if one["compaction"]["noted_before"] is None else "note" for one in facts if "compaction" in one]


def check_unkilled(state: Snapshot) -> None:
    """Check that the scenario has both kinds of compaction, and that the fact from the first chapter was found again."""
    assert set(list_compactions(state)) == {"stubs", "note"}
    (run,) = state["runs"]
    assert (run["status"], run["result"]) == ("completed", reading_scenario.FINAL)
    assert "read_result" in [effect["tool"] for effect in state["effects"]]
    assert len(state["effects"]) == reading_scenario.CHAPTERS + 1
    assert [event["kind"] for event in state["events"]].count("compacted") == len(list_compactions(state))
    tiers = [call["tier"] for call in state["model_calls"]]
    assert tiers.count("cheap") == list_compactions(state).count("note")


def kill_at_points(points: Sequence[int], processes: ForkServer, model: ModelServer, database_url: str, folder: Path) -> int:
    """Kill a new turn before each of these points, until a process ends first. Return the number of kills."""
    plan = reading_scenario.build_scenario(folder / "unkilled", database_url)
    assert processes.run_plan(plan)
    unkilled, expected = load_left(plan), take_requests(model)
    check_unkilled(unkilled)
    for kills, number in enumerate(points):
        plan = reading_scenario.build_scenario(folder / f"killed before {number}", database_url)
        if processes.run_plan(plan._replace(number=number)):
            assert number > FEWEST
            return kills
        print(f"{number}: {plan.point_log.read_text()}")
        assert processes.run_plan(plan)
        assert normalize(strip_takeover(load_left(plan))) == normalize(strip_takeover(unkilled))
        assert take_requests(model) == expected
    return len(points)


@pytest.mark.kill_points(stride=STRIDE, share=[247])
def test_a_turn_killed_before_any_statement_of_a_compaction_sends_the_same_requests(
    points: Sequence[int], goal_processes: ForkServer, model: ModelServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_at_points(points, goal_processes, model, sqlite_url, tmp_path)
    proof.tried("kill -9 of a turn with compactions before a statement, sqlite", kills)


@pytest.mark.torture
@pytest.mark.kill_points(stride=STRIDE)
def test_a_turn_killed_before_any_statement_of_a_compaction_on_postgres_sends_the_same_requests(
    points: Sequence[int], goal_processes: ForkServer, model: ModelServer, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_at_points(points, goal_processes, model, postgres_url, tmp_path)
    proof.tried("kill -9 of a turn with compactions before a statement, postgres", kills)
