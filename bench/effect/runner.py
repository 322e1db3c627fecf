"""Runs many jobs at once and appends a line of JSON for each, so that a run that was broken off can be continued."""

import asyncio
import importlib.util
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from bench.effect.proxy import Proxy, RunLog
from bench.effect.simulated import Rates, SimulatedModel
from bench.effect.systems import SYSTEMS, Ended
from bench.effect.task_list import SET_OF_TASK, TASKS
from bench.effect.verdict import judge
from bench.harness import Unavailable, progress
from bench.peer import ENVIRONMENTS, ROOT, environment

ANSWER_KEPT: Final = 1_500
ENDED: Final = "The process that runs the systems has ended; workers.log beside the results says why."
GRACE_S: Final = 5  # between the last result and the deadline


class Job(NamedTuple):
    system: str
    task: str
    arm: str
    model: str
    repetition: int

    @property
    def id(self) -> str:
        return f"{self.system}.{self.task}.{self.arm}.{self.repetition}"


class Options(NamedTuple):
    folder: Path  # of the results
    jobs: int = 4
    limit_s: float = 240
    until_s: float = 0  # 0: no end
    keep_transcripts: bool = False


class Worker:
    """A process that runs jobs with one interpreter."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.reading = asyncio.create_task(self.read())

    async def run(self, job_id: str, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        if self.reading.done():
            raise RuntimeError(ENDED)
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.waiting[job_id] = waiting
        self.process.stdin.write(json.dumps({"id": job_id, **request}).encode() + b"\n")
        return await waiting

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            result = json.loads(line)
            self.waiting.pop(result.pop("id")).set_result(result)
        for waiting in self.waiting.values():
            waiting.set_exception(RuntimeError(ENDED))


def find_interpreters(systems: Iterable[str], *, may_install: bool) -> dict[str, str]:
    """Return the interpreter for each system. Those that are not installed are left out, with a line that says so."""
    interpreters: dict[str, str] = {}
    for name in systems:
        system = SYSTEMS[name]
        missing = [module for module in system.modules if importlib.util.find_spec(module) is None]
        if not missing:
            interpreters[name] = sys.executable
        elif system.environment and (may_install or (ENVIRONMENTS / system.environment / "made-from").exists()):
            try:
                interpreters[name] = str(environment(system.environment))
            except Unavailable as error:
                progress(f"{system.title} is left out: {error}")
        else:
            progress(f"{system.title} is left out: {', '.join(missing)} is not installed (--install creates its environment)")
    return interpreters


@asynccontextmanager
async def start_worker(interpreter: str, systems: Sequence[str], log: Path) -> AsyncIterator[Worker]:
    modules = {module for name in systems for module in SYSTEMS[name].modules}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "OPENAI_", "LANGSMITH_"))}
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(interpreter, "-m", "bench.effect.worker", *sorted(modules)),
            cwd=ROOT,
            env={**inherited, "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=2**24,
        )
    worker = Worker(process)
    try:
        yield worker
    finally:
        worker.reading.cancel()
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def serve(proxies: dict[str, Proxy], models: dict[str, SimulatedModel]) -> AsyncIterator[str]:
    """Serve the proxies and the simulated models on a port of this machine. Yields the address."""
    routes = [
        Route(f"/{name}/{{run}}/{{arm}}/v1/chat/completions", proxy.complete, methods=["POST"]) for name, proxy in proxies.items()
    ]
    routes += [Route(f"/simulated/{name}/v1/chat/completions", model.complete, methods=["POST"]) for name, model in models.items()]
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            for name in models:
                proxies[name].urls = [f"{address}/simulated/{name}/v1"]
            yield address
        finally:
            server.should_exit = True
            await serving
            for proxy in proxies.values():
                await proxy.client.aclose()


async def run_jobs(
    jobs: Sequence[Job], proxies: dict[str, Proxy], rates: dict[str, Rates], interpreters: dict[str, str], options: Options
) -> None:
    """Run the jobs that have no result yet. With a deadline, jobs that would not end in time are not started, or not recorded."""
    options.folder.mkdir(parents=True, exist_ok=True)
    done = {(row["model"], row["id"]) for row in read_results(options.folder)}
    missing = [job for job in jobs if (job.model, job.id) not in done]
    workplace = Path(mkdtemp(prefix="hw-effect-"))
    try:
        async with AsyncExitStack() as stack:
            models = {name: SimulatedModel(rate) for name, rate in rates.items()}
            address = await stack.enter_async_context(serve(proxies, models))
            workers = {
                interpreter: await stack.enter_async_context(
                    start_worker(
                        interpreter,
                        [name for name in interpreters if interpreters[name] == interpreter],
                        options.folder / "workers.log",
                    )
                )
                for interpreter in set(interpreters.values())
            }
            room = Hall(
                address, workplace, proxies, {name: workers[interpreter] for name, interpreter in interpreters.items()}, options
            )
            await room.run_all(missing)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


class Hall:
    """Where the jobs run: a place for each of those that run at once."""

    def __init__(
        self, address: str, workplace: Path, proxies: dict[str, Proxy], workers: dict[str, Worker], options: Options
    ) -> None:
        self.address, self.workplace, self.proxies, self.workers, self.options = address, workplace, proxies, workers, options
        self.began = time.monotonic()
        self.count = 0

    async def run_all(self, jobs: Sequence[Job]) -> None:
        queue = list(reversed(jobs))
        with (self.options.folder / "results.jsonl").open("a", encoding="utf-8") as results:

            async def take_place() -> None:
                while queue and not self.is_late(0):
                    row = await self.run_one(queue.pop())
                    if row:
                        results.write(json.dumps(row, ensure_ascii=False) + "\n")
                        results.flush()
                        self.report_progress(len(jobs))

            await asyncio.gather(*(take_place() for _ in range(min(self.options.jobs, len(jobs)))))

    def is_late(self, seconds: float) -> bool:
        return 0 < self.options.until_s - GRACE_S < time.monotonic() - self.began + seconds

    def report_progress(self, total: int) -> None:
        self.count += 1
        if self.count % 50 == 0 or self.count == total:
            progress(f"{self.count} of {total} runs after {time.monotonic() - self.began:.0f} s")

    async def run_one(self, job: Job) -> dict[str, Any] | None:
        folder = self.workplace / f"{job.model}.{job.id}".replace("/", "_")
        folder.mkdir(parents=True)
        remaining = (
            self.options.until_s - GRACE_S - (time.monotonic() - self.began) if self.options.until_s else self.options.limit_s
        )
        request = {
            "system": job.system,
            "task": job.task,
            "folder": str(folder),
            "url": f"{self.address}/{job.model}/{job.id}/{job.arm}/v1",
            "limit_s": min(self.options.limit_s, remaining),
        }
        result = await self.workers[job.system].run(f"{job.model} {job.id}", request)
        log = self.proxies[job.model].logs.pop(job.id, RunLog())
        if result["end"] == "timeout" and remaining < self.options.limit_s:
            return None  # the deadline ended it, not its own limit
        row = await asyncio.to_thread(describe, job, folder, result, log)
        if self.options.keep_transcripts:
            self.keep_transcript(job, log, row)
        shutil.rmtree(folder, ignore_errors=True)
        return row

    def keep_transcript(self, job: Job, log: RunLog, row: dict[str, Any]) -> None:
        exchanges = [exchange._asdict() for exchange in log.exchanges]
        document = {"model": job.model, "id": job.id, "verdict": row["verdict"], "exchanges": exchanges}
        with (self.options.folder / "transcripts.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({**document, "answer": row["answer"], "errors": log.errors}, ensure_ascii=False) + "\n")


def describe(job: Job, folder: Path, result: dict[str, Any], log: RunLog) -> dict[str, Any]:
    """Return the row of one run."""
    task = TASKS[job.task]
    ended = Ended(result["end"], result["answer"], result["plan"])
    judgement = judge(task, folder / "workspace" / "1", ended)
    return {
        "id": job.id,
        **job._asdict(),
        "kind": task.kind,
        "set": SET_OF_TASK[job.task],
        "wording": task.wording,
        "end": ended.end,
        **judgement._asdict(),
        "calls": log.started,
        "input_tokens": sum(exchange.input_tokens for exchange in log.exchanges),
        "output_tokens": sum(exchange.output_tokens for exchange in log.exchanges),
        "repaired": sum(exchange.repaired for exchange in log.exchanges),
        "model_errors": len(log.errors),
        "wall_s": round(result["wall_s"], 2),
        "plan": list(ended.plan),
        "answer": ended.answer[:ANSWER_KEPT],
    }


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Read the rows of all runs. The last line is left out if it was not written to its end."""
    path = folder / "results.jsonl"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.endswith("}")]
