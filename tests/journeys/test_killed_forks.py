"""A process that forks a turn is killed with SIGKILL at every possible point: while it copies the turn, and while the fork runs.

Each time there is one fork in the end and never half of one. It ends like one that was not killed, and repeats no call.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.agents.turn_harness import list_open_ids
from tests.journeys.forked_process import ForkServer, ProcessPlan
from tests.journeys.goal_scenario import USAGE, count_notes
from tests.journeys.snapshot import Snapshot
from tests.journeys.turn_home import PRICES
from tests.journeys.worker_processes import OWN
from tests.model_server import ModelServer, Reply, Request, call, calls, text
from tests.proofs import Proof

STRIDE = 120
pytestmark = pytest.mark.proof
FEWEST = 100  # statements
FINAL = "The table is laid."


def reply(request: Request) -> Reply:
    match request.assistant_turns:
        case 0:
            items = {"items": [{"title": "plates"}, {"title": "cups"}]}
            return calls(call("create_todo", items, id="plan"), call("note", {"name": "plates"}, id="plates"), usage=USAGE)
        case 1:
            done = call("complete_todo", {"todoId": list_open_ids(request)[0], "outcome": "done"}, id="first")
            return calls(call("note", {"name": "cups"}, id="cups"), done, usage=USAGE)
        case 2:
            return calls(call("complete_todo", {"todoId": list_open_ids(request)[0], "outcome": "done"}, id="second"), usage=USAGE)
    return text(FINAL, usage=USAGE)


@pytest.fixture
def model(goal_model: ModelServer) -> ModelServer:
    goal_model.script = reply
    return goal_model


def build_scenario(folder: Path, database_url: str) -> ProcessPlan:
    """A fresh home folder with a tool whose effect can be counted, and a tenant with a conversation."""
    for name, content in (("tools/own.py", OWN), ("prices.toml", PRICES)):
        (folder / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "home" / name).write_text(content)
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
        conversation_id = desk.conversation().id
    return ProcessPlan(str(folder / "home"), database_url, desk.tenant.id, conversation_id, request="Lay the table.")


def check_fork(left: Snapshot, plan: ProcessPlan) -> None:
    assert count_notes(plan) == Counter(("plates", "cups")), "no call is made twice"
    assert [(turn["status"], turn["outcome"]) for turn in left["turns"]] == [("finished", "drained")] * 2
    assert [run["result"] for run in left["runs"]] == [FINAL] * 2
    assert [(run["reserved"], run["unread"]) for run in left["runs"]] == [(0, 0)] * 2
    rows = Counter((todo["subject"], todo["status"], todo["outcome"], todo["position"]) for todo in left["todos"])
    assert rows == {("plates", "completed", "done", 0): 2, ("cups", "completed", "done", 1): 2}
    effects = Counter((effect["n"], effect["call_index"], effect["tool"], effect["state"]) for effect in left["effects"])
    assert set(effects.values()) == {2}
    kinds = Counter(event["kind"] for event in left["events"])
    assert (kinds["turn_started"], kinds["turn_finished"], kinds["tool_call"], kinds["tool_result"]) == (2, 2, 10, 10)
    assert [message["content"] for message in left["messages"]] == ["Lay the table.", FINAL] * 2


def kill_forks_at(points: Sequence[int], processes: ForkServer, database_url: str, folder: Path) -> int:
    """Kill a process that forks a new turn before each of these points, until it ends first. Return the number of kills."""
    for kills, number in enumerate(points):
        plan = build_scenario(folder / f"killed before {number}", database_url)
        assert processes.run_plan(plan)
        killed = not processes.run_plan(plan._replace(fork_at=1, number=number))
        assert not killed or processes.run_plan(plan._replace(fork_at=1))
        check_fork(json.loads(plan.left.read_text()), plan)
        if not killed:
            assert number > FEWEST
            return kills
    return len(points)


@pytest.mark.usefixtures("model")
@pytest.mark.kill_points(stride=STRIDE, share=[67])
def test_a_fork_killed_before_any_statement_is_there_once_and_repeats_no_call(
    points: Sequence[int], goal_processes: ForkServer, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_forks_at(points, goal_processes, sqlite_url, tmp_path)
    proof.tried("kill -9 of a fork before a statement, sqlite", kills)


@pytest.mark.torture
@pytest.mark.usefixtures("model")
@pytest.mark.kill_points(stride=STRIDE)
def test_a_fork_killed_before_any_statement_on_postgres_is_there_once_and_repeats_no_call(
    points: Sequence[int], goal_processes: ForkServer, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    kills = kill_forks_at(points, goal_processes, postgres_url, tmp_path)
    proof.tried("kill -9 of a fork before a statement, postgres", kills)
