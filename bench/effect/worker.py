"""Runs systems in processes of their own: it imports the frameworks once, and forks for each run.

Jobs come in as lines of JSON on the standard input, `{"id", "system", "task", "url", "folder", "limit_s"}`, and results go out.
It works in any environment that has the system's framework, with or without Headway.
"""

import asyncio
import importlib
import json
import os
import select
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from bench.effect.systems import CALL_LIMIT_CODE, SYSTEMS, Ended, Room
from bench.effect.task_list import TASKS

WARM_MODULES = (
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai",
    "langchain.agents",
    "langchain_openai",
    "agents",
    "deepagents",
    "headway.process.assembly",
    "headway.agents.models.client",
    "headway.frameworks.langchain_middleware",
)
TICK_S = 0.05


class Job(NamedTuple):
    id: str
    folder: Path
    began: float
    limit_s: float


def main() -> None:
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # libraries that print must not write to the pipe
    for name in WARM_MODULES:
        if name.split(".")[0] in sys.argv[1:]:
            importlib.import_module(name)
    jobs: dict[int, Job] = {}
    source, unread = sys.stdin.fileno(), b""
    is_open = True
    while is_open or jobs:
        if select.select([source] if is_open else [], [], [], TICK_S)[0]:
            received = os.read(source, 1 << 16)
            is_open = bool(received)
            *lines, unread = (unread + received).split(b"\n")
            for line in lines:
                request = json.loads(line)
                jobs[start(request)] = Job(request["id"], Path(request["folder"]), time.monotonic(), request["limit_s"])
        for pid, job in [*jobs.items()]:
            is_late = time.monotonic() - job.began > job.limit_s
            if is_late:
                end_group(pid)
            if os.waitpid(pid, 0 if is_late else os.WNOHANG)[0]:
                end_group(pid)  # a process that the run left behind
                del jobs[pid]
                wall_s = time.monotonic() - job.began
                output.write(json.dumps({"id": job.id, "wall_s": wall_s, **collect(job, is_late=is_late)}) + "\n")


def start(request: dict[str, Any]) -> int:
    pid = os.fork()
    return pid or run(request)


def run(request: dict[str, Any]) -> NoReturn:
    """Run one job in the forked process. Whatever happens, it ends here."""
    folder = Path(request["folder"])
    try:
        os.setpgid(0, 0)
        log = os.open(folder / "log.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        ended = asyncio.run(run_system(request, folder))
        (folder / "ended.part").write_text(json.dumps(ended._asdict()), encoding="utf-8")
        (folder / "ended.part").rename(folder / "ended.json")
    except BaseException:  # noqa: BLE001  the process ends, and must not return into the parent's loop
        traceback.print_exc()
    finally:
        os._exit(0)


async def run_system(request: dict[str, Any], folder: Path) -> Ended:
    task = TASKS[request["task"]]
    workspace, home = folder / "workspace" / "1", folder / "home"  # 1 is the folder of Headway's local tenant
    task.prepare(workspace)
    home.mkdir(parents=True, exist_ok=True)
    try:
        ended = await SYSTEMS[request["system"]].run(Room(task, workspace, home, request["url"]))
    except Exception as error:  # noqa: BLE001  a framework that fails is a result
        traceback.print_exc()
        reached_limit = CALL_LIMIT_CODE in str(error)
        ended = Ended("limit") if reached_limit else Ended("error", f"{type(error).__name__}: {error}"[:600])
    return ended._replace(plan=list(ended.plan))


def end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def collect(job: Job, *, is_late: bool) -> dict[str, Any]:
    """Read how a run ended. A run that was ended for its time says nothing, and neither does one whose process died."""
    shutil.rmtree(job.folder / "home", ignore_errors=True)
    try:
        ended: dict[str, Any] = json.loads((job.folder / "ended.json").read_text(encoding="utf-8"))
    except OSError:
        return Ended("timeout" if is_late else "error", "")._asdict()
    return ended


if __name__ == "__main__":
    main()
