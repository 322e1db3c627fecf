"""Goals whose process is killed are detected, marked once, reported to the operator, and restarted one after the other. The agent
decides about interrupted sub-goals before they continue."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from headway.actions.engine import dead_letters
from headway.actions.goals import goals
from headway.actions.installation import halts
from headway.engine.takeover import MAX_LOST_WORKERS
from headway.ledger.job import NEVER
from tests.journeys.forked_process import ForkServer
from tests.journeys.goal_scenario import Errand, Script, check_journal, count_notes, get_errand, list_entries
from tests.journeys.killed_goals import KilledGoals, open_killed_goals
from tests.journeys.worker_processes import list_events, read_rows
from tests.model_server import ModelServer, Reply, Request, calls, error
from tests.surfaces.server_harness import wait_until

TORTURE = pytest.mark.torture
EITHER = ["sqlite", pytest.param("postgres", marks=TORTURE)]
OTHER = [pytest.param("sqlite", marks=TORTURE), "postgres"]
STAGGER_MS = 200

OpenGoals = Callable[..., AbstractContextManager[KilledGoals]]


@pytest.fixture
def tell(
    kind: str, goal_processes: ForkServer, goal_model: ModelServer, request: pytest.FixtureRequest, tmp_path: Path
) -> OpenGoals:
    """Open killed goals with a test's script, on a database of this kind."""
    url: str = request.getfixturevalue(f"{kind}_url")
    return lambda script, **ways: open_killed_goals(goal_processes, goal_model, script, url, tmp_path, **ways)


def statuses(killed: KilledGoals) -> dict[str, str]:
    """The statuses of sub-goals, by errand."""
    rows = read_rows(killed.desk, "SELECT description, status FROM sub_goals")
    return {description.removeprefix("Note ").removesuffix("."): status for description, status in rows}


def count_requests(killed: KilledGoals) -> Counter[str]:
    """How often the model was asked for the next step of each errand."""
    return Counter(get_errand(request) for request in killed.model.requests if "note" in request.tools)


def list_run_statuses(left: dict[str, Any], name: str) -> list[str]:
    """The statuses of the sub-agent runs for an errand."""
    (number,) = [sub_goal["id"] for sub_goal in left["sub_goals"] if sub_goal["description"] == f"Note {name}."]
    return sorted(run["status"] for run in left["runs"] if run["sub_goal_id"] == number and run["role"] == "researcher")


def build_errands(name: str) -> list[Errand]:
    """One errand that is done before the crash, one that is not, and one that depends on both."""
    first, second, third = (f"{name}{number}" for number in (1, 2, 3))
    return [Errand(first, "agent"), Errand(second, "agent"), Errand(third, "inline", (first, second))]


@pytest.mark.parametrize("kind", OTHER)
def test_three_goals_killed_together_come_back_one_after_the_other(tell: OpenGoals) -> None:
    plans = {f"Goal {name}.": build_errands(name) for name in ("x", "y", "z")}
    plans["Goal y."] = [*plans["Goal y."], Errand("y4", "inline", ("y1",))]
    script = Script(plans, stuck_before=["x2", "y4"], stuck_after=["y2", "z2"])
    with tell(script, stagger_s=str(STAGGER_MS / 1000)) as killed:
        killed.run_until_stuck()
        done, under_way = ["x1", "y1", "z1"], ["x2", "y2", "y4", "z2"]
        assert sorted(name for name, status in statuses(killed).items() if status == "completed") == done
        assert sorted(name for name, status in statuses(killed).items() if status == "in-progress") == under_way
        before = count_requests(killed)
        killed.desk.database.write(halts.halt)  # so that nothing starts before the assertions below
        running = killed.begin()
        wait_until(lambda: bool(list_events(killed.desk, "recovered")), "somebody takes over")
        due = [due for (due,) in read_rows(killed.desk, "SELECT due_at FROM jobs WHERE kind = 'goal' ORDER BY due_at")]
        assert [later - due[0] for later in due] == [0, STAGGER_MS, 2 * STAGGER_MS]
        ours = "SELECT state, due_at FROM jobs WHERE kind = 'agent' AND state <> 'completed'"
        assert read_rows(killed.desk, ours) == [("delayed", NEVER)] * 3
        assert read_rows(killed.desk, "SELECT DISTINCT status FROM planning_cycles") == [("interrupted",)]
        killed.desk.database.write(halts.unhalt)
        assert running.result()

        assert {goal["status"] for goal in killed.left["goals"]} == {"completed"}
        assert count_notes(killed.plan) == dict.fromkeys([step.name for steps in plans.values() for step in steps], 1)
        assert set(statuses(killed).values()) == {"completed"}
        ended = Counter(entry["sub_goal_id"] for entry in list_entries(killed.left, "sub_goal_ended"))
        assert set(ended.values()) == {1}
        assert [count_requests(killed)[name] for name in done] == [before[name] for name in done] == [2, 2, 2]
        assert len(killed.asked_for("submit_resumption")) == len(list_entries(killed.left, "recovered")) == 3
        assert len(killed.asked_for("submit_plan")) == 3
        assert [event["goals"] for event in list_events(killed.desk, "recovered")] == [3]
        ((text,),) = read_rows(killed.desk, "SELECT text FROM notices")
        numbers = {goal["description"]: goal["id"] for goal in killed.left["goals"]}
        agents = {"Goal x.": "(researcher)", "Goal y.": "(main agent, researcher)", "Goal z.": "(researcher)"}
        for goal, who in agents.items():
            assert f"#{numbers[goal]} “{goal}” {who}" in text
        assert Counter(cycle["status"] for cycle in killed.left["planning_cycles"]) == {"interrupted": 3, "completed": 3}


