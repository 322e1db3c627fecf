"""Server-Sent Events: how events are framed on the wire. All data is JSON, which has no raw line break that could end a frame."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.feed import Feed, FeedChannel, FeedEvent, FeedReader
from headway.surfaces.http.request_context import RequestContext

MEDIA_TYPE = "text/event-stream"
DONE_FRAME = "data: [DONE]\n\n"
HEARTBEAT_COMMENT = ": ping\n\n"  # for protocols without a heartbeat event


def encode_events(events: Sequence[FeedEvent]) -> bytes:
    """Encode events of the feed. A ping is an event too, because scripts in a browser cannot see comments."""
    if len(events) == 1:  # the usual case
        return events[0].encoded or encode_event(events[0])
    return b"".join([event.encoded or encode_event(event) for event in events])


def encode_event(event: FeedEvent) -> bytes:
    """Encode an event for all its readers. A broadcast has no id, because no reader can resume after it."""
    position = "" if event.is_broadcast else f"id: {event.seq}\n"
    event.encoded = f"{position}event: {event.kind}\ndata: {event.data}\n\n".encode()
    return event.encoded


def frame_data(data: str) -> str:
    """Frame a JSON document without a name, as other protocols expect it."""
    return f"data: {data}\n\n"


StreamEncoder = Callable[[Sequence[FeedEvent]], bytes]


FindEnd = Callable[[], Awaitable[bytes]]  # returns the last bytes of a stream that ends now, or nothing


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
