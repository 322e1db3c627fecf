"""The command line from a standing start: whole processes, against an interpreter that does nothing."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.harness import Measurements, Unavailable, Workshop, at_most, benchmark, in_turns

RUNS = 2
NOTHING = "python -c pass"


@benchmark("cli.cold.add", "`headway todo add`, the whole process", NOTHING, at_most(6))
def add(shop: Workshop) -> Measurements:
    return against_nothing(shop, "todo", "add", "write the quarterly report")


@benchmark("cli.cold.list", "`headway todo list` of 20, the whole process", NOTHING, at_most(6))
def list_(shop: Workshop) -> Measurements:
    for _ in range(20):
        run_headway(shop, "cold", "todo", "add", "write the quarterly report")
    return against_nothing(shop, "todo", "list")


def against_nothing(shop: Workshop, *arguments: str) -> Measurements:
    nothing = partial(subprocess.run, [sys.executable, "-c", "pass"], env=environment(shop), check=True)
    return in_turns(
        partial(milliseconds, partial(run_headway, shop, "cold", *arguments)), partial(milliseconds, nothing), unit="ms"
    )


def milliseconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(RUNS):
        run()
    return (time.perf_counter() - began) * 1000 / RUNS


def run_headway(shop: Workshop, home: str, *arguments: str) -> None:
    command = [str(Path(sys.executable).with_name("headway")), "--home", str(shop.folder / home), *arguments]
    done = subprocess.run(command, env=environment(shop), capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"headway {' '.join(arguments[:2])} does not work: {done.stderr.strip().splitlines()[-1]}")


def environment(shop: Workshop) -> dict[str, str]:
    """As an installed program has it: with bytecode to start from. (It is kept here; the first round writes it.)"""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPYCACHEPREFIX": str(shop.folder / "bytecode")}
