"""Runs coroutines for callers that are not asynchronous: frameworks call the same tools with and without an event loop."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop in another thread, and wait. The caller's own event loop may be the one that waits."""
    return asyncio.run_coroutine_threadsafe(coroutine, start_loop()).result()


@cache
def start_loop() -> asyncio.AbstractEventLoop:
    """One thread for all callers, because each thread has its own connection to SQLite."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="headway-blocking", daemon=True).start()
    return loop
