"""Cells: what an iteration costs with three cells that are at work at the same time, compared with one database."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psycopg

from bench.harness import Measurements, Workshop, at_most, benchmark, in_turns
from bench.postgres import new_database, server_url
from headway import settings
from headway.cells.directory import Directory
from headway.cells.registry import CellDraft, add_cell

CELLS = 3
TURNS, ITERATIONS = 8, 40  # of each process
ROUNDS = 5
ROOT = Path(__file__).parent.parent
REFERENCE = "the same three processes on one database"


class Cost(NamedTuple):
    """Of one iteration, on average."""

    client_ms: float  # CPU of the processes that run the turns
    server_ms: float  # CPU of Postgres
    statements: float
    commits: float  # that wrote something


class Runners:
    """A process for each URL. In a round, all of them run their turns at the same time."""

    def __init__(self, shop: Workshop, name: str, urls: Sequence[str]) -> None:
        self.processes = [self.start(shop, shop.folder / f"{name}-{number}", url) for number, url in enumerate(urls)]
        self.measure_server = partial(read_server_cpu, find_postmaster(shop.once(server_url)))
        self.costs: list[Cost] = []
        for process in self.processes:
            self.read(process)

    def start(self, shop: Workshop, folder: Path, url: str) -> "subprocess.Popen[str]":
        folder.mkdir()
        command = [sys.executable, "-m", "bench.cell_process", url, str(folder)]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        shop.cleanup.callback(process.communicate)  # the end of its input ends it
        return process

    def read(self, process: "subprocess.Popen[str]") -> dict[str, float]:
        assert process.stdout is not None
        answer: dict[str, float] = json.loads(process.stdout.readline())
        return answer

    def round(self) -> Cost:
        before = self.measure_server()
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{json.dumps([ITERATIONS, TURNS])}\n")
            process.stdin.flush()
        answers = [self.read(process) for process in self.processes]
        server_s = self.measure_server() - before
        done = (ITERATIONS + 1) * TURNS * len(self.processes)
        client_s, statements, commits = (sum(answer[name] for answer in answers) for name in ("cpu_s", "statements", "commits"))
        return Cost(client_s * 1000 / done, server_s * 1000 / done, statements / done, commits / done)

    def stop(self) -> None:
        for process in self.processes:
            process.communicate()


def find_postmaster(url: str) -> int:
    """Return the process id of the server."""
    with psycopg.connect(url) as connection:
        (backend,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        return int(read_stat(int(backend))[1])


def read_stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on. The second one may contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def read_server_cpu(postmaster: int) -> float:
    """Return the CPU seconds that the server's processes have used: those that run, and those that have ended."""
    ticks = sum(map(int, read_stat(postmaster)[11:15]))
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    for child in children:
        try:
            ticks += sum(map(int, read_stat(int(child))[11:13]))
        except FileNotFoundError:  # it has ended since
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_costs(shop: Workshop) -> tuple[list[Cost], list[Cost]]:
    """Run both sides alternately, and return what each round cost."""
    several = Runners(shop, "cells", prepare_three(shop))
    one = Runners(shop, "one", [new_database(shop)] * CELLS)
    sides: tuple[list[Cost], list[Cost]] = ([], [])

    def run(runners: Runners, costs: list[Cost]) -> float:
        costs.append(runners.round())
        return 1.0

    in_turns(partial(run, several, sides[0]), partial(run, one, sides[1]), ROUNDS)
    return sides[0][1:], sides[1][1:]  # the first round is a warm-up


def prepare_three(shop: Workshop) -> list[str]:
    urls = [new_database(shop) for _ in range(CELLS)]
    with Directory(settings.load({"home": str(shop.folder), "database_url": urls[0]})) as directory:
        for number, url in enumerate(urls):
            add_cell(directory, CellDraft(f"cell{number}", url, None, None), print, lambda work: work)
    return urls


def compare(shop: Workshop, figure: Callable[[Cost], float], unit: str) -> Measurements:
    ours, reference = shop.once(measure_costs)
    return Measurements(list(map(figure, ours)), list(map(figure, reference)), unit)


@benchmark(
    "cells.client", f"three cells, a process with {TURNS} turns each: the processes' CPU per iteration", REFERENCE, at_most(1.1)
)
def client_cpu(shop: Workshop) -> Measurements:
    return compare(shop, lambda cost: cost.client_ms, "ms")


@benchmark("cells.server", "the same: the CPU of Postgres per iteration", REFERENCE, at_most(1.1))
def server_cpu(shop: Workshop) -> Measurements:
    return compare(shop, lambda cost: cost.server_ms, "ms")


@benchmark("cells.statements", "the same: statements per iteration", REFERENCE, at_most(1.02))
def statements(shop: Workshop) -> Measurements:
    return compare(shop, lambda cost: cost.statements, "")
