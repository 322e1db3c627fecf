"""Decodes the live event feed for terminal views."""

import json
from collections.abc import AsyncIterator
from typing import Any


async def decode_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yield the kind and data of each event in a stream of Server-Sent Events frames."""

    async for chunk in chunks:
        for frame in chunk.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line)
            if "event" in fields:
                yield fields["event"], json.loads(fields["data"])
