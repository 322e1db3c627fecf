"""Moves of a tenant in processes that are killed or suspended before a chosen statement. Each is forked from one that has loaded
every module."""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

PATIENCE_S = 120
Counted = Literal["statements", "transactions"]


class MovePlan(NamedTuple):
    """A move, and the statement before which its process gets a signal."""

    urls: tuple[str, str]
    home: str
    source: str
    target: str
    tenant: str
    number: int = 0  # counted from 1; 0: it ends normally
    signal: int = signal.SIGKILL
    only: Counted = "statements"


class MovingProcesses:
    """The parent's handle on the process that forks one child per plan."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def run(self, plan: MovePlan) -> bool:
        """Run a plan. Return whether the process ended normally, rather than by the signal."""
        answer = self.start(plan)
        assert answer in ({"code": 0}, {"code": -signal.SIGKILL}), (answer, plan)
        return answer["code"] == 0

    def suspend(self, plan: MovePlan) -> int | None:
        """Run a plan until its process is suspended, and return its id; None: it has ended before."""
        return self.start(plan._replace(signal=signal.SIGSTOP)).get("pid")

    def resume(self, pid: int) -> int:
        """Let a suspended process continue, and return its exit code: 1 if the move was refused."""
        os.kill(pid, signal.SIGCONT)
        return self.read()["code"]

    def start(self, plan: MovePlan) -> dict[str, int]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(plan) + "\n")
        self.process.stdin.flush()
        return self.read()

    def read(self) -> dict[str, int]:
        assert self.process.stdout is not None
        answer: dict[str, int] = json.loads(self.process.stdout.readline())
        return answer


@contextmanager
def run_moving_processes(folder: Path) -> Iterator[MovingProcesses]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, __file__], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield MovingProcesses(process)
        finally:
            process.terminate()


# In the process that forks


def main() -> None:
    from tests.cells import move_harness  # noqa: F401, PLC0415  loads every module before the first fork

    for line in sys.stdin:
        child = os.fork()
        if not child:
            run_child(MovePlan._make(json.loads(line)))
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            print(json.dumps({"pid": child}), flush=True)
            _, status = os.waitpid(child, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


def run_child(plan: MovePlan) -> None:
    """Move the tenant, and exit with 0, or with 1 if that was refused."""
    from headway.cells.moving import move_tenant  # noqa: PLC0415
    from headway.ledger.errors import HeadwayError  # noqa: PLC0415
    from headway.storage.postgres.wire import Wire  # noqa: PLC0415
    from tests.cells.move_harness import Cells, CellUrls  # noqa: PLC0415

    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)  # print where a hanging process is stuck
    code = 2
    try:
        cells = Cells(CellUrls(*plan.urls), Path(plan.home))
        route = cells.route(plan.source, plan.target)
        counted = count(1)

        def before_sending(statement: str) -> None:
            is_counted = statement and (plan.only == "statements" or statement.startswith("BEGIN"))
            if is_counted and next(counted) == plan.number:
                os.kill(os.getpid(), plan.signal)

        Wire.trace = before_sending
        move_tenant(route, plan.tenant)
        code = 0
    except HeadwayError:
        code = 1
    except BaseException:  # noqa: BLE001  no exception may reach the parent's code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
