"""Reads an open event stream as the SSE standard says."""

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
    id: int  # 0 for what is in no log
    event: str
    data: Any


class Stream:
    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        told = parse_frames(answer.iter_raw())
        self.first = next(told)
        self.told = chain([self.first], told)

    def events(self) -> Iterator[StreamEvent]:
        """What happens, without the heartbeats between. Waits long for an event, but not for ever."""
        deadline = monotonic() + PATIENCE_S
        for told in self.told:
            if told.event != "ping":
                yield told
                deadline = monotonic() + PATIENCE_S
            assert monotonic() < deadline, "the next event does not come"

    def take(self, count: int) -> list[StreamEvent]:
        return list(islice(self.events(), count))

    def changes(self, count: int) -> list[tuple[str, str]]:
        """(change, subject) of the next changes of todos."""
        changed = (told.data for told in self.events() if told.event == "todo_changed")
        return [(data["change"], data["todo"]["subject"]) for data in islice(changed, count)]


def parse_frames(chunks: Iterator[bytes]) -> Iterator[StreamEvent]:
    """Only line feeds separate lines here; JSON may hold what else Python takes for a line's end."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n\n")
        for frame in whole:
            fields = dict(line.split(": ", 1) for line in frame.decode().split("\n"))
            logged = ["id"] if fields.get("event") != "text_delta" else []
            assert list(fields) == [*logged, "event", "data"], frame
            yield StreamEvent(int(fields.get("id", 0)), fields["event"], json.loads(fields["data"]))
    assert rest == b"", rest


@contextmanager
def open_stream(client: httpx.Client, path: str = "/v1/events", method: str = "GET", **options: Any) -> Iterator[Stream]:
    """Connect, and have heard the first thing that is told."""
    with client.stream(method, path, **options) as answer:
        assert answer.status_code == 200, answer.read()
        stream = Stream(answer)  # kept here: a stream that nobody holds would be closed
        yield stream


def list_logged_ids(client: Client) -> list[int]:
    """The numbers of all that happened to this tenant, as the ledger has them."""
    return [event.seq for event in client.desk.read(event_store.list_after, 0, 1_000_000)]
