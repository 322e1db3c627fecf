"""Operations on the job queue: /jobs and /queue"""

from headway.actions import dead_letters, jobs, views
from headway.actions.operations import bulk, queue_state
from headway.actions.operations.bulk import BulkSelection
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, one, page
from headway.operations.schemas import job_queue as schemas
from headway.operations.schemas.todos import Deleted
from headway.values import work as values_work

table = OperationTable("engine")

ONE_JOB = one("job", values_work.Job)


@table.add(
    "GET /queue",
    "Count the jobs that wait, run or are dead, and get the longest wait",
    AnswerShape("OneQueue", {"queue": schemas.JobQueueShape}),
)
def get_queue(call: OperationCall) -> Document:
    return {"queue": queue_state.build_queue(call.tx, call.tenant_id)}


@table.add("GET /jobs", "List jobs, newest first", page("jobs", values_work.Job))
def list_jobs(call: OperationCall, query: schemas.JobsQuery) -> Document:
    return views.list_jobs(call.tx, call.tenant_id, query.state, query.limit, query.cursor, query.kind).as_json()


@table.add("POST /jobs/dead", "Retry or drop many dead jobs, at most 100 per request", schemas.BulkResult)
def change_dead_jobs(call: OperationCall, body: schemas.BulkChange) -> Document:
    """Those with the given `ids`, or all dead jobs, or those of one `kind`: repeat the request with `next_cursor` until it is null.
    A job that cannot be changed is in `refused` with the reason, and the others are changed."""
    selection = BulkSelection(None if body.ids is None else tuple(body.ids), body.kind, body.limit, body.cursor)
    result = bulk.change_dead_jobs(call.tx, call.tenant_id, body.action, selection)
    call.nudge()
    return result


@table.add("GET /jobs/{job_id}", "Get a job", schemas.LinkedJob, errors=(404,))
def get_job(call: OperationCall, job_id: str) -> Document:
    return queue_state.show_job(call.tx, call.tenant_id, job_id)


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
    job = jobs.cancel(call.tx, call.tenant_id, job_id)
    call.interrupt([job_id])
    return {"job": job.as_json()}


@table.add("DELETE /jobs/{job_id}", "Drop a dead job", Deleted, errors=(404, 409, 507))
def delete_job(call: OperationCall, job_id: str) -> Document:
    jobs.drop(call.tx, call.tenant_id, job_id)
    return {"deleted": True}
