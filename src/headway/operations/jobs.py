"""Operations on jobs and the queue: /jobs, /queue"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.engine import dead_letters
from headway.actions.engine.dead_letters import BULK_LIMIT, BulkSelection
from headway.actions.runs import jobs
from headway.ledger.job import JobState
from headway.operations.fields import CURSOR_DESCRIPTION, CursorQuery, Name, StrictModel
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, one, page
from headway.operations.todos import Deleted
from headway.values import work as values_work


class JobsQuery(CursorQuery):
    state: JobState | None = None
    kind: Annotated[Name | None, Field(description="Such as `turn`, `agent`, `goal`, `tool` or `webhook`")] = None


class BulkChange(StrictModel):
    """Either `ids`, or all dead jobs, or the dead jobs of one `kind`."""

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


class JobCount(BaseModel):
    state: Literal["queued", "running", "delayed", "dead"]
    kind: str
    count: int


class JobQueue(BaseModel):
    counts: Annotated[list[JobCount], Field(description="Without completed and canceled jobs")]
    due: Annotated[int, Field(description="Jobs that could run now and wait for a worker")]
    oldest_due_s: Annotated[float, Field(description="How long the one has waited that has waited longest; 0: none waits")]


class WorkerJob(BaseModel):
    id: str
    kind: str
    since: int


class Worker(BaseModel):
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
    jobs: Annotated[list[WorkerJob], Field(description="Only jobs of the token's tenant")]


class ManyWorkers(BaseModel):
    workers: list[Worker]


# Operations on the job queue: /jobs and /queue


table = OperationTable("engine")

ONE_JOB = one("job", values_work.Job)


@table.add(
    "GET /queue",
    "Count the jobs that wait, run or are dead, and get the longest wait",
    AnswerShape("OneQueue", {"queue": JobQueue}),
)
def get_queue(call: OperationCall) -> Document:
    return {"queue": dead_letters.build_queue(call.tx, call.tenant_id)}


@table.add("GET /jobs", "List jobs, newest first", page("jobs", values_work.Job))
def list_jobs(call: OperationCall, query: JobsQuery) -> Document:
    return jobs.list_jobs(call.tx, call.tenant_id, query.state, query.limit, query.cursor, query.kind).as_json()


@table.add("POST /jobs/dead", "Retry or drop many dead jobs, at most 100 per request", BulkResult)
def change_dead_jobs(call: OperationCall, body: BulkChange) -> Document:
    """The jobs with the given `ids`, or all dead jobs, or the ones of one `kind`: repeat the request with `next_cursor` until it is
    null. A job that cannot be changed is in `refused` with the reason, and the others are changed."""
    selection = BulkSelection(None if body.ids is None else tuple(body.ids), body.kind, body.limit, body.cursor)
    result = dead_letters.change_dead_jobs(call.tx, call.tenant_id, body.action, selection)
    call.nudge()
    return result


@table.add("GET /jobs/{job_id}", "Get a job", LinkedJob, errors=(404,))
def get_job(call: OperationCall, job_id: str) -> Document:
    return dead_letters.show_job(call.tx, call.tenant_id, job_id)


@table.add(
    "POST /jobs/{job_id}/retry",
    "Run a dead job again with the same context, or a delayed job now",
    ONE_JOB,
    errors=(404, 409),
)
def retry_job(call: OperationCall, job_id: str) -> Document:
    job = dead_letters.retry(call.tx, call.tenant_id, job_id)
    call.nudge()
    return {"job": job.as_json()}


@table.add(
    "POST /jobs/{job_id}/cancel",
    "Cancel a scheduled tool call, running or not yet started",
    ONE_JOB,
    errors=(404, 409),
)
def cancel_job(call: OperationCall, job_id: str) -> Document:
    job = jobs.cancel_job(call.tx, call.tenant_id, job_id)
    call.interrupt([job_id])
    return {"job": job.as_json()}


@table.add("DELETE /jobs/{job_id}", "Drop a dead job", Deleted, errors=(404, 409, 507))
def delete_job(call: OperationCall, job_id: str) -> Document:
    jobs.drop(call.tx, call.tenant_id, job_id)
    return {"deleted": True}
