"""/v1/events: the event log, live, as Server-Sent Events."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.feed import Feed, FeedChannel, FeedEvent, FeedReader
from headway.operations import todos as todo_schemas
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import Problem
from headway.surfaces.http.request_context import RequestContext
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.server_sent_events import MEDIA_TYPE, encode_events

routes = HttpRoutes("/v1", "events")

StreamEncoder = Callable[[Sequence[FeedEvent]], bytes]
FindEnd = Callable[[], Awaitable[bytes]]  # returns the last bytes of a stream that ends now, or nothing

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
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
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

    def find(tx: Transaction, tenant_id: int) -> tuple[int, turns.TurnPlace]:
        return tenant_id, turns.find_turn_place(tx, tenant_id, turn_id, after)

    after = parse_resume_point(request)
    tenant_id, place = await call.read(find)
    feed = call.headway.feed
    channel, reader = await feed.open(tenant_id, place.conversation_id, None)
    reader.follow_turn(turn_id, place.after)
    if place.is_over:
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


class EventStream(Response):
    """Streams events as they arrive, straight to the server: a thousand readers cost little more than a thousand writes."""

    def __init__(
        self,
        feed: Feed,
        channel: FeedChannel,
        reader: FeedReader,
        request: RequestContext,
        encode: StreamEncoder = encode_events,
        find_end: FindEnd | None = None,
    ) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"}, media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self.feed = feed
        self.channel = channel
        self.reader = reader
        self.call = request
        self.encode = encode
        self.find_end = find_end
        self.has_left = False  # the client has closed the stream
        self.on_left: Callable[[], Awaitable[None]] | None = None  # called if that is before the stream ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = asyncio.create_task(self._watch_disconnect(receive))
        has_ended = False
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send(
                {"type": "http.response.body", "body": b"", "more_body": True}
            )  # older Starlettes hold the start back until now
            send = scope["headway.send"]  # bypasses the middleware, which only needs the start of the response
            next_look = time.monotonic() + self.feed.heartbeat_s
            async for events in self.feed.follow(self.channel, self.reader):
                body = self.encode(events)
                events.clear()  # so that a slow reader keeps the bytes only, not the events as well
                if body:
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                if self.find_end and (end := await self.find_end()):
                    has_ended = True
                    await send({"type": "http.response.body", "body": end, "more_body": True})
                    break
                if time.monotonic() > next_look:
                    next_look = time.monotonic() + self.feed.heartbeat_s
                    if not await self.call.is_still_admitted():
                        break
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            watch.cancel()
            self.feed.leave(self.channel, self.reader)
            if self.has_left and self.on_left and not has_ended:
                await self.on_left()

    async def _watch_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        self.reader.leave()