@pytest.mark.parametrize("kind", EITHER)
def test_the_agent_decides_whether_half_done_work_continues_or_restarts(tell: OpenGoals) -> None:
    plan = [Errand(name, "agent") for name in ("on", "anew", "unsaid")] + [Errand("inline", "inline"), Errand("last", "inline")]
    decisions = {"on": "resume", "anew": "retry", "inline": "retry"}
    script = Script({"Decide.": plan}, stuck_after=["on", "anew", "inline"], stuck_before=["unsaid"], decisions=decisions)
    with tell(script) as killed:
        killed.run_until_stuck()
        assert count_notes(killed.plan) == {"on": 1, "anew": 1, "inline": 1}
        left = killed.run_to_the_end()
        # A discarded attempt may have had its effect. The model knew this when it chose to retry.
        assert count_notes(killed.plan) == {"on": 1, "anew": 2, "inline": 2, "unsaid": 1, "last": 1}
        assert set(statuses(killed).values()) == {"completed"}
        assert set(Counter(entry["sub_goal_id"] for entry in list_entries(left, "sub_goal_ended")).values()) == {1}
        begun = Counter(entry["description"] for entry in list_entries(left, "sub_goal_started"))
        assert begun == {"Note on.": 1, "Note anew.": 2, "Note unsaid.": 1, "Note inline.": 2, "Note last.": 1}
        assert [list_run_statuses(left, name) for name in ("on", "anew", "unsaid")] == [
            ["completed"],
            ["canceled", "completed"],
            ["completed"],
        ]
        (decided,) = list_entries(left, "recovered")
        assert Counter(decided["sub_goals"].values()) == {"resume": 2, "retry": 2}
        assert len(killed.asked_for("submit_resumption")) == 1


@pytest.mark.parametrize("kind", OTHER)
def test_a_new_plan_after_a_crash_keeps_the_named_sub_goals_and_stops_the_rest(tell: OpenGoals) -> None:
    plan = [Errand("kept", "agent"), Errand("dropped", "agent"), Errand("last", "inline", ("kept", "dropped"))]

    def replan(numbers: dict[str, str]) -> Reply:
        instead = Errand("instead", "agent").as_json()
        last = {"id": numbers["last"], "depends_on": [numbers["kept"], "instead"]}
        return calls(("submit_replan", {"sub_goals": [{"id": numbers["kept"]}, instead, last], "reason": "It was cut short."}))

    decisions = {"kept": "replan", "dropped": "replan"}
    with tell(Script({"Replan.": plan}, stuck_after=["kept", "dropped"], decisions=decisions, replan=replan)) as killed:
        killed.run_until_stuck()
        left = killed.run_to_the_end()
        assert statuses(killed) == {"kept": "completed", "dropped": "skipped", "instead": "completed", "last": "completed"}
        assert count_notes(killed.plan) == {"kept": 1, "dropped": 1, "instead": 1, "last": 1}
        assert [list_run_statuses(left, name) for name in ("kept", "dropped", "instead")] == [
            ["completed"],
            ["canceled"],
            ["completed"],
        ]
        (goal,) = left["goals"]
        assert (goal["status"], goal["plan_no"], goal["replan_count"]) == ("completed", 2, 1)
        assert len(killed.asked_for("submit_replan")) == len(killed.asked_for("submit_plan")) == 1


@pytest.mark.parametrize("kind", EITHER)
def test_half_done_work_continues_if_the_model_is_unreachable(tell: OpenGoals) -> None:
    class Deaf(Script):
        def decide(self, request: Request) -> Reply:
            return error(503)

    with tell(Deaf({"Go on.": [Errand("agent", "agent"), Errand("inline", "inline")]}, stuck_after=["agent", "inline"])) as killed:
        killed.run_until_stuck()
        left = killed.run_to_the_end()
        assert count_notes(killed.plan) == {"agent": 1, "inline": 1}
        (decided,) = list_entries(left, "recovered")
        assert set(decided["sub_goals"].values()) == {"resume"}
        check_journal(left)


