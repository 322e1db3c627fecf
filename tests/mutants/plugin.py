"""The pytest plugin of `make mutants`: records which tests reach which mutants, or runs the tests of each mutant in turn.

It is loaded in the instrumented tree only. The tests are collected once; each mutant then gets a fork of the collected process,
which ends at the first failure.
"""

import json
import mmap
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path.cwd() / ".mutants"
RECORDING = (FOLDER / "current").exists()
if RECORDING:  # before anything of Headway is imported
    (FOLDER / "current" / str(os.getpid())).write_bytes(bytes(8))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-mutants", help="the file with the mutants to run, and their tests")


def pytest_configure(config: pytest.Config) -> None:
    if RECORDING:
        config.pluginmanager.register(Recorder(), "mutants-recorder")
    if config.getoption("run_mutants"):
        config.pluginmanager.register(Runner(Path(config.getoption("run_mutants"))), "mutants-runner")


class Recorder:
    """Tells all processes of a test which test it is, and measures what the test costs."""

    def __init__(self) -> None:
        from tests.costs import count_seconds  # noqa: PLC0415  # conftest.py loads it as a plugin, which has to come first

        self.count_seconds = count_seconds
        with (FOLDER / "current" / str(os.getpid())).open("r+b") as file:
            self.current = mmap.mmap(file.fileno(), 8)
        self.numbers: dict[str, int] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        names = [item.nodeid for item in session.items]
        self.numbers = {name: number for number, name in enumerate(names, start=1)}
        (FOLDER / f"tests.{os.getpid()}").write_text(json.dumps(names), encoding="utf-8")
        (FOLDER / f"tests.{os.getpid()}").rename(FOLDER / "tests.json")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        number = self.numbers[item.nodeid]
        self.current[:8] = number.to_bytes(8, "little")
        started, spent = time.monotonic(), self.count_seconds(os.getpid())
        result = yield
        seconds = time.monotonic() - started, self.count_seconds(os.getpid()) - spent
        with (FOLDER / "times" / str(os.getpid())).open("a") as file:
            file.write(f"{number} {max(seconds):.3f} {seconds[0]:.3f} {seconds[1]:.3f}\n")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid in self.numbers:
            with (FOLDER / "failed").open("a") as file:
                file.write(f"{report.nodeid}\n")


class Runner:
    """Runs the tests of each mutant in a fork."""

    def __init__(self, plan: Path) -> None:
        self.plan = plan
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        done = self.plan.with_suffix(".done")
        for mutant, names, limit in json.loads(self.plan.read_text(encoding="utf-8")):
            (FOLDER / "active").write_text(str(mutant))
            started = time.monotonic()
            failed = self.fork(mutant, [items[name] for name in names if name in items], limit)
            row = {"mutant": mutant, "failed": failed, "tests": len(names), "seconds": round(time.monotonic() - started, 1)}
            with done.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return True

    def fork(self, mutant: int, items: list[pytest.Item], limit: float) -> list[str]:
        report = FOLDER / f"failed.{mutant}"
        child = os.fork()
        if not child:
            self.run(mutant, items, report)
        deadline = time.monotonic() + limit
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return ["(time is up)"]
            time.sleep(0.02)
        found: list[str] = json.loads(report.read_text()) if report.exists() else ["(the process ended)"]
        return found

    def run(self, mutant: int, items: list[pytest.Item], report: Path) -> None:
        """In the fork: run these tests until one fails, and end."""
        import headway._mutants as switch  # type: ignore[import-not-found]  # noqa: PLC0415

        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        switch.active = mutant
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                break
        report.write_text(json.dumps(self.failed))
        end: Any = os._exit
        end(0)
