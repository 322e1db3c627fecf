"""The engine over time: an idle server, and a server that recovers the work of a killed process."""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

from bench.harness import Measurements, Unavailable, Workshop, at_least, at_most, benchmark, in_turns
from bench.http import start_server, stop
from bench.postgres import new_database
from headway import settings
from headway.actions.access import local_tenant
from headway.actions.runs import jobs
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.running_turns import run_turn

PATIENCE_S = 60.0
ROUNDS = 5

# An idle server

WATCHED_S = 10.0
IDLE_PERCENT = 3.0
AT_WORK = 64
PLANNED_MB = 256.0  # that deploy/kubernetes requests for a process


@benchmark("engine.idle", "CPU of an idle `headway serve` on SQLite over 10 s, its engine at work", "3 % of a core", at_most(1.0))
def idle(shop: Workshop) -> Measurements:
    home = shop.folder / "idle"
    _, process = start_server(shop, home)
    see_it_work(f"sqlite:///{home / 'headway.db'}")
    time.sleep(1)
    watched = find_process(process.pid)
    before, start = cpu_s(watched), time.perf_counter()
    time.sleep(WATCHED_S)
    percent = 100 * (cpu_s(watched) - before) / (time.perf_counter() - start)
    stop(process)
    return Measurements([percent], [IDLE_PERCENT], "%")


def find_process(pid: int) -> Any:
    try:
        import psutil
    except ImportError:
        raise Unavailable("needs psutil: pip install psutil") from None
    return psutil.Process(pid)


def see_it_work(url: str) -> None:
    """Wait until the engine, which starts a while after the server answers, has completed a job."""
    with DirectDatabase(url) as database:
        tenant_id = database.write(local_tenant.ensure_local).id
        payload = {"name": "now", "arguments": {}}
        job = database.write(partial(jobs.create_job, tenant_id=tenant_id, kind="tool", payload=payload))
        deadline = time.monotonic() + PATIENCE_S
        while (state := database.read(partial(jobs.get_job, tenant_id=tenant_id, job_id=job.id)).state) != "completed":
            assert time.monotonic() < deadline, f"the job is {state}"
            time.sleep(0.1)


