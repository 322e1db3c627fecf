"""DBOS, configured for speed as its manual advises.

It takes all queued jobs at every poll (0.1 s) and runs them in 16 threads. A limit of 16 on its queue would allow at most 160 jobs
per second. It uses JSON instead of pickle. On SQLite it uses WAL, which is not its default, and FULL, which is.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

from dbos import DBOS, DBOSPortableJSONSerializer
from sqlalchemy import event
from sqlalchemy.engine import Engine

from bench.peers.answering import serve
from bench.peers.queueing import BATCH, CONCURRENCY, JOBS, KIND, PATIENCE_S, idle_s

POLL_S = 0.1
BEGUN: "SimpleQueue[float]" = SimpleQueue()


@DBOS.workflow(name=KIND)
def nothing() -> None:
    BEGUN.put(time.perf_counter())


@event.listens_for(Engine, "connect")
def durable_and_quick(connection: Any, _record: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")


@contextmanager
def running(url: str) -> Iterator[None]:
    config = {
        "name": "bench",
        "system_database_url": url,
        "application_version": "1",
        "executor_id": str(uuid4()),
        "serializer": DBOSPortableJSONSerializer(),
        "max_executor_threads": CONCURRENCY,
        "sys_db_pool_size": CONCURRENCY + 4,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        DBOS.register_queue(KIND, polling_interval_sec=POLL_S)
        for _ in range(3):
            enqueue()
            BEGUN.get(timeout=PATIENCE_S)
        yield
        come_to_rest()
    finally:
        DBOS.destroy(workflow_completion_timeout_sec=5)


def come_to_rest() -> None:
    """Wait until the last results are recorded."""
    deadline = time.monotonic() + PATIENCE_S
    while DBOS.list_workflows(status=["ENQUEUED", "PENDING"]):
        assert time.monotonic() < deadline, "not all workflows have ended"
        time.sleep(0.02)
    assert not DBOS.list_workflows(status=["ERROR"])


def enqueue(_: int = 0) -> None:
    DBOS.enqueue_workflow(KIND, nothing)


def jobs_a_second(url: str) -> float:
    """Return jobs per second, working from the first enqueue because DBOS is faster that way. Stops when the last job has run."""
    with running(url), ThreadPoolExecutor(CONCURRENCY) as callers:
        list(callers.map(lambda _: None, range(CONCURRENCY)))  # starts the threads
        start = time.perf_counter()
        list(callers.map(enqueue, range(JOBS)))
        for _ in range(JOBS):
            BEGUN.get(timeout=PATIENCE_S)
        return JOBS / (time.perf_counter() - start)


def waits(url: str) -> list[float]:
    """Return the milliseconds that single jobs wait in the queue of an idle engine."""
    with running(url):
        return [wait(enqueue) for _ in range(BATCH)]


def direct(url: str) -> list[float]:
    """Return the milliseconds until a workflow starts that bypasses the queue."""
    with running(url):
        return [wait(lambda: DBOS.start_workflow(nothing)) for _ in range(BATCH)]


def wait(begin: Callable[[], object]) -> float:
    time.sleep(idle_s())
    start = time.perf_counter()
    begin()
    return (BEGUN.get(timeout=PATIENCE_S) - start) * 1000


serve(jobs_a_second=jobs_a_second, waits=waits, direct=direct)
