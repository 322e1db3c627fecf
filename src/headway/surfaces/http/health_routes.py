"""/healthz, /readyz and /metrics: for whoever keeps the server running."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headway.assembly import Headway
from headway.storage import todo_pages
from headway.storage.migrate import current_version, newest_version
from headway.surfaces.http import shapes
from headway.surfaces.http.calls import rendered
from headway.surfaces.http.describing import described
from headway.surfaces.http.problems import Problem

routes = APIRouter(tags=["health"])


METRICS = described({200: None}, public=True)
METRICS["responses"] |= {200: {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}}


@routes.get("/healthz", summary="The process is alive", **described({200: shapes.Alive}, public=True))
async def healthz(_request: Request) -> Response:
    return rendered({"ok": True})


@routes.get("/readyz", summary="The process can do its work", **described({200: shapes.Ready}, public=True))
async def readyz(request: Request) -> Response:
    headway: Headway = request.app.state.headway
    version = await headway.database.read(current_version)
    checks = {
        "database": True,
        "migrations": version == newest_version(),
        "feed": headway.feed.alive,
        "worker": headway.engine_alive,
    }
    if not all(checks.values()):
        missing = ", ".join(name for name, good in checks.items() if not good)
        raise Problem(503, "not_ready", f"Not ready: {missing}.")
    return rendered({"ready": True, "checks": checks})


@routes.get("/metrics", summary="Numbers for Prometheus", response_class=PlainTextResponse, **METRICS)
async def metrics(request: Request) -> Response:
    headway: Headway = request.app.state.headway
    seen = CollectorRegistry()
    Gauge("headway_open_streams", "Event streams that are open", registry=seen).set(headway.feed.open_streams)
    Gauge("headway_events_delivered", "Events read from the log for live readers", registry=seen).set(headway.feed.delivered)
    todos = Gauge("headway_todos", "Todos by status", ("status",), registry=seen)
    for status, number in (await headway.database.read(todo_pages.all_counts)).items():
        todos.labels(status).set(number)
    text = generate_latest(request.app.state.measures.registry) + generate_latest(seen)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
