"""Goals in the database: every allowed status change succeeds, every other one is refused, and the journal has no gaps."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from headway.actions.goals import goals, views
from headway.actions.goals.goals import NewGoal
from headway.actions.installation import halts
from headway.actions.runs import notices, runs, sub_goals
from headway.actions.runs.notices import NoticeSubject
from headway.ledger.errors import BadCursor, Conflict, Halted, Invalid
from headway.ledger.goal import Goal, GoalFilter, SubGoal
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.text import MAX_INTEGER
from headway.storage.direct import DirectDatabase
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.goal_plans import add_begun_goal, add_plan, end, evaluate, get_main_run, get_sub_goal, start, sub_goal
from tests.tables import each_row


def list_journal_kinds(desk: TenantHarness, goal: Goal) -> list[str]:
    return [entry.kind for entry in desk.read(goal_store.list_entries, goal.id, 500, MAX_INTEGER)]


def list_steps(desk: TenantHarness, goal: Goal) -> list[SubGoal]:
    return desk.read(goal_store.list_sub_goals, goal.id)


def job_state(desk: TenantHarness, goal: Goal) -> str:
    job = desk.read(job_store.find_job, goal.run_id or "")
    assert job is not None
    return job.state


def add_paused(desk: TenantHarness, **fields: Any) -> Goal:
    return desk.write(lambda tx, tenant_id: goals.pause(tx, tenant_id, add_begun_goal(tx, tenant_id, **fields).id))


# Adding


def test_a_goal_comes_with_its_main_agent_and_its_job(desk: TenantHarness, clock: FixedClock) -> None:
    goal = desk.write(goals.add_goal, NewGoal("  reach it \n", " it is reached ", 7, NANOS_PER_DOLLAR, clock.now + 1))
    assert (goal.description, goal.success_criteria, goal.priority, goal.status) == ("reach it", "it is reached", 7, "active")
    assert (goal.budget, goal.deadline_at, goal.created_at, goal.ended_at) == (NANOS_PER_DOLLAR, clock.now + 1, clock.now, 0)
    run = desk.read(runs.get_run, goal.run_id or "")
    assert (run.goal_id, run.is_main, run.task, run.status) == (goal.id, True, "reach it", "running")
    assert job_state(desk, goal) == "queued"
    assert [kind for kind, _ in desk.events()] == ["journal_appended", "agent_changed", "goal_changed"]


@each_row(
    ("wanted", "told"),
    [
        (NewGoal(" \n"), "description must not be blank"),
        (NewGoal("x" * 10_001), "description has 10,001 characters"),
        (NewGoal("a\0b"), "NUL"),
        (NewGoal("x", "\0"), "NUL"),
        (NewGoal("x", priority=-1), "priority must be between 0"),
        (NewGoal("x", priority=1_001), "priority must be between 0"),
        (NewGoal("x", deadline_at=1), "deadline must be in the future"),
    ],
)
def test_an_invalid_goal_leaves_nothing_behind(desk: TenantHarness, wanted: NewGoal, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        desk.write(goals.add_goal, wanted)
    assert [desk.count(table) for table in ("goals", "jobs", "runs", "journal", "events")] == [0] * 5


def test_during_a_halt_no_goal_is_set_and_none_resumes(desk: TenantHarness) -> None:
    goal = add_paused(desk)
    desk.database.write(halts.halt)
    with pytest.raises(Halted):
        desk.write(goals.add_goal, NewGoal("x"))
    with pytest.raises(Halted):
        desk.write(goals.resume, goal.id)
    with pytest.raises(Halted):
        desk.write(goals.decide_goal, goal.id, "continue")
    assert desk.write(goals.abandon, goal.id).status == "abandoned"


def test_a_proposal_waits_for_a_yes_and_has_no_agent_until_then(desk: TenantHarness) -> None:
    goal = desk.write(goals.propose, NewGoal("tidy up"), "It is untidy.")
    assert (goal.status, goal.pause_kind, goal.source, goal.run_id) == ("paused", "proposal", "agent-discovered", None)
    assert "operator_notice" in [kind for kind, _ in desk.events()]
    accepted = desk.write(goals.decide_goal, goal.id, "continue")
    assert (accepted.status, accepted.run_id is not None) == ("active", True)
    assert list_open_notices(desk) == []
    declined = desk.write(goals.propose, NewGoal("tidy up"), "It is untidy.")
    assert desk.write(goals.decide_goal, declined.id, "abandon").status == "abandoned"


# Status changes

Move = Callable[[TenantHarness, Goal], Goal]
MOVES: dict[str, Move] = {
    "pause": lambda desk, goal: desk.write(goals.pause, goal.id),
    "resume": lambda desk, goal: desk.write(goals.resume, goal.id),
    "continue": lambda desk, goal: desk.write(goals.decide_goal, goal.id, "continue"),
    "replan": lambda desk, goal: desk.write(goals.decide_goal, goal.id, "replan", "look left"),
    "decide to abandon": lambda desk, goal: desk.write(goals.decide_goal, goal.id, "abandon"),
    "abandon": lambda desk, goal: desk.write(goals.abandon, goal.id),
}
LEADS_TO = {
    "active": {"pause": "paused", "abandon": "abandoned"},
    "paused": {
        "resume": "active",
        "continue": "active",
        "replan": "active",
        "decide to abandon": "abandoned",
        "abandon": "abandoned",
    },
    "completed": {},
    "abandoned": {},
}


def add_with_status(desk: TenantHarness, status: str) -> Goal:
    goal = desk.write(add_begun_goal)
    match status:
        case "paused":
            return desk.write(goals.pause, goal.id)
        case "completed":
            return desk.write(lambda tx, tenant_id: goals.complete_goal(tx, goals.get_locked_goal(tx, tenant_id, goal.id), "done"))
        case "abandoned":
            return desk.write(goals.abandon, goal.id)
    return goal


@each_row("move", MOVES)
@each_row("status", LEADS_TO)
def test_every_move_is_allowed_or_refused_without_a_trace(desk: TenantHarness, status: str, move: str) -> None:
    goal = add_with_status(desk, status)
    leads_to = LEADS_TO[status].get(move)
    if leads_to:
        assert MOVES[move](desk, goal).status == leads_to
        assert desk.read(goals.get_goal, goal.id).status == leads_to
        return
    before = (desk.read(views.show_goal, goal.id), list_journal_kinds(desk, goal), desk.events())
    with pytest.raises(Conflict, match=f"Goal #{goal.id} "):
        MOVES[move](desk, goal)
    assert (desk.read(views.show_goal, goal.id), list_journal_kinds(desk, goal), desk.events()) == before


def list_open_notices(desk: TenantHarness) -> list[tuple[str, int]]:
    page = desk.read(lambda tx, tenant_id: notices.list_page(tx, tenant_id, 10, is_done=False))
    return [(notice["kind"], notice["goal_id"]) for notice in page["notices"]]


@pytest.mark.parametrize("move", LEADS_TO["paused"])
def test_a_decision_ends_the_notice_that_asked_for_it(desk: TenantHarness, move: str) -> None:
    goal, other = desk.write(add_begun_goal), desk.write(add_begun_goal)
    desk.write(notices.notify, "recovered", "It goes on.", NoticeSubject(goal_id=goal.id))
    for escalated in (goal, other):
        desk.write(
            lambda tx, tenant_id, id=escalated.id: goals.escalate(tx, goals.get_goal(tx, tenant_id, id), "replans", "5 plans.")
        )
    assert list_open_notices(desk) == [("decision", other.id), ("decision", goal.id), ("recovered", goal.id)]
    MOVES[move](desk, goal)
    assert list_open_notices(desk) == [("decision", other.id), ("recovered", goal.id)]


def test_a_paused_goal_sleeps_and_a_resumed_one_is_due(desk: TenantHarness) -> None:
    goal = add_paused(desk)
    assert job_state(desk, goal) == "delayed"
    assert desk.read(runs.get_run, goal.run_id or "").status == "waiting"
    desk.write(goals.resume, goal.id)
    assert job_state(desk, goal) == "queued"
    assert desk.read(runs.get_run, goal.run_id or "").status == "running"


def test_an_ended_goal_has_no_running_agents(desk: TenantHarness) -> None:
    goal = desk.write(add_begun_goal)
    child = desk.write(
        lambda tx, _: runs.begin_child(tx, get_main_run(tx, goal), "worker", "go", 5, sub_goal_id=list_step_ids(tx, goal)[1])
    )
    ended_goal = desk.write(goals.abandon, goal.id)
    assert ended_goal.ended
    assert [desk.read(runs.get_run, run_id).status for run_id in (goal.run_id or "", child.id)] == ["canceled", "canceled"]
    assert [step.status for step in list_steps(desk, goal)] == ["skipped", "skipped"]
    assert job_state(desk, goal) == "canceled"


def list_step_ids(tx: Transaction, goal: Goal) -> list[int]:
    return [step.id for step in goal_store.list_sub_goals(tx, goal.tenant_id, goal.id)]


def test_a_deadline_and_a_budget_that_were_passed_do_not_stop_it_twice(desk: TenantHarness, clock: FixedClock) -> None:
    goal = add_paused(desk, deadline_at=clock.now + 1_000, budget=5)
    desk.write(lambda tx, _: run_store.save_run(tx, get_main_run(tx, goal)._replace(cost=5)))
    clock.advance(2)
    resumed = desk.write(goals.resume, goal.id)
    assert (resumed.deadline_at, resumed.budget) == (0, 0)
    fresh = add_paused(desk, deadline_at=clock.now + 1_000, budget=5)
    continued = desk.write(goals.resume, fresh.id)
    assert (continued.deadline_at, continued.budget) == (clock.now + 1_000, 5)


def test_continue_restarts_the_count_and_replan_records_the_reason(desk: TenantHarness) -> None:
    goal = desk.write(
        lambda tx, tenant_id: goals.escalate(tx, add_begun_goal(tx, tenant_id)._replace(replan_count=5), "replans", "Enough.")
    )
    assert desk.write(goals.decide_goal, goal.id, "continue").replan_count == 0
    second = add_paused(desk)
    assert (
        desk.write(goals.decide_goal, second.id, "replan", "look left").replan_why == "The operator asked for a new plan: look left"
    )


# Sub-goals


def test_a_sub_goal_ends_with_its_outcome_in_the_journal(desk: TenantHarness, clock: FixedClock) -> None:
    goal = desk.write(add_begun_goal)
    go = list_steps(desk, goal)[0]
    clock.advance(12)
    desk.write(lambda tx, _: end(tx, goal, go.id, "We went."))
    ended_step = list_steps(desk, goal)[0]
    assert (ended_step.status, ended_step.ended_at, ended_step.divergence) == ("completed", clock.now, None)
    assert json.loads(ended_step.outcome or "")["summary"] == "We went."
    entry = desk.read(goal_store.list_entries, goal.id, 1, MAX_INTEGER)[0].as_json()
    assert (entry["kind"], entry["data"]["duration_s"], entry["data"]["status"]) == ("sub_goal_ended", 12, "completed")


def test_dependencies_are_stored_and_can_be_changed(desk: TenantHarness) -> None:
    goal = desk.write(goals.add_goal, NewGoal("branch out"))
    ids = desk.write(lambda tx, _: add_plan(tx, goal, {"a": [], "b": ["a"], "c": ["a", "b"]}))
    assert [step.depends_on for step in list_steps(desk, goal)] == [(), (ids["a"],), (ids["a"], ids["b"])]
    desk.database.write(lambda tx: goal_store.replace_edges(tx, desk.tenant.id, ids["c"], [ids["b"], ids["b"]]))
    assert list_steps(desk, goal)[2].depends_on == (ids["b"],)


def test_a_sub_goal_marked_pending_again_is_as_if_never_started(desk: TenantHarness) -> None:
    goal = desk.write(add_begun_goal)
    desk.write(lambda tx, _: sub_goals.mark_pending(tx, get_sub_goal(tx, goal, list_step_ids(tx, goal)[0])))
    step = list_steps(desk, goal)[0]
    assert (step.status, step.run_id, step.started_at) == ("pending", None, 0)


def test_experience_is_gathered_by_kind_over_all_goals_of_a_tenant(desk: TenantHarness, clock: FixedClock) -> None:
    rival = TenantHarness(desk.database, "rival")
    for owner in (desk, desk, rival):
        goal = owner.write(goals.add_goal, NewGoal("learn"))
        ids = owner.write(lambda tx, _, goal=goal: add_plan(tx, goal, {"a": [], "b": [], "c": []}))
        write = owner.write(
            lambda tx, _, goal=goal: goal_store.insert_sub_goal(
                tx, sub_goal("d", tenant_id=goal.tenant_id, goal_id=goal.id, kind="writing")
            )
        )
        for number in (ids["a"], ids["b"], write):
            owner.write(lambda tx, _, goal=goal, number=number: start(tx, goal, number))
        clock.advance(2)
        owner.write(lambda tx, _, goal=goal, number=ids["a"]: (end(tx, goal, number), evaluate(tx, goal, number)))
        owner.write(lambda tx, _, goal=goal, number=ids["b"]: end(tx, goal, number, error="no"))
        owner.write(lambda tx, _, goal=goal, number=write: (end(tx, goal, number), evaluate(tx, goal, number, "minor", "a bit")))
    documents = [experience.as_json() for experience in desk.read(goal_store.list_experience)]
    assert [(entry["kind"], entry["tried"], entry["succeeded"], entry["duration_s"]) for entry in documents] == [
        ("research", 4, 2, 2.0),
        ("writing", 2, 0, 2.0),
    ]
    assert [experience.tried for experience in rival.read(goal_store.list_experience)] == [2, 1]


# The journal

APPEND = """
import sys
from headway.actions.runs import sub_goals
from headway.storage.direct import DirectDatabase
with DirectDatabase(sys.argv[1]) as database:
    print("ready", flush=True)
    input()
    for number in range(25):
        database.write(lambda tx: sub_goals.append(tx, int(sys.argv[2]), int(sys.argv[3]), "note", {"n": number}))
