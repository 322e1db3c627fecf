"""/healthz, /readyz and /metrics: for whoever keeps the server running."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from headway.assembly import Headway
from headway.ledger.errors import HeadwayError
from headway.storage import todo_pages
from headway.storage.migrate import current_version, newest_version
from headway.surfaces.http.calls import rendered
from headway.surfaces.http.problems import problem_of, response_of

routes = APIRouter(tags=["health"])


@routes.get("/healthz", summary="The process is alive", response_model=None)
async def healthz() -> Response:
    return rendered({"ok": True})


@routes.get("/readyz", summary="The process can do its work", response_model=None, responses={503: {"description": "Not now"}})
async def readyz(request: Request) -> Response:
    headway: Headway = request.app.state.headway
    try:
        version = await headway.database.read(current_version)
    except HeadwayError as error:
        return response_of(problem_of(error))
    checks = {"database": True, "migrations": version == newest_version(), "feed": headway.feed.alive}
    return rendered({"ready": all(checks.values()), "checks": checks}, 200 if all(checks.values()) else 503)


@routes.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_model=None,
    responses={200: {"description": "Prometheus text", "content": {"text/plain": {}}}},
)
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
