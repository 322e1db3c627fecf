"""Reads an open event stream, following the SSE standard."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from time import monotonic
from typing import Any, NamedTuple

import httpx

from headway.storage.stores import events as event_store
from tests.surfaces.server_harness import PATIENCE_S, Client


class StreamEvent(NamedTuple):
    id: int  # 0 for events that are not stored in the log
    event: str
    data: Any


class Stream:
    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        frames = parse_frames(answer.iter_raw())
        self.first = next(frames)
        self.frames = chain([self.first], frames)

    def events(self) -> Iterator[StreamEvent]:
        """Yield events without the heartbeats between them. Fails if no event arrives for PATIENCE_S seconds."""
        deadline = monotonic() + PATIENCE_S
        for event in self.frames:
            if event.event != "ping":
                yield event
                deadline = monotonic() + PATIENCE_S
            assert monotonic() < deadline, "the next event does not come"

    def take(self, count: int) -> list[StreamEvent]:
        return list(islice(self.events(), count))

    def changes(self, count: int) -> list[tuple[str, str]]:
        """Return (change, subject) of the next changes of todos."""
        changed = (event.data for event in self.events() if event.event == "todo_changed")
        return [(data["change"], data["todo"]["subject"]) for data in islice(changed, count)]


def parse_frames(chunks: Iterator[bytes]) -> Iterator[StreamEvent]:
    """Parse SSE frames. Splits at line feeds only, because JSON may contain the other characters that splitlines() splits at."""
    buffer = b""
    for chunk in chunks:
        *whole, buffer = (buffer + chunk).split(b"\n\n")
        for frame in whole:
            fields = dict(line.split(": ", 1) for line in frame.decode().split("\n"))
            logged = ["id"] if fields.get("event") not in ("text_delta", "tenant_moved") else []
            assert list(fields) == [*logged, "event", "data"], frame
            yield StreamEvent(int(fields.get("id", 0)), fields["event"], json.loads(fields["data"]))
    assert buffer == b"", buffer


@contextmanager
def open_stream(client: httpx.Client, path: str = "/v1/events", method: str = "GET", **options: Any) -> Iterator[Stream]:
    """Open a stream, and wait for its first event."""
    with client.stream(method, path, **options) as answer:
        assert answer.status_code == 200, answer.read()
        stream = Stream(answer)  # keeps a reference: an unreferenced stream would be closed
        yield stream


def list_logged_ids(client: Client, *, without: str = "") -> list[int]:
    """Return the ids of all stored events of this tenant, or of all kinds except one."""
    return [event.seq for event in client.desk.read(event_store.list_after, 0, 1_000_000) if event.kind != without]
