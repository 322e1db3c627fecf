"""Operations on schedules: /schedules"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from headway.actions.engine import schedules
from headway.actions.engine.schedules import ScheduleChange, Timing
from headway.actions.goals.goals import DEFAULT_PRIORITY
from headway.agents.tools import catalogue
from headway.ledger.errors import Invalid
from headway.ledger.job import Schedule
from headway.ledger.text import SUBJECT_PATTERN, TEXT_LIMIT
from headway.operations.fields import CursorQuery, Id, ListId, Name, QueryModel, StrictModel
from headway.operations.goals import GoalDescription, GoalText, Priority
from headway.operations.operation import Document, OperationCall, OperationTable, one, page
from headway.operations.todos import Deleted
from headway.values import work as values_work


class ScheduledGoal(StrictModel):
    description: GoalDescription
    success_criteria: GoalText = ""
    priority: Priority = DEFAULT_PRIORITY


class ScheduledMessage(StrictModel):
    conversation_id: Id
    content: Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]


class ScheduledTool(StrictModel):
    name: Annotated[Name, Field(validation_alias=AliasChoices("name", "toolName"))]
    arguments: Annotated[dict[str, Any], Field(validation_alias=AliasChoices("arguments", "input"))] = {}
    conversation_id: ListId = 0


def omit_nulls(schema: dict[str, Any], names: Sequence[str]) -> None:
    """Document optional fields as omitted rather than null."""
    for name in names:
        field = schema["properties"][name]
        (kind,) = (option for option in field.pop("anyOf") if option != {"type": "null"})
        field.pop("default", None)
        field |= kind


def simplify_schedule_schema(schema: dict[str, Any]) -> None:
    """Document the optional fields as omitted rather than null, and add an example."""
    omit_nulls(schema, ("cron", "every_s", "goal", "message", "tool"))
    schema["examples"] = [{"cron": "0 6 * * *", "timezone": "Europe/Berlin", "tool": {"name": "todo_ready", "arguments": {}}}]


Cron = Annotated[str | None, Field(max_length=200, validation_alias=AliasChoices("cron", "pattern"))]
Timezone = Annotated[str, Field(max_length=100)]
Interval = Annotated[float | None, Field(ge=1, le=366 * 24 * 3600, allow_inf_nan=False)]


class NewSchedule(StrictModel):
    """A schedule has either `cron` or `every_s`, and exactly one of `goal`, `message` and `tool`."""

    model_config = ConfigDict(json_schema_extra=simplify_schedule_schema)

    cron: Cron = None
    timezone: Timezone = "UTC"
    every_s: Interval = None
    goal: ScheduledGoal | None = None
    message: ScheduledMessage | None = None
    tool: ScheduledTool | None = None


class ScheduleChanges(StrictModel):
    """Omitted fields stay as they are. `cron` replaces `every_s`, and the other way round; so do `goal`, `message` and `tool`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cron": "30 7 * * 1-5"}, {"paused": True}]})

    name: Name | None = None
    cron: Cron = None
    timezone: Annotated[str | None, Field(max_length=100)] = None
    every_s: Interval = None
    goal: ScheduledGoal | None = None
    message: ScheduledMessage | None = None
    tool: ScheduledTool | None = None
    paused: bool | None = None


class PreviewQuery(QueryModel):
    """Either `cron` or `every_s`."""

    cron: Annotated[str | None, Field(max_length=200)] = None
    timezone: Timezone = "UTC"
    every_s: Interval = None


# Answers


class SchedulePreview(BaseModel):
    times: Annotated[list[int], Field(description="The next five times, in epoch seconds")]
    timezone: str


# Operations on schedules: /schedules


table = OperationTable("engine")

ONE_SCHEDULE = one("schedule", values_work.Schedule)


@table.add("GET /schedules", "List schedules, by name", page("schedules", values_work.Schedule))
def list_schedules(call: OperationCall, query: CursorQuery) -> Document:
    return schedules.list_schedules(call.tx, call.tenant_id, query.limit, query.cursor).as_json()


def check_tool(call: OperationCall, name: str, body: NewSchedule | ScheduleChanges) -> None:
    """Check a call of a tool before the write, because a custom tool's own code checks its arguments."""
    work = collect_work(body)
    if "tool" in work:
        check = catalogue.check_remote_call if call.token else catalogue.check_call
        check(call.tx, call.tenant_id, work["tool"], call.host.toolbox, call.host.roles)


def collect_work(body: NewSchedule | ScheduleChanges) -> dict[str, Any]:
    kinds = {"goal": body.goal, "message": body.message, "tool": body.tool}
    return {kind: target.model_dump() for kind, target in kinds.items() if target}


@table.add(
    "PUT /schedules/{name}",
    "Create a schedule, or change the existing one",
    ONE_SCHEDULE,
    errors=(404,),
    check=check_tool,
)
def put_schedule(call: OperationCall, name: str, body: NewSchedule) -> Document:
    timing = Timing(body.cron or "", body.timezone, int((body.every_s or 0) * 1000))
    return encode_schedule(call, schedules.put(call.tx, call.tenant_id, name, timing, collect_work(body)))


@table.add(
    "PATCH /schedules/{name}",
    "Change a schedule: its times, its work, its name, or whether it is paused",
    ONE_SCHEDULE,
    errors=(404, 409),
    check=check_tool,
)
def change_schedule(call: OperationCall, name: str, body: ScheduleChanges) -> Document:
    timing = merge_timing(schedules.get_schedule(call.tx, call.tenant_id, name), body)
    change = ScheduleChange(timing, collect_work(body) or None, body.paused, body.name)
    return encode_schedule(call, schedules.change_schedule(call.tx, call.tenant_id, name, change))


def merge_timing(schedule: Schedule, body: ScheduleChanges) -> Timing | None:
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


@table.add("GET /schedules/preview", "Get the next five times of a schedule that would be created now", SchedulePreview)
def preview_schedule(call: OperationCall, query: PreviewQuery) -> Document:
    timing = Timing(query.cron or "", query.timezone, int((query.every_s or 0) * 1000))
    times = schedules.preview(timing, call.tx.now)
    return {"times": [moment // 1000 for moment in times], "timezone": query.timezone}


@table.add("GET /schedules/{name}", "Get a schedule", ONE_SCHEDULE, errors=(404,))
def get_schedule(call: OperationCall, name: str) -> Document:
    return {"schedule": schedules.get_schedule(call.tx, call.tenant_id, name).as_json()}


@table.add("DELETE /schedules/{name}", "Delete a schedule", Deleted, errors=(404, 507))
def delete_schedule(call: OperationCall, name: str) -> Document:
    schedules.remove_schedule(call.tx, call.tenant_id, name)
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
