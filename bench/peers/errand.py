"""What every agent is told to do: write a list of five todos, call a tool that does next to nothing in every iteration, end all
todos, answer."""

import time
from collections.abc import Callable
from typing import Any

ITEMS = 5
REQUEST = "Work through the list."


def call(iteration: int, iterations: int) -> tuple[str, dict[str, Any]]:
    """The tool that is called in this iteration: the list is written at the beginning, and done at the end."""
    if 0 < iteration < iterations - 1:
        return "now", {}
    status = "pending" if iteration == 0 else "completed"
    return "write_todos", {"todos": [{"content": f"step {n} of the work", "status": status} for n in range(ITEMS)]}


def time_now() -> dict[str, str]:
    return {"now": time.strftime("%Y-%m-%dT%H:%M:%S"), "weekday": time.strftime("%A")}


def milliseconds(iterations: int, work: Callable[[], object]) -> float:
    """How long each iteration takes, when the work does this many."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000 / iterations
