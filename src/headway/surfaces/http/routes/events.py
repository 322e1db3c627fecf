"""/v1/events: the event log, live, as Server-Sent Events."""

from starlette.requests import Request
from starlette.responses import Response

from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.operations import todos as todo_schemas
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import SCHEMA_REF, build_stream_schema, document_route
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import RequestContext
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.server_sent_events import MEDIA_TYPE, EventStream

routes = HttpRoutes("/v1", "events")

LAST_EVENT_ID_PARAMETER = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Continue after this event.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}
STREAM_RESPONSE = {
    200: {
        "description": "The events, until the client disconnects",
        "content": {MEDIA_TYPE: {"schema": build_stream_schema(SCHEMA_REF)}},
    }
}


def document_stream(path: str | None = None, also: tuple[int, ...] = (), kind: type = int) -> dict[str, object]:
    documentation = document_route(
        {200: None},
        also=also,
        query=todo_schemas.StreamQuery,
        path={path: kind} if path else None,
        headers=(LAST_EVENT_ID_PARAMETER,),
    )
    documentation["responses"] |= STREAM_RESPONSE
    return documentation


@routes.get("/events", summary="Stream all events of the tenant", **document_stream())
async def stream_events(request: Request) -> Response:
    return await open_stream(RequestContext(request), None)


@routes.get(
    "/conversations/{conversation_id}/events",
    summary="Stream the events of a conversation, and tenant-wide ones",
    **document_stream("conversation_id", (404,)),
)
async def stream_conversation_events(request: Request) -> Response:
    call = RequestContext(request)
    return await open_stream(call, await call.parse_path_id("conversation_id"))


@routes.get(
    "/turns/{turn_id}/events",
    summary="Stream the events of a turn, from its start until its end",
    **document_stream("turn_id", (404,), str),
)
async def stream_turn_events(request: Request) -> Response:
    call, turn_id = RequestContext(request), request.path_params["turn_id"]

    def find(tx: Transaction, tenant_id: int) -> tuple[int, turns.TurnPosition]:
        return tenant_id, turns.find_turn_position(tx, tenant_id, turn_id, after)

    after = parse_resume_point(request)
    tenant_id, start = await call.read(find)
    feed = call.headway.feed
    channel, reader = await feed.open(tenant_id, start.conversation_id, None)
    reader.follow_turn(turn_id, start.after)
    if start.is_over:
        reader.leave()
    request.scope["headway.deadline"].reschedule(None)
    return EventStream(feed, channel, reader, call)


async def open_stream(request: RequestContext, conversation_id: int | None) -> Response:
    def admitted(tx: Transaction, tenant_id: int) -> int:
        if conversation_id is not None:
            finding.get_conversation(tx, tenant_id, conversation_id)
        return tenant_id

    tenant_id = await request.read(admitted)
    after = parse_resume_point(request.request)
    feed = request.headway.feed
    channel, reader = await feed.open(tenant_id, conversation_id, after)
    request.request.scope["headway.deadline"].reschedule(None)  # a stream has no time limit
    return EventStream(feed, channel, reader, request)


def parse_resume_point(request: Request) -> int | None:
    """Return the event to continue after. The `after` parameter overrides the header that browsers send when they reconnect."""
    unknown = set(request.query_params) - {"after"}
    if unknown:
        raise Problem(422, "invalid", f"{min(unknown)[:60]}: unknown parameter")
    text = request.query_params.get("after", request.headers.get("last-event-id"))
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Problem(400, "bad_event_id", "after and Last-Event-ID must be an event number.")
    return int(text)
