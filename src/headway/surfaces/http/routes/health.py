"""/healthz, /readyz and /metrics: monitoring endpoints."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.runs import jobs, waiting
from headway.actions.todos import todo_lists
from headway.operations import operators
from headway.process.assembly import Headway
from headway.storage.migrate import get_current_version, get_newest_version
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import to_json_response
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.metrics import LoopLag, build_process_registry

routes = HttpRoutes(tag="health")

METRICS_DOCS = document_route({200: None}, public=True)
METRICS_DOCS["responses"] |= {
    200: {"description": "Metrics in the Prometheus text format", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@routes.get("/healthz", summary="Check that the process is alive", **document_route({200: operators.Alive}, public=True))
async def get_healthz(_request: Request) -> Response:
    return to_json_response({"ok": True})


@routes.get("/readyz", summary="Check that the process can do its work", **document_route({200: operators.Ready}, public=True))
async def get_readyz(request: Request) -> Response:
    headway: Headway = request.app.state.headway
    lag: LoopLag = request.app.state.loop_lag
    version = await headway.database.read(get_current_version)
    checks = {
        "database": True,
        "migrations": version == get_newest_version(),
        "feed": headway.feed.alive,
        "worker": headway.engine_alive,
        "loop": lag.is_bearable,
    }
    if not all(checks.values()):
        missing = ", ".join(name for name, good in checks.items() if not good)
        late = "" if checks["loop"] else f" The event loop has been late for {lag.late_s:.0f} s, by up to {lag.worst:.2f} s."
        raise Problem(503, "not_ready", f"Not ready: {missing}.{late}")
    return to_json_response({"ready": True, "checks": checks})


@routes.get("/metrics", summary="Get metrics for Prometheus", **METRICS_DOCS)
async def get_metrics(request: Request) -> Response:
    headway: Headway = request.app.state.headway
    seen = CollectorRegistry()
    Gauge("headway_open_streams", "Open event streams", registry=seen).set(headway.feed.open_streams)
    lag: LoopLag = request.app.state.loop_lag
    Gauge("headway_loop_lag_seconds", "Largest delay of the event loop in the last 10 s", registry=seen).set(lag.worst)
    Counter("headway_events_delivered", "Events read from the log for live readers", registry=seen).inc(headway.feed.delivered)
    todos = Gauge("headway_todos", "Todos by status", ("status",), registry=seen)
    for status, number in (await headway.database.unrestricted.read(todo_lists.count_all_todos)).items():
        todos.labels(status).set(number)
    waits = Gauge("headway_waiting_for_people", "Approvals and questions that wait for a person", ("kind",), registry=seen)
    for kind, number in (await headway.database.unrestricted.read(waiting.count_all)).items():
        waits.labels(kind).set(number)
    add_queue(seen, await headway.database.unrestricted.read(jobs.measure_queue))
    registries = (request.app.state.measures.registry, seen, build_process_registry(headway))
    return Response(b"".join(map(generate_latest, registries)), media_type=CONTENT_TYPE_LATEST)


def add_queue(registry: CollectorRegistry, queue: jobs.QueueTotals) -> None:
    states = Gauge("headway_jobs", "Jobs of all tenants by state", ("state",), registry=registry)
    for state, number in (("due", queue.due), ("running", queue.running), ("dead", queue.dead)):
        states.labels(state).set(number)
    Gauge("headway_oldest_due_job_seconds", "How long the oldest due job has waited", registry=registry).set(queue.oldest_due_s)
    Gauge("headway_workers", "Live processes that take any due job", registry=registry).set(queue.workers)
