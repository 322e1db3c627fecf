"""Reads Server-Sent Events."""

import json
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, cast

from headway.ledger.errors import WrongCell
from headway.values.turns import Event

if TYPE_CHECKING:
    from headway.ledger.events import StreamedKind


async def read_events(chunks: AsyncIterable[bytes]) -> AsyncIterator[Event]:
    """Read the events of a stream. Only line feeds end a line, because JSON may contain every other line break."""
    rest = b""
    async for chunk in chunks:
        *frames, rest = (rest + chunk.replace(b"\r\n", b"\n")).split(b"\n\n")
        for frame in frames:
            if event := parse_frame(frame):
                yield event


def parse_frame(frame: bytes) -> Event | None:
    """Parse a frame. Comments and frames without data are no events."""
    fields: dict[bytes, list[bytes]] = {}
    for line in frame.split(b"\n"):
        name, _, value = line.partition(b":")
        fields.setdefault(name, []).append(value.removeprefix(b" "))
    if b"data" not in fields:
        return None
    kind, numbers = fields.get(b"event", [b"message"])[-1].decode(), fields.get(b"id")
    data = json.loads(b"\n".join(fields[b"data"]))
    if kind == "tenant_moved":
        raise WrongCell.from_event(data)
    return Event(cast("StreamedKind", kind), data, int(numbers[-1]) if numbers else None)
