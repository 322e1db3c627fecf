"""Schemas of agents and schedules."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from headway.actions.goals import DEFAULT_PRIORITY
from headway.ledger.run import EffectState
from headway.ledger.text import MAX_INTEGER, SUBJECT_PATTERN, TEXT_LIMIT
from headway.operations.schemas.goals import GoalDescription, GoalText, Priority
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import CursorQuery, Id, ListId, Name, QueryModel


class AgentsQuery(CursorQuery):
    turn_id: Name | None = None
    goal_id: Id | None = None


class StepsQuery(QueryModel):
    limit: Annotated[int, Field(ge=1, le=100)] = 50
    after: Annotated[int | None, Field(ge=0, le=MAX_INTEGER, description="Only steps with a higher number")] = None


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
    """What is omitted stays as it is. `cron` replaces `every_s`, and the other way round; so do `goal`, `message` and `tool`."""

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


class StepCallShape(BaseModel):
    call_id: Annotated[str, Field(description="Empty for a writ")]
    tool: str
    arguments: Annotated[str, Field(description="JSON; at most 4,000 characters")]
    state: EffectState
    result: Annotated[str, Field(description="Text or JSON; at most 4,000 characters, and empty until the call has ended")]
    run_id: Annotated[str | None, Field(description="The sub-agent that the call started")]
    replayed: Annotated[bool, Field(description="Whether a fork got the result from the record")]
    started_at: Annotated[float, Field(description="Epoch seconds")]
    ended_at: Annotated[float, Field(description="Epoch seconds; 0: it has not ended")]


class AgentStepShape(BaseModel):
    """One answer of the agent's model. Answers that were withdrawn are not steps."""

    n: Annotated[int, Field(description="The number of the answer in the transcript")]
    at: Annotated[float, Field(description="Epoch seconds")]
    text: Annotated[str, Field(description="At most 20,000 characters")]
    calls: list[StepCallShape]
    input_tokens: int
    output_tokens: int