@pytest.mark.parametrize("kind", EITHER)
@pytest.mark.parametrize(("decision", "times"), [("resume", 1), ("retry", 2)])
def test_the_work_of_a_helper_of_the_main_agent_counts_as_half_done(tell: OpenGoals, decision: str, times: int) -> None:
    class Delegating(Script):
        def run(self, request: Request) -> Reply:
            if get_errand(request) == "whole" and not request.tool_results:
                return calls(("delegate", {"agent": "researcher", "task": "Note part."}))
            return super().run(request)

    script = Delegating({"Delegate.": [Errand("whole", "inline")]}, stuck_after=["part"], decisions={"whole": decision})
    with tell(script) as killed:
        running = killed.begin()
        wait_until(lambda: script.waiting == ["part"] and sleeping(killed), "the helper waits, and the main agent for it")
        killed.kill(running)
        left = killed.run_to_the_end()
        assert count_notes(killed.plan) == {"part": times}
        assert statuses(killed) == {"whole": "completed"}
        assert list_run_statuses(left, "whole") == ["canceled"] * (times - 1) + ["completed"]
        assert len(killed.asked_for("submit_resumption")) == 1
        assert {run["status"] for run in left["runs"] if run["role"] == "index"} == {"completed"}


def sleeping(killed: KilledGoals) -> bool:
    return read_rows(killed.desk, "SELECT state FROM jobs WHERE kind = 'goal'") == [("delayed",)]


@pytest.mark.parametrize("kind", OTHER)
def test_downtime_does_not_make_a_sub_agent_stuck(tell: OpenGoals) -> None:
    with tell(Script({"Sleep long.": [Errand("agent", "agent")]}, stuck_after=["agent"])) as killed:
        killed.run_until_stuck()
        an_hour = "UPDATE sub_goals SET checked_at = checked_at - 3600000, progress_at = progress_at - 3600000"
        killed.desk.database.write(lambda tx: tx.run(an_hour))
        left = killed.run_to_the_end()
        assert left["goals"][0]["status"] == "completed"
        assert (killed.asked_for("submit_intervention"), list_entries(left, "intervened")) == ([], [])


@pytest.mark.parametrize("kind", EITHER)
def test_a_goal_that_keeps_killing_processes_is_stopped_and_continues_when_it_is_resumed(tell: OpenGoals) -> None:
    with tell(Script({"Beware.": [Errand("agent", "agent"), Errand("inline", "inline")]})) as killed:
        for _ in range(MAX_LOST_WORKERS):
            assert not killed.processes.run_plan(killed.plan._replace(number=4, only="journal"))  # at the start of its first cycle
        left = killed.run_to_the_end()
        (goal,) = left["goals"]
        assert (goal["status"], goal["pause_kind"]) == ("paused", "fault")
        assert [notice["kind"] for notice in left["notices"]] == ["recovered"] * (MAX_LOST_WORKERS - 1) + ["fault"]
        assert len(list_entries(left, "interrupted")) == MAX_LOST_WORKERS - 1
        assert len(list_events(killed.desk, "job_dead")) == 1
        assert read_rows(killed.desk, "SELECT state, owner FROM jobs WHERE kind = 'goal'") == [("dead", "")]
        assert left["pools"] == [] or left["pools"][0]["reserved"] == 0

        killed.desk.write(dead_letters.retry, goal["run_id"])
        left = killed.run_to_the_end()
        assert left["goals"][0]["status"] == "completed"
        assert count_notes(killed.plan) == {"agent": 1, "inline": 1}
        assert {cycle["status"] for cycle in left["planning_cycles"]} == {"completed"}


@pytest.mark.parametrize("kind", OTHER)
def test_a_paused_goal_stays_paused_through_a_crash(tell: OpenGoals) -> None:
    """A running sub-agent finishes its work, as it would have without the crash; after that nothing is interrupted."""
    with tell(
        Script({"Wait.": [Errand("agent", "agent"), Errand("inline", "inline", ("agent",))]}, stuck_after=["agent"])
    ) as killed:
        running = killed.begin()
        wait_until(lambda: killed.script.waiting == ["agent"] and killed.settled, "the agent waits")
        ((goal_id,),) = read_rows(killed.desk, "SELECT id FROM goals")
        killed.desk.write(goals.pause, goal_id)
        killed.kill(running)

        running = killed.begin()
        wait_until(lambda: statuses(killed) == {"agent": "completed", "inline": "pending"}, "the agent ends")
        wait_until(
            lambda: read_rows(killed.desk, "SELECT 1 FROM jobs WHERE state IN ('queued', 'running')") == [],
            "nobody works, or is about to",
        )
        assert [event["goals"] for event in list_events(killed.desk, "recovered")] == [1]
        killed.kill(running)

        first = {owner for (owner,) in read_rows(killed.desk, "SELECT executor_id FROM worker_leases")}
        running = killed.begin()
        wait_until(
            lambda: {owner for (owner,) in read_rows(killed.desk, "SELECT executor_id FROM worker_leases")} > first,
            "another is there",
        )
        assert read_rows(killed.desk, "SELECT status, pause_kind FROM goals") == [("paused", "operator")]
        killed.desk.write(goals.resume, goal_id)
        assert running.result()
        assert killed.left["goals"][0]["status"] == "completed"
        assert [event["goals"] for event in list_events(killed.desk, "recovered")] == [1]
        assert count_notes(killed.plan) == {"agent": 1, "inline": 1}
        assert killed.asked_for("submit_resumption") == []