"""


def test_many_write_into_one_journal_and_no_number_is_missing_or_twice(
    desk: TenantHarness, database_url: str, at_once: Callable[..., list[str]]
) -> None:
    goal = desk.write(goals.add_goal, NewGoal("be noted"))
    at_once(APPEND, database_url, str(desk.tenant.id), str(goal.id), processes=4)
    entries = desk.read(goal_store.list_entries, goal.id, 500, MAX_INTEGER)
    assert [entry.n for entry in entries] == list(range(1, 102))
    numbers = [json.loads(data)["entry"]["n"] for kind, data in desk.events() if kind == "journal_appended"]
    assert numbers == list(range(1, 102))


def test_a_rollback_leaves_no_gap(desk: TenantHarness) -> None:
    goal = add_paused(desk)
    with pytest.raises(Conflict):
        desk.write(goals.pause, goal.id)
    desk.write(goals.resume, goal.id)
    assert [entry.n for entry in desk.read(goal_store.list_entries, goal.id, 50, MAX_INTEGER)] == [1, 2, 3, 4]


def test_watchers_hear_of_a_goal_once_per_transaction_and_after_all_else(desk: TenantHarness) -> None:
    goal = desk.write(goals.add_goal, NewGoal("x"))
    before = len(desk.events())

    def work(tx: Transaction, _tenant_id: int) -> None:
        first, *_ = add_plan(tx, goal, {"a": [], "b": []}).values()
        end(tx, goal, first)
        evaluate(tx, goal, first)

    desk.write(work)
    kinds_after = [kind for kind, _ in desk.events()][before:]
    assert kinds_after.count("goal_changed") == 1
    assert kinds_after[-1] == "goal_changed"


# Constraints of the database


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE goals SET status = 'done'",
        "UPDATE goals SET source = 'nobody'",
        "UPDATE goals SET status = 'completed'",
        "UPDATE goals SET ended_at = 1",
        "UPDATE sub_goals SET status = 'done'",
        "UPDATE sub_goals SET status = 'completed', ended_at = 0",
        "UPDATE sub_goals SET ended_at = 1",
        "UPDATE sub_goals SET mode = 'magic'",
        "UPDATE sub_goals SET divergence = 'some'",
        "UPDATE journal SET n = 1",
        "INSERT INTO sub_goal_edges (sub_goal_id, depends_on) SELECT sub_goal_id, depends_on FROM sub_goal_edges",
        "INSERT INTO planning_cycles (tenant_id, goal_id, status, started_at)"
        " SELECT tenant_id, goal_id, 'active', 1 FROM planning_cycles",
    ],
)
def test_the_database_refuses_inconsistent_rows(desk: TenantHarness, statement: str) -> None:
    goal = desk.write(add_begun_goal)
    before = desk.read(views.show_goal, goal.id)
    with pytest.raises(Exception, match=r"(?i)constraint|unique"):
        desk.database.write(lambda tx: tx.run(statement))
    assert desk.read(views.show_goal, goal.id) == before


def test_a_goal_has_one_planning_cycle_at_a_time(desk: TenantHarness) -> None:
    goal = desk.write(goals.add_goal, NewGoal("x"))
    assert [desk.write(goal_store.open_cycle, goal.id) for _ in range(2)] == [True, False]
    assert [desk.write(goal_store.end_cycle, goal.id, "interrupted") for _ in range(2)] == [True, False]
    assert desk.write(goal_store.open_cycle, goal.id)
    assert desk.count("planning_cycles") == 2


def test_a_tenant_has_so_many_goals_that_have_not_ended_and_no_more(desk: TenantHarness) -> None:
    def fill(tx: Transaction, tenant_id: int) -> None:
        for _ in range(goals.OPEN_GOALS_LIMIT):
            goals.insert_new_goal(tx, tenant_id, NewGoal("x"), "operator-injected", "paused", "")

    desk.write(fill)
    with pytest.raises(Conflict, match="at most 1,000 open goals"):
        desk.write(goals.add_goal, NewGoal("one more"))
    (last,) = desk.read(goal_store.list_goal_page, GoalFilter(), 1, (MAX_INTEGER, MAX_INTEGER))
    desk.write(goals.abandon, last.id)
    desk.write(goals.add_goal, NewGoal("one more"))


def test_pages_go_back_in_time(desk: TenantHarness) -> None:
    ids = [desk.write(goals.add_goal, NewGoal(f"goal {number}")).id for number in range(5)]
    desk.write(goals.abandon, ids[1])
    first = desk.read(views.list_goals, None, 2)
    assert ([goal["id"] for goal in first.goals], first.next_cursor) == ([ids[4], ids[3]], views.CURSORS.encode((ids[3],)))
    second = desk.read(views.list_goals, None, 3, first.next_cursor)
    assert ([goal["id"] for goal in second.goals], second.next_cursor) == ([ids[2], ids[1], ids[0]], None)
    assert [goal["id"] for goal in desk.read(views.list_goals, GoalFilter("abandoned"), 50).goals] == [ids[1]]
    with pytest.raises(BadCursor):
        desk.read(views.list_goals, None, 2, "٣")


# Live processes


def test_a_process_with_a_recent_heartbeat_counts_as_live_unless_it_runs_alone(database: DirectDatabase) -> None:
    def count_live(lease_ms: int) -> int:
        return database.read(lambda tx: worker_leases.count_live_workers(tx, lease_ms))

    assert count_live(60_000) == 0
    for owner in ("host:1:a", "host:2:b", f"host:3:c{worker_leases.ALONE_SUFFIX}"):
        database.write(lambda tx, owner=owner: worker_leases.record_heartbeat(tx, owner))  # type: ignore[misc]
    assert count_live(60_000) == 2
    assert count_live(-60_000) == 0
    database.write(lambda tx: worker_leases.release_owner(tx, "host:1:a"))
    assert count_live(60_000) == 1
