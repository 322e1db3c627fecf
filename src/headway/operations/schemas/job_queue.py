"""Schemas of jobs, the queue and the processes that work on it."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.operations.bulk import BULK_LIMIT
from headway.ledger.job import JobState
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import CURSOR_DESCRIPTION, CursorQuery, Name
from headway.values import work as values_work


class JobsQuery(CursorQuery):
    state: JobState | None = None
    kind: Annotated[Name | None, Field(description="Such as `turn`, `agent`, `goal`, `tool` or `webhook`")] = None


class BulkChange(StrictModel):
    """Either `ids`, or all dead jobs, or those of one `kind`."""

    action: Literal["retry", "drop"]
    ids: Annotated[list[Name] | None, Field(min_length=1, max_length=BULK_LIMIT)] = None
    kind: Name | None = None
    limit: Annotated[int, Field(ge=1, le=BULK_LIMIT)] = BULK_LIMIT
    cursor: Annotated[str | None, Field(json_schema_extra={"format": "cursor"}, description=CURSOR_DESCRIPTION)] = None


# Answers


class JobLinks(BaseModel):
    """The agent run that has the job's id, and what it works for."""

    run_id: str
    conversation_id: Annotated[int, Field(description="0: none")]
    turn_id: str | None
    goal_id: int | None
    sub_goal_id: int | None
    parent_run_id: Annotated[str | None, Field(description="The agent that started this sub-agent")]
    role: str


class LinkedJob(BaseModel):
    job: values_work.Job
    links: Annotated[JobLinks | None, Field(description="null: the job runs no agent, as a scheduled tool call does")]


class RefusedJob(BaseModel):
    id: str
    detail: str


class BulkResult(BaseModel):
    changed: Annotated[list[str], Field(description="The ids of the jobs that were retried or dropped")]
    refused: list[RefusedJob]
    next_cursor: Annotated[str | None, Field(description="`cursor` of the next request; null: there are no more dead jobs")]


class JobCountShape(BaseModel):
    state: Literal["queued", "running", "delayed", "dead"]
    kind: str
    count: int


class JobQueueShape(BaseModel):
    counts: Annotated[list[JobCountShape], Field(description="Without completed and canceled jobs")]
    due: Annotated[int, Field(description="Jobs that could run now and wait for a worker")]
    oldest_due_s: Annotated[float, Field(description="How long the one has waited that has waited longest; 0: none waits")]


class WorkerJob(BaseModel):
    id: str
    kind: str
    since: int


class WorkerShape(BaseModel):
    id: str
    host: str
    pid: int
    version: Annotated[str, Field(description="Empty: a version that did not record it")]
    is_alive: Annotated[bool, Field(description="false: no heartbeat for 5 seconds; its jobs were or will be taken over")]
    takes_all_jobs: Annotated[bool, Field(description="false: a command that runs only the jobs it started")]
    started_at: int
    last_seen_at: int
    slots: Annotated[int, Field(description="How many jobs it runs at once")]
    running: Annotated[int, Field(description="Jobs of all tenants that it runs now")]
    jobs: Annotated[list[WorkerJob], Field(description="Those of the token's tenant")]


class ManyWorkers(BaseModel):
    workers: list[WorkerShape]
