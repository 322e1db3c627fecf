"""Ticks: due work starts exactly once, however many processes tick, and a failing schedule does not stop the others."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from headway.actions.engine import run_ends, schedules
from headway.actions.engine.schedules import Timing
from headway.actions.goals import goals
from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.ledger.errors import Conflict, Halted, Invalid, TurnRunning
from headway.ledger.goal import GoalFilter
from headway.ledger.job import Job, Schedule
from headway.ledger.text import MAX_INTEGER
from headway.storage.direct import DirectDatabase
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row

MINUTELY = Timing(every_ms=60_000)
NOW = {"tool": {"name": "now", "arguments": {}, "conversation_id": 0}}


class TickedSchedule:
    """One schedule, with the clock that drives it."""

    def __init__(
        self, desk: TenantHarness, clock: FixedClock, timing: Timing = MINUTELY, work: dict[str, Any] | None = None
    ) -> None:
        self.desk = desk
        self.clock = clock
        desk.write(schedules.put, "it", timing, work or NOW)

    def tick_after(self, seconds: float) -> Schedule:
        """Advance the clock, run a tick and return the schedule."""
        self.clock.advance(seconds)
        self.desk.database.write(schedules.tick)
        return self.now

    @property
    def now(self) -> Schedule:
        return self.desk.read(schedules.get_schedule, "it")

    def jobs(self) -> list[Job]:
        return self.desk.read(job_store.list_job_page, None, 500)

    def end_jobs(self) -> None:
        """End all jobs that the schedule started."""
        for job in self.jobs():
            if job.kind == turns.JOB_KIND and not job.over:
                self.desk.write(run_ends.cancel_turn, turns.get_turn_id(job))
            elif not job.over:
                self.desk.database.write(lambda tx, job=job: jobs.complete_job(tx, job))  # type: ignore[misc]


@pytest.fixture
def ticking(desk: TenantHarness, clock: FixedClock) -> TickedSchedule:
    return TickedSchedule(desk, clock)


def make_message_schedule(desk: TenantHarness, clock: FixedClock) -> TickedSchedule:
    """Return a schedule that posts a message to a conversation."""
    return TickedSchedule(desk, clock, work={"message": {"conversation_id": desk.conversation().id, "content": "How is it going?"}})


def get_conversation_id(schedule: TickedSchedule) -> int:
    return int(json.loads(schedule.now.work)["message"]["conversation_id"])


# Due


def test_nothing_happens_before_its_time(ticking: TickedSchedule) -> None:
    assert ticking.tick_after(59).last_job == ""
    assert ticking.jobs() == []


def test_a_due_schedule_starts_once(ticking: TickedSchedule) -> None:
    first = ticking.now.next_at
    ticked = ticking.tick_after(60)

    (job,) = ticking.jobs()
    assert (job.kind, job.state, json.loads(job.payload)) == ("tool", "queued", NOW["tool"])
    assert (ticked.last_job, ticked.last_at, ticked.skipped) == (job.id, ticking.clock.now, 0)
    assert ticked.next_at == first + 60_000
    assert ticking.tick_after(0) == ticked
    assert len(ticking.jobs()) == 1


def test_a_message_becomes_a_turn(desk: TenantHarness, clock: FixedClock) -> None:
    ticking = make_message_schedule(desk, clock)
    ticked = ticking.tick_after(60)

    (job,) = ticking.jobs()
    turn = desk.read(finding.get_turn, turns.get_turn_id(job))
    assert ticked.last_job == job.id
    assert (turn.conversation_id, turn.request, turn.status) == (get_conversation_id(ticking), "How is it going?", "running")
    assert [kind for kind, _ in desk.events()][-3:] == ["turn_started", "message", "schedule_changed"]


@pytest.mark.parametrize("late_s", [60, 61, 119, 150, 86_400 * 30 + 7])
def test_ticks_that_were_missed_are_one_and_the_beat_is_kept(ticking: TickedSchedule, late_s: int) -> None:
    start = ticking.clock.now
    ticked = ticking.tick_after(late_s)

    assert len(ticking.jobs()) == 1
    assert ticked.skipped == 0
    assert ticking.clock.now < ticked.next_at <= ticking.clock.now + 60_000
    assert (ticked.next_at - start) % 60_000 == 0


def test_several_missed_days_count_once_and_the_hour_is_kept(desk: TenantHarness, clock: FixedClock) -> None:
    ticking = TickedSchedule(desk, clock, Timing("0 6 * * *", "Europe/Berlin"))
    ticked = ticking.tick_after(86_400 * 10)

    assert len(ticking.jobs()) == 1
    assert clock.now < ticked.next_at <= clock.now + 86_400_000
    assert ticked.next_at % 86_400_000 == 5 * 3_600_000  # in November, so without daylight saving time


def test_many_are_started_at_once(desk: TenantHarness, clock: FixedClock) -> None:
    for number in range(schedules.TICK_BATCH + 5):
        desk.write(schedules.put, f"n{number}", MINUTELY, NOW)
    clock.advance(60)
    desk.database.write(schedules.tick)
    assert desk.count("jobs") == schedules.TICK_BATCH
    desk.database.write(schedules.tick)
    assert desk.count("jobs") == schedules.TICK_BATCH + 5


# Overlap


def test_a_schedule_whose_last_run_has_not_ended_is_skipped_and_counted(
    ticking: TickedSchedule, caplog: pytest.LogCaptureFixture
) -> None:
    started = ticking.tick_after(60)
    with caplog.at_level(logging.WARNING, "headway.schedules"):
        skipped = ticking.tick_after(60)

    assert skipped == started._replace(skipped=1, next_at=started.next_at + 60_000, updated_at=ticking.clock.now)
    assert len(ticking.jobs()) == 1
    assert "schedule it of tenant" in caplog.text
    assert "its last run has not ended" in caplog.text
    assert ticking.tick_after(60).skipped == 2


@pytest.mark.parametrize("state", ["queued", "running", "delayed"])
def test_a_run_that_is_on_its_way_is_not_over(ticking: TickedSchedule, state: str) -> None:
    ticking.tick_after(60)
    ticking.desk.database.write(lambda tx: tx.run("UPDATE jobs SET state = ?", state))
    assert ticking.tick_after(60).skipped == 1


@pytest.mark.parametrize("state", ["completed", "canceled", "dead"])
def test_after_a_run_that_is_over_the_next_one_begins(ticking: TickedSchedule, state: str) -> None:
    first = ticking.tick_after(60)
    ticking.desk.database.write(lambda tx: tx.run("UPDATE jobs SET state = ?", state))
    second = ticking.tick_after(60)

    assert (second.skipped, second.last_at) == (0, ticking.clock.now)
    assert second.last_job not in ("", first.last_job)


def test_a_schedule_whose_last_job_was_dropped_continues(ticking: TickedSchedule) -> None:
    first = ticking.tick_after(60)
    ticking.desk.database.write(lambda tx: tx.run("UPDATE jobs SET state = 'dead'"))
    ticking.desk.write(jobs.drop, first.last_job)
    assert ticking.tick_after(60).last_job not in ("", first.last_job)


def test_a_busy_conversation_is_not_interrupted(desk: TenantHarness, clock: FixedClock, caplog: pytest.LogCaptureFixture) -> None:
    ticking = make_message_schedule(desk, clock)
    run = desk.write(turns.start_turn, get_conversation_id(ticking), turns.TurnRequest("I was here first."))
    skipped = ticking.tick_after(60)

    assert (skipped.skipped, skipped.last_job, skipped.last_at) == (1, "", 0)
    assert skipped.next_at > clock.now
    assert [job.id for job in ticking.jobs()] == [run.id]
    assert desk.count("turns") == 1
    assert "A turn is running" in caplog.text

    ticking.end_jobs()
    assert ticking.tick_after(60).last_job


# Pause, resume, run now


def test_a_paused_schedule_does_not_tick(ticking: TickedSchedule) -> None:
    paused = ticking.desk.write(schedules.pause, "it")
    assert (paused.as_json()["paused"], paused.as_json()["next_at"]) == (True, 0)
    ticking.tick_after(3_600)
    assert ticking.jobs() == []


def test_ticks_missed_while_paused_stay_missed(ticking: TickedSchedule) -> None:
    due = ticking.now.next_at
    ticking.desk.write(schedules.pause, "it")
    ticking.tick_after(150)
    resumed = ticking.desk.write(schedules.resume, "it")

    assert not resumed.paused
    assert resumed.next_at == due + 120_000  # on the original interval
    assert ticking.tick_after(29).last_job == ""
    assert ticking.tick_after(1).last_job


def test_a_short_pause_changes_nothing(ticking: TickedSchedule) -> None:
    due = ticking.now.next_at
    ticking.desk.write(schedules.pause, "it")
    ticking.clock.advance(10)
    assert ticking.desk.write(schedules.resume, "it").next_at == due


def test_resuming_an_active_schedule_skips_no_tick(ticking: TickedSchedule) -> None:
    ticking.clock.advance(61)
    ticking.desk.write(schedules.resume, "it")
    assert ticking.tick_after(0).last_job


def test_pausing_twice_is_pausing_once(ticking: TickedSchedule) -> None:
    assert ticking.desk.write(schedules.pause, "it") == ticking.desk.write(schedules.pause, "it")


def test_run_now_leaves_the_beat_alone(ticking: TickedSchedule) -> None:
    ticking.clock.advance(10)
    before = ticking.now
    ran = ticking.desk.write(schedules.run_now, "it")

    (job,) = ticking.jobs()
    assert ran == before._replace(last_at=ticking.clock.now, last_job=job.id, updated_at=ticking.clock.now)
    ticking.end_jobs()
    assert len({job.id for job in ticking.jobs()} | {ticking.tick_after(50).last_job}) == 2


def test_run_now_works_on_one_that_is_paused_too(ticking: TickedSchedule) -> None:
    ticking.desk.write(schedules.pause, "it")
    assert ticking.desk.write(schedules.run_now, "it").paused
    assert len(ticking.jobs()) == 1


def test_run_now_into_a_busy_conversation_is_a_conflict(desk: TenantHarness, clock: FixedClock) -> None:
    ticking = make_message_schedule(desk, clock)
    desk.write(schedules.run_now, "it")
    before = ticking.now
    with pytest.raises(TurnRunning):
        desk.write(schedules.run_now, "it")
    assert ticking.now == before


# Halt


def test_while_everything_is_halted_nothing_ticks(ticking: TickedSchedule) -> None:
    database = ticking.desk.database
    database.write(halts.halt)
    before = ticking.now
    assert ticking.tick_after(150) == before
    assert ticking.jobs() == []

    database.write(halts.unhalt)
    ticked = ticking.tick_after(0)
    assert len(ticking.jobs()) == 1  # several missed ticks start one run
    assert (ticked.skipped, ticked.last_at) == (0, ticking.clock.now)


def test_while_everything_is_halted_nothing_is_run_by_hand_either(desk: TenantHarness, clock: FixedClock) -> None:
    for schedule in (TickedSchedule(desk, clock), make_message_schedule(desk, clock)):
        desk.database.write(halts.halt)
        with pytest.raises(Halted):
            desk.write(schedules.run_now, "it")
        assert schedule.jobs() == []
        assert schedule.desk.write(schedules.pause, "it").paused  # pausing starts nothing, so it is allowed
        desk.database.write(halts.unhalt)


# Missing conversations, time zones and tenants


def add_two_more(desk: TenantHarness) -> None:
    for name in ("before", "zz after"):
        desk.write(schedules.put, name, MINUTELY, NOW)


def test_a_conversation_that_is_gone_is_a_tick_that_is_skipped(
    desk: TenantHarness, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ticking = make_message_schedule(desk, clock)
    add_two_more(desk)
    desk.database.write(lambda tx: tx.run("DELETE FROM conversations"))
    skipped = ticking.tick_after(60)

    assert (skipped.skipped, skipped.last_job) == (1, "")
    assert skipped.next_at > clock.now
    assert "is skipped: No conversation" in caplog.text
    assert desk.count("jobs") == 2
    assert desk.count("turns") == 0


def test_an_unknown_time_zone_pauses_only_its_own_schedule(
    desk: TenantHarness, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ticking = TickedSchedule(desk, clock, Timing("* * * * *", "Europe/Berlin"))
    add_two_more(desk)
    desk.database.write(lambda tx: tx.run("UPDATE schedules SET timezone = 'Europe/Atlantis' WHERE name = 'it'"))
    assert ticking.tick_after(60).paused
    assert desk.count("jobs") == 2
    assert "Unknown time zone 'Europe/Atlantis'" in caplog.text

    with pytest.raises(Invalid, match="Unknown time zone"):
        desk.write(schedules.resume, "it")
    desk.write(schedules.put, "it", MINUTELY, NOW)
    assert not desk.write(schedules.resume, "it").paused


def test_a_tenant_that_goes_takes_its_schedules_along(ticking: TickedSchedule, database: DirectDatabase) -> None:
    database.write(lambda tx: tx.run("DELETE FROM tenants"))
    ticking.clock.advance(60)
    database.write(schedules.tick)
    assert ticking.desk.count("schedules") == 0


# Several processes

TICK = """
import sys, time
from headway.actions.engine import schedules
from headway.storage.direct import DirectDatabase
with DirectDatabase(sys.argv[1]) as database:
    print("ready", flush=True)
    input()
    for _ in range(5):
        database.write(schedules.tick)
