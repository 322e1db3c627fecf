"""LangGraph's SQLite checkpointers: a snapshot of the whole state in one row, at every step of a graph.

They set WAL, and leave `synchronous` as SQLite has it, which is FULL; `durability` tells what is in force.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import aiosqlite
from answering import serve
from garden import sub_goal
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

THREADS = count(1)
RUNNER = asyncio.Runner()


def states(sub_goals: int) -> Iterator[list[dict[str, Any]]]:
    """A goal's sub-goals, one step further each time: begun, ended, the next one begun …"""
    while True:
        known = [sub_goal(n, "pending") for n in range(sub_goals)]
        for n in range(sub_goals):
            for status in ("in-progress", "completed"):
                known[n] = sub_goal(n, status)
                yield known.copy()


def checkpoints(sub_goals: int, steps: int) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    """What a graph hands to its checkpointer: where it belongs, the checkpoint, and what is to be known about it."""
    place = {"thread_id": str(next(THREADS)), "checkpoint_ns": ""}
    for step, known in zip(range(steps), states(sub_goals), strict=False):
        made = empty_checkpoint()
        made["channel_values"] = {"goal": "A garden.", "sub_goals": known, "journal": len(known)}
        made["channel_versions"] = {"goal": 1, "sub_goals": step + 2, "journal": step + 2}
        yield {"configurable": place}, made, {"source": "loop", "step": step, "parents": {}}
        place = {**place, "checkpoint_id": made["id"]}


def puts(path: str, sub_goals: int, steps: int, writes: bool) -> float:
    """Checkpoints a second. With writes: what the node did is stored before, as a graph does it, in a commit of its own."""
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    ready = list(checkpoints(sub_goals, steps))
    began = time.perf_counter()
    for config, checkpoint, metadata in ready:
        saved = saver.put(config, checkpoint, metadata, {"sub_goals": metadata["step"] + 2})
        if writes:
            saver.put_writes(saved, [("sub_goals", checkpoint["channel_values"]["sub_goals"])], "task")
    took = time.perf_counter() - began
    connection.close()
    return steps / took


def async_puts(path: str, sub_goals: int, steps: int, callers: int) -> float:
    return RUNNER.run(_async_puts(path, sub_goals, steps, callers))


async def _async_puts(path: str, sub_goals: int, steps: int, callers: int) -> float:
    async with aiosqlite.connect(path) as connection:
        saver = AsyncSqliteSaver(connection)
        await saver.setup()

        async def caller(ready: list[tuple[Any, Any, Any]]) -> None:
            for config, checkpoint, metadata in ready:
                await saver.aput(config, checkpoint, metadata, {"sub_goals": metadata["step"] + 2})

        ready = [list(checkpoints(sub_goals, steps // callers)) for _ in range(callers)]
        began = time.perf_counter()
        await asyncio.gather(*map(caller, ready))
        return steps / (time.perf_counter() - began)


def durability(path: str) -> list[str]:
    """Of a connection as the checkpointer leaves it, and which SQLite it is."""
    connection = sqlite3.connect(path, check_same_thread=False)
    SqliteSaver(connection).setup()
    mode, full = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous"))
    connection.close()
    return [str(mode), str(full), sqlite3.sqlite_version]


serve(puts=puts, async_puts=async_puts, durability=durability)
