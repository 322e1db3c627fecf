"""Recurring work. A tick is one transaction: what it starts and when the next one comes are stored together."""

import json
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from headway.actions import conversations, goals, halts, jobs, turns
from headway.actions.goals import NewGoal
from headway.ledger import text
from headway.ledger.errors import Conflict, HeadwayError, Invalid, NotFound
from headway.ledger.events import Event, encode
from headway.ledger.run import Limits
from headway.ledger.schedule import Schedule
from headway.storage import halt_store, job_store, run_store, schedule_store
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.schedules")

SCHEDULES_LIMIT = 1_000  # of a tenant
SHORTEST_MS = 1_000
LONGEST_MS = 366 * 24 * 3600 * 1000
TICKS_AT_ONCE = 100
AHEAD_MS = 60_000  # a clock that was set back by less makes no difference worth mending
DEFAULTS = Limits()


class Timing(NamedTuple):
    cron: str = ""
    timezone: str = "UTC"
    every_ms: int = 0

    def checked(self) -> "Timing":
        if bool(self.cron) == bool(self.every_ms):
            raise Invalid("Say when: either cron or every.")
        text.safe(self.cron, "cron", text.NAME_LIMIT)
        if self.cron:
            next_cron(self, 0)
            return self
        zone_of(self)
        if not SHORTEST_MS <= self.every_ms <= LONGEST_MS:
            raise Invalid("An interval is at least a second, and at most 366 days.")
        return self._replace(timezone="UTC")  # it is the same everywhere


class Page(NamedTuple):
    schedules: list[Schedule]
    next_cursor: str | None

    def as_json(self) -> dict[str, Any]:
        return {"schedules": [one.as_json() for one in self.schedules], "next_cursor": self.next_cursor}


def page(tx: Transaction, tenant_id: int, limit: int, cursor: str | None = None) -> Page:
    """By name, after the one that the page before ended with."""
    found = schedule_store.page(tx, tenant_id, limit + 1, text.name(cursor, "cursor") if cursor else "")
    return Page(found[:limit], found[limit - 1].name if len(found) > limit else None)


def put(tx: Transaction, tenant_id: int, name: str, timing: Timing, work: dict[str, Any]) -> Schedule:
    """Make it, or change the one of that name. Put twice alike, it goes on as it was."""
    name = text.name(name, "name")
    if "/" in name or name in (".", ".."):
        raise Invalid("A schedule's name must not contain a slash, nor be . or ..: it is part of an address.")
    timing = timing.checked()
    check_work(tx, tenant_id, work)
    known = schedule_store.get_locked(tx, tenant_id, name)
    if known is None and schedule_store.count(tx, tenant_id) >= SCHEDULES_LIMIT:
        raise Invalid(f"A tenant has at most {SCHEDULES_LIMIT:,} schedules.")
    same = known and (known.cron, known.timezone, known.every_ms) == timing
    next_at = known.next_at if known and same else after(timing, tx.now, tx.now)
    schedule = schedule_store.put(tx, tenant_id, name, timing, encode(work), next_at)
    tell(tx, schedule)
    return schedule


def check_work(tx: Transaction, tenant_id: int, work: dict[str, Any]) -> None:
    if set(work) == {"message"}:
        conversations.get(tx, tenant_id, work["message"]["conversation_id"])
        if not text.safe(work["message"]["content"], "content").strip():
            raise Invalid("content must not be blank: say what is to be done.")
    elif set(work) == {"tool"}:
        text.name(work["tool"]["name"], "tool")
        text.check_numbers(work["tool"]["arguments"])
        text.check_texts(work["tool"]["arguments"])
        if conversation_id := work["tool"].get("conversation_id"):
            conversations.get(tx, tenant_id, conversation_id)
    elif set(work) == {"goal"}:
        goals.checked(NewGoal(**work["goal"]))
    else:
        raise Invalid("Say what: one of goal, message and tool.")


def get(tx: Transaction, tenant_id: int, name: str) -> Schedule:
    schedule = schedule_store.get(tx, tenant_id, text.safe(name, "name").strip())
    if schedule is None:
        raise NotFound(f"No schedule named {name[:80]!r}.")
    return schedule


def locked(tx: Transaction, tenant_id: int, name: str) -> Schedule:
    schedule = schedule_store.get_locked(tx, tenant_id, text.safe(name, "name").strip())
    if schedule is None:
        raise NotFound(f"No schedule named {name[:80]!r}.")
    return schedule


def remove(tx: Transaction, tenant_id: int, name: str) -> None:
    schedule = locked(tx, tenant_id, name)
    schedule_store.delete(tx, tenant_id, schedule.name)
    tell(tx, schedule, "deleted")


def pause(tx: Transaction, tenant_id: int, name: str) -> Schedule:
    return save(tx, locked(tx, tenant_id, name)._replace(paused=1))


def resume(tx: Transaction, tenant_id: int, name: str) -> Schedule:
    """From now on; what was missed while it was paused stays missed."""
    schedule = locked(tx, tenant_id, name)
    next_at = after(timing_of(schedule), schedule.next_at, tx.now) if schedule.paused else schedule.next_at
    return save(tx, schedule._replace(paused=0, next_at=next_at))


