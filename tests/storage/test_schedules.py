"""Stored schedules: created and changed by name, with the next due time from their cron expression or interval."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.job import Schedule
from headway.storage.direct import DirectDatabase
from headway.storage.stores import schedules as schedule_store
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row

MINUTELY = Timing(every_ms=60_000)
NOW = {"tool": {"name": "now", "arguments": {}, "conversation_id": 0}}


def put(desk: TenantHarness, name: str = "daily", timing: Timing = MINUTELY, work: dict[str, Any] | None = None) -> Schedule:
    return desk.write(schedules.put, name, timing, NOW if work is None else work)


def message(desk: TenantHarness, content: str = "How is it going?") -> dict[str, Any]:
    return {"message": {"conversation_id": desk.conversation().id, "content": content}}


def list_changes(desk: TenantHarness) -> list[tuple[str, dict[str, Any]]]:
    """Return (change, schedule) of every schedule_changed event, in order."""
    documents = [json.loads(data) for kind, data in desk.events() if kind == "schedule_changed"]
    return [(document["change"], document["schedule"]) for document in documents]


# Creating and changing


def test_a_put_schedule_is_stored_and_emitted(desk: TenantHarness, clock: FixedClock) -> None:
    work = message(desk)
    schedule = put(desk, "report", Timing("0 6 * * *", "Europe/Berlin"), work)

    assert desk.read(schedules.get_schedule, "report") == schedule
    assert schedule.as_json() == {
        "name": "report",
        "cron": "0 6 * * *",
        "timezone": "Europe/Berlin",
        **work,
        "paused": False,
        "next_at": schedule.next_at // 1000,
        "last_at": 0,
        "last_job": None,
        "skipped": 0,
        "created_at": clock.now // 1000,
        "updated_at": clock.now // 1000,
    }
    assert list_changes(desk) == [("updated", schedule.as_json())]


def test_an_interval_says_nothing_of_time_zones(desk: TenantHarness) -> None:
    document = put(desk, timing=Timing("", "Europe/Berlin", 1_500)).as_json()
    assert document["every_s"] == 1.5
    assert not {"cron", "timezone"} & set(document)


def test_putting_an_identical_schedule_changes_nothing(desk: TenantHarness, clock: FixedClock) -> None:
    first = put(desk)
    clock.advance(61)
    desk.database.write(schedules.tick)
    before = desk.read(schedules.get_schedule, "daily")
    clock.advance(10)
    repeated = put(desk)

    assert repeated == before._replace(updated_at=clock.now)
    assert (repeated.id, repeated.created_at) == (first.id, first.created_at)
    assert repeated.last_job
    assert desk.count("schedules") == 1


def test_other_work_at_the_same_times_keeps_the_beat(desk: TenantHarness, clock: FixedClock) -> None:
    first = put(desk)
    clock.advance(30)
    changed = put(desk, work=message(desk))

    assert changed.next_at == first.next_at
    assert "message" in json.loads(changed.work)


@each_row("timing", [Timing(every_ms=30_000), Timing("* * * * *"), Timing("* * * * *", "Europe/Berlin")])
def test_other_times_are_counted_from_now(desk: TenantHarness, clock: FixedClock, timing: Timing) -> None:
    first = put(desk)
    clock.advance(45)
    changed = put(desk, timing=timing)

    assert changed.next_at != first.next_at
    assert changed.next_at == schedules.compute_next(timing, clock.now, clock.now)


def test_the_zone_of_an_interval_makes_no_difference(desk: TenantHarness, clock: FixedClock) -> None:
    first = put(desk, timing=Timing("", "Europe/Berlin", 60_000))
    clock.advance(45)
    assert put(desk, timing=Timing("", "UTC", 60_000)).next_at == first.next_at


def test_a_paused_schedule_stays_paused_when_it_is_put(desk: TenantHarness) -> None:
    put(desk)
    desk.write(schedules.pause, "daily")
    assert put(desk).paused
    assert put(desk, timing=Timing("0 6 * * *")).paused


def test_spaces_around_a_name_are_no_part_of_it(desk: TenantHarness) -> None:
    schedule = put(desk, " daily ")
    assert schedule.name == "daily"
    assert desk.read(schedules.get_schedule, " daily ") == schedule
    assert desk.write(schedules.pause, " daily ").paused
    desk.write(schedules.remove_schedule, " daily ")
    assert desk.count("schedules") == 0


def test_a_removed_schedule_is_gone_and_its_removal_is_emitted(desk: TenantHarness) -> None:
    put(desk, "one")
    remaining = put(desk, "two")
    desk.write(schedules.remove_schedule, "one")

    assert desk.read(schedule_store.list_schedule_page, 10) == [remaining]
    assert [change for change, _ in list_changes(desk)] == ["updated", "updated", "deleted"]
    for action in (
        schedules.get_schedule,
        schedules.get_locked_schedule,
        schedules.remove_schedule,
        schedules.pause,
        schedules.resume,
        schedules.run_now,
    ):
        with pytest.raises(NotFound, match="No schedule named 'one'"):
            desk.write(action, "one")


def test_each_tenant_has_its_own(desk: TenantHarness, database: DirectDatabase) -> None:
    other = TenantHarness(database, "other")
    own, foreign = put(desk), put(other, timing=Timing("0 6 * * *"))

    assert desk.read(schedules.get_schedule, "daily") == own
    assert desk.read(schedule_store.list_schedule_page, 10) == [own]
    other.write(schedules.remove_schedule, "daily")
    assert desk.read(schedules.get_schedule, "daily") == own
    with pytest.raises(NotFound):
        other.read(schedules.get_schedule, "daily")
    assert foreign.tenant_id != own.tenant_id


def test_schedules_survive_a_restart(desk: TenantHarness, database_url: str, clock: FixedClock) -> None:
    put(desk)
    clock.advance(61)
    desk.database.write(schedules.tick)
    stored = desk.read(schedules.get_schedule, "daily")

    with DirectDatabase(database_url, clock) as reopened:
        assert reopened.read(lambda tx: schedules.get_schedule(tx, desk.tenant.id, "daily")) == stored
        clock.advance(60)
        reopened.write(lambda tx: tx.run("UPDATE jobs SET state = 'completed'"))
        reopened.write(schedules.tick)
        assert reopened.read(lambda tx: schedules.get_schedule(tx, desk.tenant.id, "daily")).last_job != stored.last_job


def test_a_tenant_has_so_many_and_no_more(desk: TenantHarness, database: DirectDatabase) -> None:
    def fill(tx: Transaction) -> None:
        for number in range(schedules.SCHEDULES_LIMIT):
            schedule_store.put(tx, desk.tenant.id, f"n{number}", MINUTELY, json.dumps(NOW), tx.now)

    database.write(fill)
    with pytest.raises(Invalid, match="at most 1,000 schedules"):
        put(desk, "one more")
    assert put(desk, "n0", Timing("0 6 * * *")).cron  # an existing schedule can still be changed,
    put(TenantHarness(database, "other"))  # and the limit of one tenant does not affect another


# Invalid schedules

BAD_TIMINGS = {
    "neither": Timing(),
    "both": Timing("0 6 * * *", every_ms=60_000),
    "no cron": Timing("every morning"),
    "too few fields": Timing("0 6 * *"),
    "too many fields": Timing("0 6 * * * * *"),
    "out of range": Timing("61 6 * * *"),
    "a step of nothing": Timing("*/0 * * * *"),
    "the thirtieth of February": Timing("0 0 30 2 *"),
    "NUL": Timing("0 6 * * *\0"),
    "a long one": Timing("0," * 50_000 + "0 6 * * *"),
    "no zone": Timing("0 6 * * *", ""),
    "an unknown zone": Timing("0 6 * * *", "Mars/Olympus"),
    "a folder of zones": Timing("0 6 * * *", "Europe"),
    "a path": Timing("0 6 * * *", "../../etc/passwd"),
    "an absolute path": Timing("0 6 * * *", "/etc/passwd"),
    "NUL in the zone": Timing("0 6 * * *", "Europe/\0"),
    "a surrogate in the zone": Timing("0 6 * * *", "Europe/\ud800"),
    "a long zone": Timing("0 6 * * *", "x" * 100_000),
    "an unknown zone of an interval": Timing("", "Mars/Olympus", 60_000),
    "NUL in the zone of an interval": Timing("", "\0", 60_000),
    "less than a second": Timing(every_ms=999),
    "backwards": Timing(every_ms=-60_000),
    "longer than a year": Timing(every_ms=367 * 24 * 3600 * 1000),
}


@each_row("timing", BAD_TIMINGS.values())
def test_times_that_are_none_are_refused(timing: Timing) -> None:
    with pytest.raises(Invalid) as refused:
        timing.checked()
    assert len(str(refused.value)) < 300


def test_a_refused_schedule_changes_nothing(desk: TenantHarness) -> None:
    stored = put(desk)
    for name in ("daily", "another"):
        with pytest.raises(Invalid):
            put(desk, name, Timing("0 6 * * *", "Mars/Olympus"))
        with pytest.raises(Invalid):
            put(desk, name, work={})
    assert desk.read(schedule_store.list_schedule_page, 10) == [stored]


def tool(arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"tool": {"name": "now", "arguments": arguments, "conversation_id": 0, **fields}}


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


BAD_WORK: dict[str, dict[str, Any]] = {
    "nothing": {},
    "something else": {"prayer": {"description": "peace"}},
    "two things": {**NOW, "message": {"conversation_id": 1, "content": "hello"}},
    "a number that is none": tool({"a": [{"b": float("nan")}]}),
    "infinity": tool({"a": float("-inf")}),
    "a number beyond 64 bits": tool({"a": 2**63}),
    "NUL": tool({"a": ["b\0"]}),
    "a surrogate in a name": tool({"a\ud800": 1}),
    "a deep hole": tool({"a": nested(500)}),
}


@each_row("work", BAD_WORK.values())
def test_work_that_could_never_run_is_refused(desk: TenantHarness, work: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        put(desk, work=work)
    assert desk.count("schedules") == 0


@each_row("content", ["", " \n\t", "NUL \0", "\ud800", "x" * 200_001])
def test_a_message_has_to_say_something(desk: TenantHarness, content: str) -> None:
    with pytest.raises(Invalid):
        put(desk, work=message(desk, content))


@each_row("name", ["", "  ", "a\nb", "a\0b", "a\ud800", "\x1b[2J", "x" * 201])
def test_names_are_such_as_people_type(desk: TenantHarness, name: str) -> None:
    with pytest.raises(Invalid):
        put(desk, name)


def test_a_foreign_conversation_is_as_unknown_as_a_missing_one(desk: TenantHarness, database: DirectDatabase) -> None:
    foreign = TenantHarness(database, "other").conversation().id
    refusals = []
    for conversation_id in (foreign, 999_999):
        for work in ({"message": {"conversation_id": conversation_id, "content": "hi"}}, tool({}, conversation_id=conversation_id)):
            with pytest.raises(NotFound) as refused:
                put(desk, work=work)
            refusals.append(str(refused.value).replace(str(conversation_id), "N"))
    assert len(set(refusals)) == 1
    assert desk.count("schedules") == 0


# Due times across daylight saving changes


def to_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def list_due_times(cron: str, zone: str, start: str, count: int) -> list[str]:
    """Compute the next `count` due times in UTC, each from the one before."""
    now, due = to_ms(start), []
    for _ in range(count):
        now = schedules.compute_next(Timing(cron, zone), now, now)
        due.append(datetime.fromtimestamp(now / 1000, UTC).strftime("%m-%d %H:%M"))
    return due


def test_six_in_the_morning_is_at_six_in_summer_and_in_winter() -> None:
    assert list_due_times("0 6 * * *", "Europe/Berlin", "2026-03-28T00:00", 3) == ["03-28 05:00", "03-29 04:00", "03-30 04:00"]
    assert list_due_times("0 6 * * *", "Europe/Berlin", "2026-10-24T00:00", 3) == ["10-24 04:00", "10-25 05:00", "10-26 05:00"]
    assert list_due_times("0 6 * * *", "UTC", "2026-03-28T07:00", 2) == ["03-29 06:00", "03-30 06:00"]


def test_a_time_that_a_spring_night_leaves_out_comes_when_the_clock_has_jumped() -> None:
    assert list_due_times("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 3) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_a_time_that_an_autumn_night_has_twice_comes_once() -> None:
    assert list_due_times("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00", 3) == ["10-24 00:30", "10-25 00:30", "10-26 01:30"]


def test_an_hourly_schedule_stays_hourly_through_both_clock_changes() -> None:
    spring = list_due_times("0 * * * *", "Europe/Berlin", "2026-03-28T23:30", 4)
    autumn = list_due_times("0 * * * *", "Europe/Berlin", "2026-10-24T23:30", 4)
    assert spring == ["03-29 00:00", "03-29 01:00", "03-29 02:00", "03-29 03:00"]
    assert autumn == ["10-25 00:00", "10-25 01:00", "10-25 02:00", "10-25 03:00"]


def test_an_interval_does_not_care_how_clocks_are_set() -> None:
    start = to_ms("2026-03-28T23:30")
    assert schedules.compute_next(Timing(every_ms=3_600_000), start, start + 5 * 3_600_000) == start + 6 * 3_600_000


def test_a_leap_day_is_waited_for() -> None:
    assert schedules.compute_next(Timing("0 0 29 2 *"), 0, to_ms("2026-01-01T00:00")) == to_ms("2028-02-29T00:00")