"""


def test_processes_that_look_at_the_same_moment_start_it_once(
    desk: TenantHarness, database_url: str, at_once: Callable[..., list[str]]
) -> None:
    conversation = desk.conversation().id
    yearly = Timing(every_ms=schedules.MAX_INTERVAL_MS)  # due once, whatever the current time
    names = [f"n{number}" for number in range(7)]
    for name in names:
        desk.write(schedules.put, name, yearly, NOW)
    desk.write(schedules.put, "talk", yearly, {"message": {"conversation_id": conversation, "content": "hi"}})
    desk.database.write(lambda tx: tx.run("UPDATE schedules SET next_at = ?", desk.tenant.created_at))
    at_once(TICK, database_url, processes=3)

    stored = [desk.read(schedules.get_schedule, name) for name in [*names, "talk"]]
    assert desk.count("jobs") == 8
    assert desk.count("turns") == 1
    assert {schedule.last_job for schedule in stored} == {job.id for job in desk.read(job_store.list_job_page, None, 500)}
    assert [schedule.skipped for schedule in stored] == [0] * 8


def test_a_tick_that_did_not_commit_started_nothing(ticking: TickedSchedule, database: DirectDatabase) -> None:
    def fail_before_commit(tx: Transaction) -> None:
        schedules.tick(tx)
        raise Invalid("the lights went out")

    before = ticking.now
    ticking.clock.advance(60)
    with pytest.raises(Invalid):
        database.write(fail_before_commit)
    assert (ticking.now, ticking.jobs()) == (before, [])
    assert len({ticking.tick_after(0).last_job} - {""}) == 1


# Goals


def test_a_goal_is_set_at_every_tick_that_finds_the_last_one_over(desk: TenantHarness, clock: FixedClock) -> None:
    ticking = TickedSchedule(desk, clock, work={"goal": {"description": "Tidy up.", "success_criteria": "", "priority": 7}})
    first = ticking.tick_after(60)
    (goal,) = desk.read(goal_store.list_goal_page, GoalFilter(), 50, (MAX_INTEGER, MAX_INTEGER))
    assert (goal.description, goal.priority, goal.status, goal.run_id) == ("Tidy up.", 7, "active", first.last_job)

    assert ticking.tick_after(60).skipped == 1
    desk.write(goals.pause, goal.id)
    assert ticking.tick_after(60).skipped == 2
    with pytest.raises(Conflict, match="has not ended yet"):
        desk.write(schedules.run_now, "it")
    desk.write(goals.abandon, goal.id)
    second = ticking.tick_after(60)
    assert (second.skipped, second.last_job != first.last_job) == (2, True)
    assert [each.status for each in desk.read(goal_store.list_goal_page, GoalFilter(), 50, (MAX_INTEGER, MAX_INTEGER))] == [
        "active",
        "abandoned",
    ]


def test_a_goal_whose_job_died_has_not_ended(desk: TenantHarness, clock: FixedClock) -> None:
    ticking = TickedSchedule(desk, clock, work={"goal": {"description": "Tidy up."}})
    job_id = ticking.tick_after(60).last_job
    desk.write(lambda tx, tenant_id: jobs.fail_permanently(tx, jobs.get_locked_job(tx, tenant_id, job_id), "No model."))
    after = ticking.tick_after(60)
    assert (after.skipped, after.last_job) == (1, job_id)


@each_row(
    ("work", "told"),
    [
        ({"description": " "}, "description must not be blank"),
        ({"description": "x", "priority": -1}, "priority must be between 0"),
        ({"description": "x" * 10_001}, "description has 10,001 characters"),
    ],
)
def test_a_goal_that_cannot_be_is_not_scheduled(desk: TenantHarness, clock: FixedClock, work: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        TickedSchedule(desk, clock, work={"goal": work})


# Changes of the system clock


@pytest.mark.parametrize("timing", [MINUTELY, Timing(cron="*/5 * * * *")])
def test_a_schedule_that_ticked_in_a_wrong_future_continues_when_the_clock_is_set_back(
    desk: TenantHarness, clock: FixedClock, timing: Timing
) -> None:
    ticking = TickedSchedule(desk, clock, timing)
    year_s = 365 * 24 * 3600
    assert ticking.tick_after(year_s).next_at > clock.now
    clock.advance(-year_s)

    desk.database.write(schedules.realign)

    assert clock.now < ticking.now.next_at <= clock.now + 300_000
    ticking.end_jobs()
    assert ticking.tick_after(300).last_at == clock.now


def test_a_schedule_is_left_alone_when_the_clock_was_not_set_back(ticking: TickedSchedule, desk: TenantHarness) -> None:
    before = ticking.tick_after(90)

    desk.database.write(schedules.realign)

    assert ticking.now == before
