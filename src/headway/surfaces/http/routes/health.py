"""/healthz, /readyz and /metrics: monitoring endpoints."""

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headway.actions import views
from headway.actions.people import waiting
from headway.assembly import Headway
from headway.storage.migrate import get_current_version, get_newest_version
from headway.surfaces.http.loop_lag import LoopLag
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import to_json_response
from headway.surfaces.http.schemas import todos as todo_schemas

routes = APIRouter(tags=["health"])

MODEL_COUNTERS = {
    "calls": "Model calls that were answered",
    "input_tokens": "Tokens sent to models, cached ones included",
    "cached_tokens": "Input tokens that providers read from their prompt caches",
    "cache_write_tokens": "Input tokens that providers wrote to their prompt caches",
    "output_tokens": "Tokens received from models",
    "cost_usd": "Cost of model calls, in dollars",
}
METRICS_DOCS = document_route({200: None}, public=True)
METRICS_DOCS["responses"] |= {
    200: {"description": "Metrics in the Prometheus text format", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@routes.get("/healthz", summary="Check that the process is alive", **document_route({200: todo_schemas.Alive}, public=True))
async def healthz(_request: Request) -> Response:
    return to_json_response({"ok": True})


@routes.get("/readyz", summary="Check that the process can do its work", **document_route({200: todo_schemas.Ready}, public=True))
async def readyz(request: Request) -> Response:
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


class ModelCallCollector:
    """Counters of the model calls that this process has made."""

    def __init__(self, totals: list[dict[str, Any]]) -> None:
        self.totals = totals

    def collect(self) -> Iterator[Metric]:
        for name, description in MODEL_COUNTERS.items():
            family = CounterMetricFamily(f"headway_model_{name}", description, labels=("model",))
            for total in self.totals:
                family.add_metric((total["model"],), total[name])
            yield family


@routes.get("/metrics", summary="Get metrics for Prometheus", response_class=PlainTextResponse, **METRICS_DOCS)
async def metrics(request: Request) -> Response:
    headway: Headway = request.app.state.headway
    seen = CollectorRegistry()
    Gauge("headway_open_streams", "Open event streams", registry=seen).set(headway.feed.open_streams)
    lag: LoopLag = request.app.state.loop_lag
    Gauge("headway_loop_lag_seconds", "Largest delay of the event loop in the last 10 s", registry=seen).set(lag.worst)
    Gauge("headway_events_delivered", "Events read from the log for live readers", registry=seen).set(headway.feed.delivered)
    todos = Gauge("headway_todos", "Todos by status", ("status",), registry=seen)
    for status, number in (await headway.database.unrestricted.read(views.count_all_todos)).items():
        todos.labels(status).set(number)
    waits = Gauge("headway_waiting_for_people", "Approvals and questions that wait for a person", ("kind",), registry=seen)
    for kind, number in (await headway.database.unrestricted.read(waiting.count_all)).items():
        waits.labels(kind).set(number)
    seen.register(ModelCallCollector(headway.list_model_totals()))
    text = generate_latest(request.app.state.measures.registry) + generate_latest(seen)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
