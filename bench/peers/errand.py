"""The work of every agent: write a list of five todos, call a trivial tool in every iteration, complete all todos, answer."""

import time
from collections.abc import Callable
from typing import Any

ITEMS = 5
REQUEST = "Work through the list."


def call(iteration: int, iterations: int) -> tuple[str, dict[str, Any]]:
    """Return the tool call of an iteration: the list is written in the first, completed in the last."""
    if 0 < iteration < iterations - 1:
        return "now", {}
    status = "pending" if iteration == 0 else "completed"
    return "write_todos", {"todos": [{"content": f"step {n} of the work", "status": status} for n in range(ITEMS)]}


def time_now() -> dict[str, str]:
    return {"now": time.strftime("%Y-%m-%dT%H:%M:%S"), "weekday": time.strftime("%A")}


def milliseconds(iterations: int, work: Callable[[], object]) -> float:
    """Return the milliseconds per iteration, when the work does this many."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000 / iterations
