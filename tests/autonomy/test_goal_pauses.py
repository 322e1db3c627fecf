"""Pausing, resuming and abandoning: nothing new starts, finished work is kept, and running agents stop or finish."""

import time
from pathlib import Path

import pytest

from headway.actions.goals import goals
from headway.actions.installation import halts
from headway.actions.runs import runs
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.run import Run
from headway.storage.direct import DirectDatabase
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction
from tests.autonomy.goal_harness import Gate, Pursuit, agent, by_part, by_transcript, in_order, open_pursuit, plan, reply_done, step
from tests.model_server import Reply, Request, Script, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")


def test_inline_work_stops_at_its_next_step_and_resumes_with_the_same_transcript(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    work = {"dig": by_transcript(calls(("now", {})), gate.before(text("A hole.")))}
    with open_pursuit(database_url, tmp_path, by_part(work, plan=plan(step("dig")))) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: len(pursuit.list_requests("work")) == 2)
        assert pursuit.act(goals.pause, pursuit.goal_id).pause_kind == "operator"
        gate.open()
        pursuit.wait_until_paused()
        assert pursuit.statuses() == {"dig": "in-progress"}
        assert pursuit.job().state == "delayed"
        pursuit.act(goals.resume, pursuit.goal_id)
        assert pursuit.wait_until_ended().status == "completed"
        _, before, after = pursuit.list_requests("work")
        assert after.messages == before.messages
        assert [entry["after"] for entry in pursuit.journal("resumed")] == ["operator"]


def test_sub_agents_finish_their_work_and_no_new_work_starts(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    work = {"a": gate.before(reply_done), "b": gate.before(reply_done)}
    with open_pursuit(database_url, tmp_path, by_part(work, plan=plan(agent("a"), agent("b"), step("c", "a")))) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: set(pursuit.list_started_tasks()) == {"a", "b"} and pursuit.job().state == "delayed")
        pursuit.act(goals.pause, pursuit.goal_id)
        gate.open()
        pursuit.until(lambda: pursuit.statuses() == {"a": "completed", "b": "completed", "c": "pending"})
        pursuit.until(lambda: pursuit.job().state == "delayed" and not pursuit.headway.engine.tasks)
        assert pursuit.list_requests("evaluation") == []
        assert pursuit.goal().status == "paused"
        pursuit.act(goals.resume, pursuit.goal_id)
        assert pursuit.wait_until_ended().status == "completed"
        assert pursuit.list_started_tasks()[-1] == "c"
        assert sorted(pursuit.list_started_tasks()) == ["a", "b", "c"]


def test_a_goal_that_is_paused_while_it_is_planned_sets_no_money_aside(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    script = by_part(plan=gate.before(plan(step("dig"))))
    with open_pursuit(database_url, tmp_path, script, priced=True, budget_usd="1000") as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: len(pursuit.list_requests("plan")) == 1)
        assert pursuit.pool().reserved > 0
        pursuit.act(goals.pause, pursuit.goal_id)
        assert pursuit.pool().reserved == 0
        gate.open()
        pursuit.wait_until_paused()
        assert pursuit.sub_goals() == []
        pursuit.act(goals.resume, pursuit.goal_id)
        assert pursuit.wait_until_ended().status == "completed"


def test_abandoning_a_goal_stops_all_its_agents(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    work = {
        "a": gate.before(reply_done),
        "c": by_transcript(calls(("spawn_agent", {"task": "d"})), gate.before(reply_done)),
        "d": gate.before(reply_done),
    }
    with open_pursuit(database_url, tmp_path, by_part(work, plan=plan(agent("a"), step("b", "a"), step("c")))) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: {"a", "c", "d"} <= set(pursuit.list_started_tasks()))
        goal = pursuit.act(goals.abandon, pursuit.goal_id)
        assert goal.status == "abandoned"
        assert set(pursuit.statuses().values()) == {"skipped"}
        assert {sub_goal.reason for sub_goal in pursuit.sub_goals()} == {"The goal was abandoned."}
        assert {job.state for job in pursuit.jobs()} == {"canceled"}
        runs = pursuit.database.read(lambda tx: tx.all("SELECT status FROM runs WHERE tenant_id = ?", pursuit.tenant_id))
        assert runs == [("canceled",)] * 3
        gate.open()
        pursuit.until(lambda: not pursuit.headway.engine.tasks)
        assert set(pursuit.statuses().values()) == {"skipped"}, "whoever comes back late changes nothing"


@pytest.mark.parametrize("bound", ["deadline", "budget"])
def test_an_exhausted_bound_is_escalated_and_a_decision_lifts_it(database_url: str, tmp_path: Path, bound: str) -> None:
    gate = Gate()
    priced = calls(("submit_plan", {"sub_goals": [step("dig")]}), usage=(1_999, 1))
    script = by_part(plan=gate.before(priced))
    with open_pursuit(database_url, tmp_path, script, priced=True, budget_usd="1000") as pursuit:
        pursuit.set_goal(budget=NANOS_PER_DOLLAR if bound == "budget" else 0)
        pursuit.until(lambda: pursuit.list_requests("plan"))
        if bound == "deadline":
            pursuit.database.write(lambda tx: tx.run("UPDATE goals SET deadline_at = 1"))
        gate.open()
        goal = pursuit.wait_until_paused()
        assert goal.pause_kind == ("goal_budget" if bound == "budget" else "deadline")
        assert ("used up its budget: $2.0000 of $1.0000" if bound == "budget" else "deadline has passed") in goal.pause_reason
        assert [kind for kind, _ in pursuit.notices()] == ["decision"]
        assert pursuit.list_started_tasks() == []
        pursuit.decide("continue")
        assert pursuit.wait_until_ended().status == "completed"
        assert (pursuit.goal().budget, pursuit.goal().deadline_at) == (0, 0)


