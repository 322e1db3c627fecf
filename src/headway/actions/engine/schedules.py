"""Schedules: recurring work. One transaction per tick stores both the work that it starts and the time of the next tick."""

import json
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from headway.actions.access import quotas
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, HeadwayError, Invalid, NotFound
from headway.ledger.events import LONG_TEXT, Event, RowChange, encode_json, omit_texts
from headway.ledger.job import Schedule, check_schedule_name
from headway.ledger.limits import Limits
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import schedules as schedule_store
from headway.storage.transaction import Transaction, act_as

log = logging.getLogger("headway.schedules")

SCHEDULES_LIMIT = 1_000  # per tenant
MIN_INTERVAL_MS = 1_000
MAX_INTERVAL_MS = 366 * 24 * 3600 * 1000
TICK_BATCH = 100
PREVIEW_COUNT = 5  # how many of its next times a preview shows
CLOCK_TOLERANCE_MS = 60_000  # ignore clocks that were set back by less than this
DEFAULT_LIMITS = Limits()
CURSORS = CursorCodec("schedules", ("",))  # the name


class Timing(NamedTuple):
    cron: str = ""
    timezone: str = "UTC"
    every_ms: int = 0

    def checked(self) -> "Timing":
        if bool(self.cron) == bool(self.every_ms):
            raise Invalid("Set either cron or every.")
        text.check_text(self.cron, "cron", text.NAME_LIMIT)
        if self.cron:
            compute_next_cron(self, 0)
            return self
        load_timezone(self)
        if not MIN_INTERVAL_MS <= self.every_ms <= MAX_INTERVAL_MS:
            raise Invalid("An interval must be between 1 second and 366 days.")
        return self._replace(timezone="UTC")  # an interval is the same in every time zone


class SchedulePage(NamedTuple):
    schedules: list[Schedule]
    next_cursor: str | None

    def as_json(self) -> dict[str, Any]:
        return {"schedules": [schedule.as_json() for schedule in self.schedules], "next_cursor": self.next_cursor}


def list_schedules(tx: Transaction, tenant_id: int, limit: int, cursor: str | None = None) -> SchedulePage:
    """List schedules by name, starting after the last name of the previous page."""
    (after,) = CURSORS.decode(cursor)
    rows = schedule_store.list_schedule_page(tx, tenant_id, limit + 1, after)
    return SchedulePage(rows[:limit], CURSORS.encode_next(rows, limit, lambda schedule: (schedule.name,)))


def put(tx: Transaction, tenant_id: int, name: str, timing: Timing, work: dict[str, Any]) -> Schedule:
    """Create a schedule, or change the one with this name. If the timing is unchanged, the next tick stays as it was."""
    name = check_schedule_name(name)
    timing = timing.checked()
    check_work(tx, tenant_id, work)
    existing = schedule_store.find_locked_schedule(tx, tenant_id, name)
    if existing is None and schedule_store.count_schedules(tx, tenant_id) >= SCHEDULES_LIMIT:
        raise Invalid(f"A tenant can have at most {SCHEDULES_LIMIT:,} schedules. Delete one first.")
    is_same_timing = existing and (existing.cron, existing.timezone, existing.every_ms) == timing
    next_at = existing.next_at if existing and is_same_timing else compute_next(timing, tx.now, tx.now)
    schedule = schedule_store.put(tx, tenant_id, name, timing, encode_json(work), next_at)
    emit_schedule_changed(tx, schedule, has_new_work=True)
    return schedule


class ScheduleChange(NamedTuple):
    """A change of a schedule. Fields that are None stay as they are."""

    timing: Timing | None = None
    work: dict[str, Any] | None = None
    paused: bool | None = None
    name: str | None = None


def change_schedule(tx: Transaction, tenant_id: int, name: str, wanted: ScheduleChange) -> Schedule:
    """Change an existing schedule. A new name must be free, and its history is kept."""
    schedule = get_locked_schedule(tx, tenant_id, name)
    if wanted.name is not None and wanted.name.strip() != schedule.name:
        schedule = rename_schedule(tx, schedule, check_schedule_name(wanted.name))
    if wanted.timing or wanted.work:
        work = json.loads(schedule.work) if wanted.work is None else wanted.work
        schedule = put(tx, tenant_id, schedule.name, wanted.timing or build_timing(schedule), work)
    if wanted.paused is not None and wanted.paused != bool(schedule.paused):
        schedule = (pause if wanted.paused else resume)(tx, tenant_id, schedule.name)
    return schedule


