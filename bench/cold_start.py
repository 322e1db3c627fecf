"""Cold starts of the command line: whole processes, compared with an interpreter that does nothing."""

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
IMPORT_LIMIT_MS = 150.0
DEMO_LIMIT_S = 60.0


@benchmark("cli.cold.add", "`headway todo add`, the whole process", NOTHING, at_most(6.5))
def add(shop: Workshop) -> Measurements:
    return against_nothing(shop, "todo", "add", "write the quarterly report")


@benchmark("cli.cold.list", "`headway todo list` of 20, the whole process", NOTHING, at_most(6.5))
def list_(shop: Workshop) -> Measurements:
    for _ in range(20):
        run_headway(shop, "cold", "todo", "add", "write the quarterly report")
    return against_nothing(shop, "todo", "list")


@benchmark("import.headway", "`import headway` in a fresh interpreter", "150 ms", at_most(1))
def library(shop: Workshop) -> Measurements:
    return in_turns(partial(importing, shop, "headway"), lambda: IMPORT_LIMIT_MS, 9, "ms")


@benchmark(
    "import.models", "what an agent needs, in a fresh interpreter (`headway.agents.models.client`)", "pydantic-ai alone", None
)
def model_layer(shop: Workshop) -> Measurements:
    return in_turns(
        partial(importing, shop, "headway.agents.models.client"), partial(importing, shop, "pydantic_ai.direct"), 9, "ms"
    )


@benchmark("demo.time", "`headway demo`: a plan, a goal with sub-agents, a process killed and the recovery", "60 s", at_most(1))
def demo(shop: Workshop) -> Measurements:
    start = time.perf_counter()
    run_headway(shop, "demo", "demo")
    return Measurements([time.perf_counter() - start], [DEMO_LIMIT_S], "s")


def importing(shop: Workshop, module: str) -> float:
    """Return the milliseconds that an import takes, without the start of the interpreter."""
    script = f"import time; began = time.perf_counter(); import {module}; print((time.perf_counter() - began) * 1000)"
    ran = subprocess.run([sys.executable, "-c", script], env=environment(shop), capture_output=True, text=True, check=True)
    return float(ran.stdout)


def against_nothing(shop: Workshop, *arguments: str) -> Measurements:
    nothing = partial(subprocess.run, [sys.executable, "-c", "pass"], env=environment(shop), check=True)
    return in_turns(
        partial(milliseconds, partial(run_headway, shop, "cold", *arguments)), partial(milliseconds, nothing), unit="ms"
    )


def milliseconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(RUNS):
        run()
    return (time.perf_counter() - start) * 1000 / RUNS


def run_headway(shop: Workshop, home: str, *arguments: str) -> None:
    command = [str(Path(sys.executable).with_name("headway")), *arguments]
    surroundings = {**environment(shop), "HEADWAY_HOME": str(shop.folder / home)}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"headway {' '.join(arguments[:2])} does not work: {done.stderr.strip().splitlines()[-1]}")


def environment(shop: Workshop) -> dict[str, str]:
    """Return an environment with cached bytecode, as an installed program has. The first round writes the cache."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPYCACHEPREFIX": str(shop.folder / "bytecode")}
