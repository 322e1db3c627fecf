"""procrastinate with 16 concurrent jobs, LISTEN/NOTIFY and a connection for each job."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import procrastinate
import psycopg

from bench.peers.answering import serve
from bench.peers.queueing import BATCH, CONCURRENCY, JOBS, KIND, PATIENCE_S, idle_s

RUNNER = asyncio.Runner()
logging.getLogger("procrastinate").setLevel(logging.ERROR)  # its warning about an app in a script is expected


def prepare(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(procrastinate.schema.SchemaManager.get_schema().encode())


class Worker:
    """A connection to the queue, which must be empty at the end."""

    def __init__(self, url: str) -> None:
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=CONCURRENCY, max_size=CONCURRENCY)
        self.app = procrastinate.App(connector=connector)
        self.task = self.app.task(name=KIND)(self.nothing)
        self.starts: asyncio.Queue[float] = asyncio.Queue()

    async def nothing(self) -> None:
        self.starts.put_nowait(time.perf_counter())

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with self.app.open_async(), asyncio.timeout(PATIENCE_S):
            yield
            for state in ("todo", "doing", "failed"):
                unfinished = list(await self.app.job_manager.list_jobs_async(status=state))
                assert not unfinished, f"{len(unfinished)} jobs are {state}"

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        worker = asyncio.create_task(self.app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
        try:
            yield
        finally:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker

    async def warm_up(self) -> None:
        for _ in range(3):
            await self.task.defer_async()
            await self.starts.get()

    async def jobs_a_second(self) -> float:
        """Return jobs per second. All are enqueued before work starts. The clock stops when the last job has run."""
        async with self.open():
            async with self.working():
                await self.warm_up()
            rest = iter(range(JOBS))

            async def caller() -> None:
                for _ in rest:
                    await self.task.defer_async()

            start = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(CONCURRENCY)))
            async with self.working():
                for _ in range(JOBS):
                    await self.starts.get()
                return JOBS / (time.perf_counter() - start)

    async def waits(self) -> list[float]:
        async with self.open(), self.working():
            await self.warm_up()
            return [await self.wait() for _ in range(BATCH)]

    async def wait(self) -> float:
        await asyncio.sleep(idle_s())
        start = time.perf_counter()
        await self.task.defer_async()
        return (await self.starts.get() - start) * 1000


def jobs_a_second(url: str) -> float:
    return RUNNER.run(Worker(url).jobs_a_second())


def waits(url: str) -> list[float]:
    return RUNNER.run(Worker(url).waits())


serve(prepare=prepare, jobs_a_second=jobs_a_second, waits=waits)
