"""Operations on schedules: /schedules"""

from typing import Any

from headway.actions import schedules
from headway.actions.schedules import ScheduleChange, Timing
from headway.agents.tools import scheduled
from headway.ledger.errors import Invalid
from headway.ledger.schedule import Schedule
from headway.operations.operation import Document, OperationCall, OperationTable, one, page
from headway.operations.schemas import engine as schemas
from headway.operations.schemas.todos import CursorQuery, Deleted
from headway.values import work as values_work

table = OperationTable("engine")

ONE_SCHEDULE = one("schedule", values_work.Schedule)


@table.add("GET /schedules", "List schedules, by name", page("schedules", values_work.Schedule))
def list_schedules(call: OperationCall, query: CursorQuery) -> Document:
    return schedules.list_page(call.tx, call.tenant_id, query.limit, query.cursor).as_json()


def check_tool(call: OperationCall, name: str, body: schemas.NewSchedule | schemas.ScheduleChanges) -> None:
    """Check a call of a tool before the write, because a custom tool's own code checks its arguments."""
    work = collect_work(body)
    if "tool" in work:
        check = scheduled.check_remote_call if call.token else scheduled.check_call
        check(call.tx, call.tenant_id, work["tool"], call.host.toolbox, call.host.roles)


def collect_work(body: schemas.NewSchedule | schemas.ScheduleChanges) -> dict[str, Any]:
    kinds = {"goal": body.goal, "message": body.message, "tool": body.tool}
    return {kind: target.model_dump() for kind, target in kinds.items() if target}


@table.add(
    "PUT /schedules/{name}",
    "Create a schedule, or change the existing one",
    ONE_SCHEDULE,
    errors=(404,),
    check=check_tool,
)
def put_schedule(call: OperationCall, name: str, body: schemas.NewSchedule) -> Document:
    timing = Timing(body.cron or "", body.timezone, int((body.every_s or 0) * 1000))
    return encode_schedule(call, schedules.put(call.tx, call.tenant_id, name, timing, collect_work(body)))


@table.add(
    "PATCH /schedules/{name}",
    "Change a schedule: its times, its work, its name, or whether it is paused",
    ONE_SCHEDULE,
    errors=(404, 409),
    check=check_tool,
)
def change_schedule(call: OperationCall, name: str, body: schemas.ScheduleChanges) -> Document:
    timing = merge_timing(schedules.get(call.tx, call.tenant_id, name), body)
    change = ScheduleChange(timing, collect_work(body) or None, body.paused, body.name)
    return encode_schedule(call, schedules.change(call.tx, call.tenant_id, name, change))


def merge_timing(schedule: Schedule, body: schemas.ScheduleChanges) -> Timing | None:
    """Return the timing of the schedule with the changes, or None if it stays as it is."""
    if body.cron is None and body.every_s is None and body.timezone is None:
        return None
    if body.cron is None and body.every_s is None and not schedule.cron:
        raise Invalid("timezone applies to cron only.")
    if body.every_s is not None:
        return Timing(body.cron or "", "UTC", int(body.every_s * 1000))
    return Timing(body.cron or schedule.cron, body.timezone or schedule.timezone)


def encode_schedule(call: OperationCall, schedule: Schedule) -> Document:
    call.nudge()
    return {"schedule": schedule.as_json()}


@table.add("GET /schedules/preview", "Get the next five times of a schedule that would be created now", schemas.SchedulePreview)
def preview_schedule(call: OperationCall, query: schemas.PreviewQuery) -> Document:
    timing = Timing(query.cron or "", query.timezone, int((query.every_s or 0) * 1000))
    times = schedules.preview(timing, call.tx.now)
    return {"times": [moment // 1000 for moment in times], "timezone": query.timezone}


@table.add("GET /schedules/{name}", "Get a schedule", ONE_SCHEDULE, errors=(404,))
def get_schedule(call: OperationCall, name: str) -> Document:
    return {"schedule": schedules.get(call.tx, call.tenant_id, name).as_json()}


@table.add("DELETE /schedules/{name}", "Delete a schedule", Deleted, errors=(404, 507))
def delete_schedule(call: OperationCall, name: str) -> Document:
    schedules.remove(call.tx, call.tenant_id, name)
    return {"deleted": True}


@table.add("POST /schedules/{name}/pause", "Pause a schedule", ONE_SCHEDULE, errors=(404, 409))
def pause_schedule(call: OperationCall, name: str) -> Document:
    return encode_schedule(call, schedules.pause(call.tx, call.tenant_id, name))


@table.add("POST /schedules/{name}/resume", "Resume a schedule from now on", ONE_SCHEDULE, errors=(404, 409))
def resume_schedule(call: OperationCall, name: str) -> Document:
    return encode_schedule(call, schedules.resume(call.tx, call.tenant_id, name))


@table.add("POST /schedules/{name}/run", "Run a schedule once, now", ONE_SCHEDULE, errors=(404, 409))
def run_schedule(call: OperationCall, name: str) -> Document:
    return encode_schedule(call, schedules.run_now(call.tx, call.tenant_id, name, call.host.settings.limits))