def test_a_goal_that_waits_for_its_agents_looks_up_at_its_deadline(sqlite_url: str, tmp_path: Path) -> None:
    gate = Gate()
    with open_pursuit(
        sqlite_url, tmp_path, by_part({"dig": gate.before(reply_done)}, plan=plan(agent("dig"))), check_in_s="500"
    ) as pursuit:
        deadline = int(time.time() * 1000) + 60_000
        pursuit.set_goal(deadline_at=deadline)
        pursuit.until(lambda: pursuit.list_started_tasks() and pursuit.job().state == "delayed")
        assert pursuit.job().due_at == deadline
        gate.open()
        assert pursuit.wait_until_ended().status == "completed"


def test_a_halt_stops_goals_and_they_resume_when_it_ends(sqlite_url: str, tmp_path: Path) -> None:
    gate = Gate()
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=gate.before(plan(step("dig"))))) as pursuit:
        pursuit.set_goal()
        pursuit.until(lambda: pursuit.list_requests("plan"))
        pursuit.database.write(lambda tx: halts.halt(tx, "a test"))
        gate.open()
        pursuit.until(lambda: not pursuit.headway.engine.tasks)
        assert pursuit.statuses() == {"dig": "pending"}, "an answer that was paid for is kept"
        pursuit.database.write(halts.unhalt)
        assert pursuit.wait_until_ended().status == "completed"


def test_a_goal_that_waits_costs_nothing(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=plan(step("dig")))) as pursuit:
        pursuit.set_goal()
        pursuit.act(goals.pause, pursuit.goal_id)
        pursuit.wait_until_paused()
        requests = len(pursuit.server.requests)
        pursuit.achieve("Something else.")
        first = pursuit.goal(pursuit.goal_id - 1)
        assert first.status == "paused"
        assert len([request for request in pursuit.server.requests if "A garden." in str(request.messages)]) == requests


def test_a_bad_answer_is_not_asked_for_again_during_a_halt(sqlite_url: str, tmp_path: Path) -> None:
    def halt_and_plan(_request: Request) -> Reply:
        with DirectDatabase(sqlite_url) as operator:
            operator.write(lambda tx: halts.halt(tx, "stop"))
        return text("This is no plan.")

    with open_pursuit(sqlite_url, tmp_path, by_part(plan=in_order(halt_and_plan, plan(step("dig"))))) as pursuit:
        pursuit.set_goal()
        pursuit.until(
            lambda: pursuit.list_requests("plan") and pursuit.job().state == "queued" and not pursuit.headway.engine.tasks
        )
        assert len(pursuit.list_requests("plan")) == 1
        pursuit.database.write(halts.unhalt)
        pursuit.headway.nudge()
        assert pursuit.wait_until_ended().status == "completed"


def build_script(gate: Gate, later: Gate) -> Script:
    """A sub-agent starts another and ends without waiting for it. The child blocks at `gate`, the next sub-goal at `later`."""
    work = {
        "dig": by_transcript(calls(("spawn_agent", {"task": "shovel", "role": "coder"})), text("A hole.")),
        "shovel": gate.before(text("Shoveled.")),
        "fill": later.before(text("Filled.")),
    }
    return by_part(work, plan=plan(agent("dig"), agent("fill", "dig")))


def find_shovel_run(pursuit: Pursuit) -> Run | None:
    return next((run for run in pursuit.read(run_store.list_run_page, None, 100) if run.task == "shovel"), None)


def wait_until_left_at_work(pursuit: Pursuit) -> Run:
    pursuit.set_goal()
    pursuit.until(lambda: len(pursuit.list_requests("work")) == 4 and pursuit.statuses()["fill"] == "in-progress")
    run = find_shovel_run(pursuit)
    assert run
    assert not run.ended
    return run


def test_an_abandoned_goal_also_stops_sub_agents_of_ended_agents(database_url: str, tmp_path: Path) -> None:
    gate = Gate()
    with open_pursuit(database_url, tmp_path, build_script(gate, gate)) as pursuit:
        left = wait_until_left_at_work(pursuit)
        pursuit.act(goals.abandon, pursuit.goal_id)
        assert pursuit.read(runs.get_run, left.id).status == "canceled"
        gate.open()
        pursuit.until(lambda: not pursuit.headway.engine.tasks)
        assert {run.status for run in pursuit.read(run_store.list_run_page, None, 100)} == {"canceled", "completed"}


def test_sub_agents_left_running_resume_after_a_takeover(database_url: str, tmp_path: Path) -> None:
    """It needs no decision, because the sub-goal that started it has ended."""
    gate, later = Gate(), Gate()

    def orphan(tx: Transaction) -> int:
        tx.run("UPDATE jobs SET owner = 'a process that is no more' WHERE id = ?", left.id)
        return pursuit.headway.engine.takeover.recover(tx, [left.id])

    with open_pursuit(database_url, tmp_path, build_script(gate, later)) as pursuit:
        left = wait_until_left_at_work(pursuit)
        assert pursuit.database.write(orphan) == 1
        gate.open()
        pursuit.until(lambda: pursuit.read(runs.get_run, left.id).status == "completed")
        later.open()
        assert pursuit.wait_until_ended().status == "completed"