def run_now(tx: Transaction, tenant_id: int, name: str, limits: Limits = DEFAULTS) -> Schedule:
    """Once more, whatever the clock says; the next tick comes as it would have come."""
    halts.check(tx)
    schedule = locked(tx, tenant_id, name)
    if "message" not in json.loads(schedule.work) and is_running(tx, schedule):  # a message finds its conversation busy
        raise Conflict(f"The last run of {name[:80]!r} is not over.")
    return save(tx, schedule._replace(last_at=tx.now, last_job=begin(tx, schedule, limits)))


def tick(tx: Transaction, limits: Limits = DEFAULTS) -> None:
    """Start what is due. However many ticks were missed, it is started once."""
    if halt_store.in_force(tx):
        return
    for schedule in schedule_store.due(tx, TICKS_AT_ONCE):
        try:
            advanced = schedule._replace(next_at=after(timing_of(schedule), schedule.next_at, tx.now))
        except Invalid as error:  # a time zone that this machine does not know, say: nobody can tell when to look again
            log.warning("schedule %s of tenant %d is paused: %s", schedule.name, schedule.tenant_id, error)
            save(tx, schedule._replace(paused=1))
            continue
        if is_running(tx, schedule):
            log.warning("schedule %s of tenant %d is skipped: its last run is not over", schedule.name, schedule.tenant_id)
            save(tx, advanced._replace(skipped=schedule.skipped + 1))
            continue
        try:
            job_id = tx.attempt(lambda tx, schedule=schedule: begin(tx, schedule, limits))  # type: ignore[misc]
        except HeadwayError as error:
            log.warning("schedule %s of tenant %d is skipped: %s", schedule.name, schedule.tenant_id, error)
            save(tx, advanced._replace(skipped=schedule.skipped + 1))
            continue
        save(tx, advanced._replace(last_at=tx.now, last_job=job_id))


def realign(tx: Transaction) -> None:
    """The clock was set back: what is ordered for after a time that has yet to come is ordered anew, from now on."""
    for schedule in schedule_store.written_after(tx, tx.now + AHEAD_MS):
        with suppress(Invalid):  # a time zone that this machine does not know: its tick will say so
            save(tx, schedule._replace(next_at=after(timing_of(schedule), tx.now, tx.now)))


def is_running(tx: Transaction, schedule: Schedule) -> bool:
    """A goal runs until it has ended, also while it is paused and whatever became of its job."""
    run = run_store.get(tx, schedule.tenant_id, schedule.last_job) if schedule.last_job else None
    if run and run.is_main:
        return not run.ended
    job = job_store.get(tx, schedule.tenant_id, schedule.last_job) if schedule.last_job else None
    return job is not None and not job.over


def begin(tx: Transaction, schedule: Schedule, limits: Limits) -> str:
    """The job that does it."""
    work = json.loads(schedule.work)
    if "goal" in work:
        job_id = goals.add(tx, schedule.tenant_id, NewGoal(**work["goal"]), limits).run_id
        assert job_id is not None
        return job_id
    if "message" in work:
        wanted = turns.Beginning(work["message"]["content"], limit=limits.iterations, attempts=limits.attempts)
        return turns.start(tx, schedule.tenant_id, work["message"]["conversation_id"], wanted).id
    if "tool" in work:
        return jobs.new(tx, schedule.tenant_id, jobs.TOOL, work["tool"]).id
    raise Invalid("This Headway does not know that kind of work.")  # a newer one does


def save(tx: Transaction, schedule: Schedule) -> Schedule:
    schedule = schedule._replace(updated_at=tx.now)
    schedule_store.save(tx, schedule)
    tell(tx, schedule)
    return schedule


def tell(tx: Transaction, schedule: Schedule, change: str = "updated") -> None:
    tx.emit(Event(schedule.tenant_id, "schedule_changed", encode({"change": change, "schedule": schedule.as_json()})))


# When


def timing_of(schedule: Schedule) -> Timing:
    return Timing(schedule.cron, schedule.timezone, schedule.every_ms)


def after(timing: Timing, last: int, now: int) -> int:
    """The next time after now. An interval keeps its beat, counted from the last time."""
    if timing.cron:
        return next_cron(timing, now)
    return last + ((now - last) // timing.every_ms + 1) * timing.every_ms


def next_cron(timing: Timing, now: int) -> int:
    here = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone_of(timing))
    try:
        found = next(CronSim(timing.cron, here))
    except (CronSimError, StopIteration, OverflowError):
        raise Invalid(f"{timing.cron[:80]!r} is no cron expression that ever fires; one is `0 6 * * *`, for example.") from None
    return int(found.timestamp() * 1000)


def zone_of(timing: Timing) -> ZoneInfo:
    try:
        return ZoneInfo(timing.timezone)
    except (KeyError, ValueError, OSError):
        raise Invalid(f"Unknown time zone {timing.timezone[:80]!r}; one is called Europe/Berlin, for example.") from None
