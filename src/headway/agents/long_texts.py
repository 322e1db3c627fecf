"""Work on long texts, which must not hold up the event loop."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

LONG_TEXT: Final = 20_000  # characters

T = TypeVar("T")


async def process_text(text: str, work: Callable[[], T]) -> T:
    """Do work whose time grows with a text. If the text is long, the work is done on a thread."""
    return await asyncio.to_thread(work) if len(text) > LONG_TEXT else work()