def rename_schedule(tx: Transaction, schedule: Schedule, name: str) -> Schedule:
    if schedule_store.find_schedule(tx, schedule.tenant_id, name):
        raise Conflict(f"There is already a schedule named {name[:80]!r}.")
    emit_schedule_changed(tx, schedule, "deleted")
    schedule_store.rename_schedule(tx, schedule, name)
    schedule = schedule._replace(name=name)
    emit_schedule_changed(tx, schedule, has_new_work=True)
    return schedule


def check_work(tx: Transaction, tenant_id: int, work: dict[str, Any]) -> None:
    if set(work) == {"message"}:
        finding.get_conversation(tx, tenant_id, work["message"]["conversation_id"])
        if not text.check_text(work["message"]["content"], "content").strip():
            raise Invalid("content must not be blank. Say what the agent should do.")
    elif set(work) == {"tool"}:
        text.check_name(work["tool"]["name"], "tool")
        text.check_numbers(work["tool"]["arguments"])
        text.check_texts(work["tool"]["arguments"])
        if conversation_id := work["tool"].get("conversation_id"):
            finding.get_conversation(tx, tenant_id, conversation_id)
    elif set(work) == {"goal"}:
        goals.validate(NewGoal(**work["goal"]))
    else:
        raise Invalid("Set one of goal, message and tool.")


def get_schedule(tx: Transaction, tenant_id: int, name: str) -> Schedule:
    schedule = schedule_store.find_schedule(tx, tenant_id, text.check_text(name, "name").strip())
    if schedule is None:
        raise NotFound(f"No schedule named {name[:80]!r}.")
    return schedule


def get_locked_schedule(tx: Transaction, tenant_id: int, name: str) -> Schedule:
    schedule = schedule_store.find_locked_schedule(tx, tenant_id, text.check_text(name, "name").strip())
    if schedule is None:
        raise NotFound(f"No schedule named {name[:80]!r}.")
    return schedule


def remove_schedule(tx: Transaction, tenant_id: int, name: str) -> None:
    schedule = get_locked_schedule(tx, tenant_id, name)
    schedule_store.delete_schedule(tx, tenant_id, schedule.name)
    emit_schedule_changed(tx, schedule, "deleted")


def pause(tx: Transaction, tenant_id: int, name: str) -> Schedule:
    return save_schedule_and_emit(tx, get_locked_schedule(tx, tenant_id, name)._replace(paused=1))


def resume(tx: Transaction, tenant_id: int, name: str) -> Schedule:
    """Resume from now on. Ticks missed during the pause are not made up for."""
    schedule = get_locked_schedule(tx, tenant_id, name)
    next_at = compute_next(build_timing(schedule), schedule.next_at, tx.now) if schedule.paused else schedule.next_at
    return save_schedule_and_emit(tx, schedule._replace(paused=0, next_at=next_at))


def run_now(tx: Transaction, tenant_id: int, name: str, limits: Limits = DEFAULT_LIMITS) -> Schedule:
    """Run the work once, outside its schedule. The next tick is not affected."""
    halts.check(tx)
    schedule = get_locked_schedule(tx, tenant_id, name)
    if "message" not in json.loads(schedule.work) and is_running(tx, schedule):  # for messages, `turns.start` checks
        raise Conflict(f"The last run of {name[:80]!r} has not ended yet.")
    return save_schedule_and_emit(tx, schedule._replace(last_at=tx.now, last_job=start_work(tx, schedule, limits)))


def tick(tx: Transaction, limits: Limits = DEFAULT_LIMITS) -> None:
    """Start the work that is due. Work that missed several ticks is started once."""
    if halts.find_active(tx):
        return
    for schedule in schedule_store.lock_due(tx, TICK_BATCH):
        try:
            advanced = schedule._replace(next_at=compute_next(build_timing(schedule), schedule.next_at, tx.now))
        except Invalid as error:  # for example, an unknown time zone: there is no next time to try it
            log.warning("schedule %s of tenant %d is paused: %s", schedule.name, schedule.tenant_id, error)
            save_schedule_and_emit(tx, schedule._replace(paused=1))
            continue
        if is_running(tx, schedule):
            log.warning("schedule %s of tenant %d is skipped: its last run has not ended", schedule.name, schedule.tenant_id)
            save_schedule_and_emit(tx, advanced._replace(skipped=schedule.skipped + 1))
            continue
        try:
            job_id = tx.attempt(lambda tx, schedule=schedule: start_work(tx, schedule, limits))  # type: ignore[misc]
        except HeadwayError as error:
            log.warning("schedule %s of tenant %d is skipped: %s", schedule.name, schedule.tenant_id, error)
            save_schedule_and_emit(tx, advanced._replace(skipped=schedule.skipped + 1))
            continue
        save_schedule_and_emit(tx, advanced._replace(last_at=tx.now, last_job=job_id))


