"""Prints what a run of the tests cost: wall time, processor time of all its processes, and the most expensive files.

A process that outlives its parent is adopted by the first process of the run, so nothing is missed. The processor time of a file
includes that of the programs, servers and browsers which its tests start, without Postgres, which is shared.
"""

import ctypes
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

PR_SET_CHILD_SUBREAPER = 36
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COST = "cost"  # the property of a test's report that holds its processor time
LISTED = 20
REAPING_S = 0.2
XDIST_COMMAND = b"exec(eval(sys.stdin.readline()))"
STARTED = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", action="store_true", help="print what the run cost, and its most expensive files (Linux)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("costs"):
        has_workers = bool(config.getoption("numprocesses", None))
        config.pluginmanager.register(Costs(is_worker=hasattr(config, "workerinput"), has_workers=has_workers), "costs of the run")


class Costs:
    """Measures each test where it runs, and the whole run in its first process."""

    def __init__(self, *, is_worker: bool, has_workers: bool) -> None:
        self.is_worker = is_worker
        self.has_workers = has_workers
        self.spent = 0.0
        self.files: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()
        if not is_worker:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if has_workers and not is_worker:
            threading.Thread(target=reap_adopted, daemon=True).start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown" and (self.is_worker or not self.has_workers):
            before, self.spent = self.spent, self.count_on()
            report.user_properties.append((COST, self.spent - before))
        return report

    def count_on(self) -> float:
        """The processor time until now. A process that ends while the tree is read can be missed, so a smaller sum is read again.
        It stays smaller if a daemon left the tree of this process."""
        return next((seconds for _ in range(5) if (seconds := count_seconds(os.getpid())) >= self.spent), self.spent)

    def pytest_runtest_logstart(self) -> None:
        self.spent = self.spent or self.count_on()  # what the collection cost belongs to no file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            file = report.nodeid.partition("::")[0]
            self.tests[file] += 1
            self.files[file] += sum(float(str(value)) for name, value in report.user_properties if name == COST)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("what this run cost")
        minutes, seconds = divmod(time.monotonic() - STARTED, 60)
        terminalreporter.write_line(f"{minutes:.0f} min {seconds:.0f} s of wall time")
        minutes, seconds = divmod(self.count_on(), 60)
        terminalreporter.write_line(f"{minutes:.0f} min {seconds:.0f} s of processor time, of all processes")
        for file, cost in sorted(self.files.items(), key=lambda entry: -entry[1])[:LISTED]:
            terminalreporter.write_line(f"{cost:>8.1f} s  {self.tests[file]:>4} tests  {file}")


def reap_adopted() -> None:
    """Reap the processes that this one has adopted, as init would have: tests wait until such a process is gone."""
    workers: set[int] = set()  # xdist waits for them itself
    while True:
        time.sleep(REAPING_S)
        with suppress(FileNotFoundError, ProcessLookupError, ChildProcessError):  # a thread or a child has ended meanwhile
            for child in list_children(os.getpid()):
                if XDIST_COMMAND in Path(f"/proc/{child}/cmdline").read_bytes():
                    workers.add(child)
                elif child not in workers:
                    os.waitpid(child, os.WNOHANG)


def list_children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def count_seconds(pid: int) -> float:
    """The processor time of a process and of all below it, including those that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = list_children(pid)
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile, and is counted by its parent
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_S + sum(map(count_seconds, children))
