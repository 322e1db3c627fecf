"""LangGraph's SQLite checkpointers: one row with a snapshot of the whole state, at every step of a graph.

They set WAL and leave `synchronous` at SQLite's default, which is FULL. `durability` reports the values in effect.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import aiosqlite
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from bench.peers.answering import serve
from bench.peers.garden import sub_goal

THREADS = count(1)
RUNNER = asyncio.Runner()


def states(sub_goals: int) -> Iterator[list[dict[str, Any]]]:
    """Yield a goal's sub-goals after each step: the first one started, then completed, then the next one started …"""
    while True:
        known = [sub_goal(n, "pending") for n in range(sub_goals)]
        for n in range(sub_goals):
            for status in ("in-progress", "completed"):
                known[n] = sub_goal(n, status)
                yield known.copy()


def checkpoints(sub_goals: int, steps: int) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    """Yield the arguments that a graph passes to its checkpointer: the configuration, the checkpoint and its metadata."""
    thread = {"thread_id": str(next(THREADS)), "checkpoint_ns": ""}
    for step, known in zip(range(steps), states(sub_goals), strict=False):
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"goal": "A garden.", "sub_goals": known, "journal": len(known)}
        checkpoint["channel_versions"] = {"goal": 1, "sub_goals": step + 2, "journal": step + 2}
        yield {"configurable": thread}, checkpoint, {"source": "loop", "step": step, "parents": {}}
        thread = {**thread, "checkpoint_id": checkpoint["id"]}


def puts(path: str, sub_goals: int, steps: int, writes: bool) -> float:
    """Return checkpoints per second. With `writes`, each node's output is committed first, as a graph does."""
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    ready = list(checkpoints(sub_goals, steps))
    start = time.perf_counter()
    for config, checkpoint, metadata in ready:
        saved = saver.put(config, checkpoint, metadata, {"sub_goals": metadata["step"] + 2})
        if writes:
            saver.put_writes(saved, [("sub_goals", checkpoint["channel_values"]["sub_goals"])], "task")
    took = time.perf_counter() - start
    connection.close()
    return steps / took


def async_puts(path: str, sub_goals: int, steps: int, callers: int, writes: bool) -> float:
    return RUNNER.run(_async_puts(path, sub_goals, steps, callers, writes))


async def _async_puts(path: str, sub_goals: int, steps: int, callers: int, writes: bool) -> float:
    async with aiosqlite.connect(path) as connection:
        saver = AsyncSqliteSaver(connection)
        await saver.setup()

        async def caller(ready: list[tuple[Any, Any, Any]]) -> None:
            for config, checkpoint, metadata in ready:
                saved = await saver.aput(config, checkpoint, metadata, {"sub_goals": metadata["step"] + 2})
                if writes:
                    await saver.aput_writes(saved, [("sub_goals", checkpoint["channel_values"]["sub_goals"])], "task")

        ready = [list(checkpoints(sub_goals, steps // callers)) for _ in range(callers)]
        start = time.perf_counter()
        await asyncio.gather(*map(caller, ready))
        return steps / (time.perf_counter() - start)


def durability(path: str) -> list[str]:
    """Return the journal mode and synchronous setting that the checkpointer uses, and the version of SQLite."""
    connection = sqlite3.connect(path, check_same_thread=False)
    SqliteSaver(connection).setup()
    mode, full = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous"))
    connection.close()
    return [str(mode), str(full), sqlite3.sqlite_version]


serve(puts=puts, async_puts=async_puts, durability=durability)