def realign(tx: Transaction) -> None:
    """Recompute the next tick of schedules that were updated before the clock was set back and now appear to be from the future."""
    for schedule in schedule_store.lock_updated_after(tx, tx.now + CLOCK_TOLERANCE_MS):
        with suppress(Invalid):  # an unknown time zone is reported at the next tick
            save_schedule_and_emit(tx, schedule._replace(next_at=compute_next(build_timing(schedule), tx.now, tx.now)))


def is_running(tx: Transaction, schedule: Schedule) -> bool:
    """Whether the last run is still active. A goal counts until it has ended, even if it is paused or its job is dead."""
    run = run_store.find_run(tx, schedule.tenant_id, schedule.last_job) if schedule.last_job else None
    if run and run.is_main:
        return not run.ended
    job = job_store.find_job(tx, schedule.tenant_id, schedule.last_job) if schedule.last_job else None
    return job is not None and not job.over


def start_work(tx: Transaction, schedule: Schedule, limits: Limits) -> str:
    """Start the scheduled work and return the id of its job."""
    with act_as(tx, f"schedule {schedule.name}"):
        return start_parsed_work(tx, schedule, json.loads(schedule.work), limits)


def start_parsed_work(tx: Transaction, schedule: Schedule, work: dict[str, Any], limits: Limits) -> str:
    if "goal" in work:
        job_id = goals.add_goal(tx, schedule.tenant_id, NewGoal(**work["goal"]), limits).run_id
        assert job_id is not None
        return job_id
    if "message" in work:
        request = turns.TurnRequest(work["message"]["content"], limit=limits.iterations, attempts=limits.attempts)
        return turns.start_turn(tx, schedule.tenant_id, work["message"]["conversation_id"], request).id
    if "tool" in work:
        quotas.check_storage(tx, schedule.tenant_id)
        return jobs.create_job(tx, schedule.tenant_id, jobs.TOOL, work["tool"]).id
    raise Invalid("This version of Headway does not support that kind of work.")  # it was stored by a newer Headway


def save_schedule_and_emit(tx: Transaction, schedule: Schedule) -> Schedule:
    schedule = schedule._replace(updated_at=tx.now)
    schedule_store.save_schedule(tx, schedule)
    emit_schedule_changed(tx, schedule)
    return schedule


def emit_schedule_changed(
    tx: Transaction, schedule: Schedule, change: RowChange = "updated", *, has_new_work: bool = False
) -> None:
    """Emit the schedule. The work that it starts is left out if it is long and did not change."""
    document: dict[str, Any] = {"change": change, "schedule": schedule.as_json()}
    if not has_new_work and len(schedule.work) > LONG_TEXT:
        omit_texts(document, "schedule", json.loads(schedule.work))
    subject = f"job:{schedule.last_job}" if schedule.last_job else None  # the last work that it started
    tx.emit(Event(schedule.tenant_id, "schedule_changed", encode_json(document), subject=subject))


# Timing


def build_timing(schedule: Schedule) -> Timing:
    return Timing(schedule.cron, schedule.timezone, schedule.every_ms)


def compute_next(timing: Timing, last: int, now: int) -> int:
    """Return the next time after `now`. An interval keeps its rhythm, counted from the last time."""
    if timing.cron:
        return compute_next_cron(timing, now)
    return last + ((now - last) // timing.every_ms + 1) * timing.every_ms


def compute_next_cron(timing: Timing, now: int) -> int:
    local_time = datetime.fromtimestamp(now / 1000, UTC).astimezone(load_timezone(timing))
    try:
        next_time = next(CronSim(timing.cron, local_time))
    except (CronSimError, StopIteration, OverflowError):
        raise Invalid(f"{timing.cron[:80]!r} is not a cron expression that ever fires. Example: `0 6 * * *`.") from None
    return int(next_time.timestamp() * 1000)


def preview(timing: Timing, now: int) -> list[int]:
    """Return the next times of a schedule that would be created at `now`."""
    timing, times = timing.checked(), [now]
    for _ in range(PREVIEW_COUNT):
        times.append(compute_next(timing, times[-1], times[-1]))
    return times[1:]


def load_timezone(timing: Timing) -> ZoneInfo:
    try:
        return ZoneInfo(timing.timezone)
    except (KeyError, ValueError, OSError):
        raise Invalid(f"Unknown time zone {timing.timezone[:80]!r}. Example: Europe/Berlin.") from None
