"""What a live stream tells, for views that are no browsers."""

import json
from collections.abc import AsyncIterator
from typing import Any


async def decode_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """(kind, data) of the frames in a stream."""

    async for chunk in chunks:
        for frame in chunk.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line)
            if "event" in fields:
                yield fields["event"], json.loads(fields["data"])
