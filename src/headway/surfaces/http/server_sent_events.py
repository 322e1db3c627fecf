"""Server-Sent Events: how events are framed on the wire. All data is JSON, which has no raw line break that could end a frame."""

from collections.abc import Sequence

from headway.feed import FeedEvent

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
