"""/v1/queue, /v1/jobs and /v1/workers: what waits and runs, dead letters, and the processes that work on them."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import dead_letters, jobs, views
from headway.actions.access import tokens
from headway.actions.operations import bulk, queue_state
from headway.actions.operations.bulk import BulkSelection
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import job_queue as shapes
from headway.surfaces.http.schemas.todos import Deleted

routes = APIRouter(prefix="/v1", tags=["engine"])

BULK = TypeAdapter(shapes.BulkChange)
JOB_PATH: dict[str, Any] = {"path": {"job_id": str}}


@routes.get(
    "/queue",
    summary="Count the jobs that wait, run or are dead, and get the longest wait",
    **document_route({200: shapes.OneQueue}),
)
async def get_queue(request: Request) -> Response:
    return to_json_response({"queue": await RequestContext(request).read(queue_state.build_queue)})


@routes.get("/workers", summary="List the processes that run jobs, with their load", **document_route({200: shapes.ManyWorkers}))
async def list_workers(request: Request) -> Response:
    """Those of the installation, for all tenants; also those that stopped answering within a day. Needs a token with the operator
    scope. Only the tenant's own jobs are named; the others are counted."""
    call = RequestContext(request)

    def read_own(tx: Transaction, tenant_id: int) -> tuple[int, dict[str, list[dict[str, Any]]]]:
        tokens.authenticate_operator(tx, call.digest)
        return tx.now, queue_state.group_running_jobs(tx, tenant_id)

    now_ms, own_jobs = await call.read(read_own)
    workers = await call.headway.database.unrestricted.read(queue_state.list_workers)
    return to_json_response({"workers": [queue_state.encode_worker(worker, now_ms, own_jobs) for worker in workers]})


@routes.get("/jobs", summary="List jobs, newest first", **document_route({200: shapes.ManyJobs}, query=shapes.JobsQuery))
async def list_jobs(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.JobsQuery)
    chosen = query.state, query.limit, query.cursor, query.kind
    page = await call.read(lambda tx, tenant_id: views.list_jobs(tx, tenant_id, *chosen))
    return to_json_response(page.as_json())


@routes.post(
    "/dead-jobs",
    summary="Retry or drop many dead jobs, at most 100 per request",
    **document_route({200: shapes.BulkResult}, body=shapes.BulkChange, idempotent=True),
)
async def change_jobs(request: Request) -> Response:
    """Those with the given `ids`, or all dead jobs, or those of one `kind`: repeat the request with `next_cursor` until it is null.
    A job that cannot be changed is in `refused` with the reason, and the others are changed."""
    call = RequestContext(request)
    body = await call.body(BULK)
    ids = None if body.ids is None else tuple(body.ids)
    selection = BulkSelection(ids, body.kind, body.limit, body.cursor)
    answer = await call.post(lambda tx, tenant_id: bulk.change_dead_jobs(tx, tenant_id, body.action, selection), 200)
    call.headway.nudge()
    return answer


@routes.get("/jobs/{job_id}", summary="Get a job", **document_route({200: shapes.LinkedJob}, also=(404,), **JOB_PATH))
async def get_job(request: Request) -> Response:
    job_id = request.path_params["job_id"]
    return to_json_response(await RequestContext(request).read(lambda tx, tenant_id: queue_state.show_job(tx, tenant_id, job_id)))


@routes.post(
    "/jobs/{job_id}/retry",
    summary="Run a dead job again with the same context, or a delayed job now",
    **document_route({200: shapes.OneJob}, also=(404, 409), idempotent=True, **JOB_PATH),
)
async def retry_job(request: Request) -> Response:
    call, job_id = RequestContext(request), request.path_params["job_id"]
    answer = await call.post(lambda tx, tenant_id: {"job": dead_letters.retry(tx, tenant_id, job_id).as_json()}, 200)
    call.headway.nudge()
    return answer


@routes.post(
    "/jobs/{job_id}/cancel",
    summary="Cancel a scheduled tool call, running or not yet started",
    **document_route({200: shapes.OneJob}, also=(404, 409), idempotent=True, **JOB_PATH),
)
async def cancel_job(request: Request) -> Response:
    call, job_id = RequestContext(request), request.path_params["job_id"]
    answer = await call.post(lambda tx, tenant_id: {"job": jobs.cancel(tx, tenant_id, job_id).as_json()}, 200)
    if answer.status_code == 200:
        call.headway.interrupt([job_id])
    return answer


@routes.delete("/jobs/{job_id}", summary="Drop a dead job", **document_route({200: Deleted}, also=(404, 409, 507), **JOB_PATH))
async def drop_job(request: Request) -> Response:
    job_id = request.path_params["job_id"]
    await RequestContext(request).write(lambda tx, tenant_id: jobs.drop(tx, tenant_id, job_id))
    return to_json_response({"deleted": True})