@benchmark("engine.memory", "memory of a `headway worker` on Postgres with 64 turns at work", "256 MB", None)
def memory(shop: Workshop) -> Measurements:
    url, home = new_database(shop), shop.folder / "memory"
    command = [sys.executable, "-m", "headway", "worker", "--json", "--home", str(home), "--database-url", url]
    environment = {**os.environ, "HEADWAY_REHEARSAL_PACE_S": str(2 * PATIENCE_S)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    shop.cleanup.callback(stop, process)
    assert process.stdout is not None
    process.stdout.readline()
    with DirectDatabase(url) as database:
        tenant_id = database.write(local_tenant.ensure_local).id
        for _ in range(AT_WORK):
            conversation_id = database.write(partial(conversations.add_conversation, tenant_id=tenant_id)).id
            request = turns.TurnRequest("Plan three things.")
            database.write(partial(turns.start_turn, tenant_id=tenant_id, conversation_id=conversation_id, request=request))
        deadline = time.monotonic() + PATIENCE_S
        while (running := len(database.read(lambda tx: jobs.list_jobs(tx, tenant_id, "running", AT_WORK)).jobs)) < AT_WORK:
            assert time.monotonic() < deadline, f"{running} of {AT_WORK} turns are at work"
            time.sleep(0.1)
    megabytes = find_process(process.pid).memory_info().rss / 1e6
    stop(process)
    return Measurements([megabytes], [PLANNED_MB], "MB")


def cpu_s(process: Any) -> float:
    return float(
        sum(member.cpu_times().user + member.cpu_times().system for member in [process, *process.children(recursive=True)])
    )


# Work that a killed process left behind

TURNS = 100
STEPS = 3
REQUEST = "What time is it? Look twice."
ENDED_WELL = {("finished", STEPS)}


class Survivors:
    """Turns of three steps each on SQLite, with a model that answers at once: started here, or by a process that has died."""

    def __init__(self, shop: Workshop) -> None:
        from headway.testing import scripted_model

        logging.getLogger("headway.engine").setLevel(logging.ERROR)  # takeovers are expected here
        self.runner = asyncio.Runner()
        shop.cleanup.callback(self.runner.close)
        flags = {"home": str(shop.folder / "survivors"), "model": "test:scripted", "restart_stagger_s": "0"}
        self.settings = settings.load(flags)
        self.models = {"test:scripted": scripted_model(answer)}

    @asynccontextmanager
    async def headway(self) -> AsyncIterator[Any]:
        """Yield a Headway that is loaded but not started."""
        from headway.process.assembly import Headway

        headway = Headway(self.settings, self.models)
        assert headway.engine.owner  # imports the engine
        try:
            yield headway
        finally:
            await headway.stop_agents()
            headway.close()

    def left_behind(self) -> float:
        return self.runner.run(self._left_behind())

    async def _left_behind(self) -> float:
        async with self.headway() as headway, asyncio.timeout(PATIENCE_S):
            tenant_id, conversation_ids = await self.places(headway)
            dead = f"dead:{uuid4()}"  # it has no lease
            job_ids: list[str] = await headway.database.of(tenant_id).write(
                lambda tx: [
                    turns.start_turn(tx, tenant_id, conversation_id, turns.TurnRequest(REQUEST, owner=dead)).id
                    for conversation_id in conversation_ids
                ]
            )
            ended = [headway.engine.ended(job_id) for job_id in job_ids]
            start = time.perf_counter()
            self.start(headway)
            await asyncio.gather(*ended)
            took = time.perf_counter() - start
            await self.check(headway, tenant_id, job_ids)
            return TURNS / took

    def fresh(self) -> float:
        return self.runner.run(self._fresh())

    async def _fresh(self) -> float:
        async with self.headway() as headway, asyncio.timeout(PATIENCE_S):
            tenant_id, conversation_ids = await self.places(headway)
            start = time.perf_counter()
            self.start(headway)
            reports = await asyncio.gather(
                *(run_turn(headway, tenant_id, conversation_id, REQUEST) for conversation_id in conversation_ids)
            )
            took = time.perf_counter() - start
            assert {(report["status"], report["iterations"]) for report in reports} == ENDED_WELL, reports[0]
            return TURNS / took

    def start(self, headway: Any) -> None:
        headway.start()
        headway.start_agents()

    async def places(self, headway: Any) -> tuple[int, list[int]]:
        """Create a conversation for each turn."""

        def make(tx: Transaction) -> tuple[int, list[int]]:
            tenant_id = local_tenant.ensure_local(tx).id
            return tenant_id, [conversations.add_conversation(tx, tenant_id=tenant_id).id for _ in range(TURNS)]

        created: tuple[int, list[int]] = await headway.database.write(make)
        return created

    async def check(self, headway: Any, tenant_id: int, job_ids: list[str]) -> None:
        """Assert that all turns ended well. A job of a dead process only ends if it was taken over."""

        def look(tx: Transaction) -> set[tuple[str, int]]:
            owned = [jobs.get_job(tx, tenant_id, job_id) for job_id in job_ids]
            reports = [turns.show_turn(tx, tenant_id, turns.get_turn_id(job), self.settings.limits) for job in owned]
            return {(report["status"], report["iterations"]) for report in reports}

        results = await headway.database.of(tenant_id).read(look)
        assert results == ENDED_WELL, results


def answer(messages: Any) -> Any:
    """Return two calls of a trivial tool, then an answer."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    answer_count = sum(isinstance(message, ModelResponse) for message in messages)
    if answer_count < STEPS - 1:
        return ModelResponse([ToolCallPart("now", {}, f"call_{uuid4().hex}")], finish_reason="tool_call")
    return ModelResponse([TextPart("Late.")], finish_reason="stop")


@benchmark(
    "engine.resume",
    "100 turns of 3 steps, interrupted when their process was killed: from the next process's start until all have ended",
    "the same turns, started fresh",
    at_least(0.5),
)
def resume(shop: Workshop) -> Measurements:
    survivors = Survivors(shop)
    return in_turns(survivors.left_behind, survivors.fresh, ROUNDS)
