"""/v1/workers: the processes that run jobs."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import tokens
from headway.actions.operations import queue_state
from headway.operations.schemas import job_queue as shapes
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes

routes = HttpRoutes("/v1", "engine")


@routes.get("/workers", summary="List the processes that run jobs, with their load", **document_route({200: shapes.ManyWorkers}))
async def list_workers(request: Request) -> Response:
    """Those of the installation, for all tenants; also those that stopped answering within a day. Needs the operator
    scope. Only the tenant's own jobs are named; the others are counted."""
    call = RequestContext(request)

    def read_own(tx: Transaction, tenant_id: int) -> tuple[int, dict[str, list[dict[str, Any]]]]:
        tokens.authenticate_for("see_workers")(tx, call.digest)
        return tx.now, queue_state.group_running_jobs(tx, tenant_id)

    now_ms, own_jobs = await call.read(read_own)
    workers = await call.headway.database.unrestricted.read(queue_state.list_workers)
    return to_json_response({"workers": [queue_state.encode_worker(worker, now_ms, own_jobs) for worker in workers]})
