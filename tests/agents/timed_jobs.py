"""Jobs that record only when they ran, to test how an engine schedules jobs of any kind.

As a script, this is one of several engines. It runs until no job is left.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from headway.actions.runs import jobs
from headway.engine.engine import Engine
from headway.engine.runner import EngineLimits, JobHandler
from headway.ledger.job import Job
from headway.storage.database import Database
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from tests.dispatch.local_dispatch import ChosenEngine

KIND = "count"
RAN = "CREATE TABLE IF NOT EXISTS ran (job TEXT, family TEXT, owner TEXT, began BIGINT, ended BIGINT)"
TAKES_S = 0.004


class TimedRun(NamedTuple):
    job: str
    family: str
    owner: str
    began: int  # from a clock that all processes of the machine share
    ended: int


def enqueue(tx: Transaction, tenant_id: int, families: Iterable[str]) -> list[Job]:
    tx.run(RAN)
    return [jobs.create_job(tx, tenant_id, KIND, {"place": place}, family=family) for place, family in enumerate(families)]


def list_runs(tx: Transaction) -> list[TimedRun]:
    return [TimedRun._make(row) for row in tx.all("SELECT job, family, owner, began, ended FROM ran ORDER BY began")]


def fail_job(tx: Transaction, job: Job, error: str) -> None:
    jobs.fail_permanently(tx, job, error)


async def record_run(database: Database, owner: str, job: Job, during: Callable[[], Awaitable[object]]) -> None:
    began = time.monotonic_ns()
    await during()

    def end(tx: Transaction) -> None:
        locked = job_store.find_locked_job(tx, job.tenant_id, job.id)
        assert locked is not None
        assert (locked.state, locked.owner) == ("running", owner)
        tx.run("INSERT INTO ran VALUES (?, ?, ?, ?, ?)", job.id, job.family, owner, began, time.monotonic_ns())
        jobs.complete_job(tx, locked)

    await database.of(job.tenant_id).write(end)


async def sleep_briefly() -> None:
    await asyncio.sleep(TAKES_S)


def count_engines(tx: Transaction) -> int:
    """The number of engines that have taken a job."""
    row = tx.one("SELECT COUNT(*) FROM (SELECT owner FROM ran UNION SELECT owner FROM jobs WHERE state = 'running') AS took")
    return int(row[0]) if row else 0


def build_engine(
    database: Database,
    owner: str,
    limits: EngineLimits | None = None,
    during: Callable[[], Awaitable[object]] = sleep_briefly,
) -> Engine:
    async def run(job: Job) -> None:
        await record_run(database, owner, job, during)

    return ChosenEngine(database, owner, {KIND: JobHandler(run, fail_job)}, limits)


def count_unfinished(tx: Transaction) -> int:
    row = tx.one("SELECT COUNT(*) FROM jobs WHERE state IN ('queued', 'delayed', 'running')")
    return int(row[0]) if row else 0


def count_most_at_once(rows: Iterable[TimedRun]) -> int:
    """Return the highest number of jobs that ran at the same time."""
    moments = sorted([(run.began, 1) for run in rows] + [(run.ended, -1) for run in rows])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


async def run_until_empty(engine: Engine) -> None:
    engine.start()
    while await engine.database.read(count_unfinished):
        await asyncio.sleep(0.02)
    await engine.stop()


async def main(url: str, owner: str, slots: int, per_family: int) -> None:
    database = Database(url)
    print("ready", flush=True)
    await asyncio.to_thread(input)

    async def wait_for_another() -> None:
        """No job ends before a second engine has taken one, so that one which starts early does not do them all."""
        while await database.read(count_engines) < 2:
            await sleep_briefly()
        await sleep_briefly()

    await run_until_empty(build_engine(database, owner, EngineLimits(slots, per_family), wait_for_another))
    database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], str(os.getpid()), int(sys.argv[2]), int(sys.argv[3])))
