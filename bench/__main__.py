"""`python -m bench [NAME…]`: run the benchmarks whose names start with NAME and print a table of their ratios."""

import argparse
import json
import sys
import time
from itertools import groupby
from pathlib import Path

from bench import (  # noqa: F401  importing a module registers its benchmarks
    agent_loop,
    cell_costs,
    cells,
    checkpoints,
    claims,
    cold_start,
    dispatch,
    engine_jobs,
    engine_life,
    goal_page,
    http,
    page,
    postgres,
    row_security,
    scale_events,
    scale_servers,
    store,
    strangers,
    streams,
    taskwarrior,
    tokens,
)
from bench.harness import REGISTRY, Benchmark, Pace, Unavailable, Workshop, open_workshop, progress
from bench.report import DOCUMENT, Result, as_document, conditions, figure, table, write_down

# The order of the report, independent of the order of imports.
ROOMS = (
    "store",
    "http",
    "sse",
    "pg",
    "cells",
    "scale",
    "claim",
    "loop",
    "tokens",
    "goal",
    "engine",
    "dispatch",
    "peer",
    "cli",
    "import",
    "demo",
    "page",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="run only benchmarks whose name starts with one of these")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and what they measure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    parser.add_argument("--write", action="store_true", help="update .bench/results.json, results.svg and the tables of RESULTS.md")
    parser.add_argument(
        "--trial", action="store_true", help="run one round of each, to check that all of them work; the figures mean little"
    )
    arguments = parser.parse_args()
    benchmarks = chosen_by(arguments.names)
    if arguments.trial and arguments.write:
        parser.error("--trial cannot be combined with --write")
    if arguments.write and arguments.names and not DOCUMENT.exists():
        parser.error(f"some benchmarks update the results of all, and there is no {DOCUMENT}: first run all with --write")
    if not benchmarks:
        parser.error("no benchmark has that name; --list shows them all")
    if arguments.list:
        print(listed(benchmarks))
        return
    Pace.trial = arguments.trial
    start, machine = time.monotonic(), conditions()
    results = list(run_all(benchmarks))
    machine["minutes"] = round((time.monotonic() - start) / 60, 1)
    print(table(results), "", ", ".join(f"{name}: {value}" for name, value in machine.items()), sep="\n")
    document = as_document(machine, results)
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
    if arguments.write:
        write_down(document)


def chosen_by(names: list[str]) -> list[Benchmark]:
    benchmarks = [benchmark for name, benchmark in REGISTRY.items() if not names or name.startswith(tuple(names))]
    return sorted(benchmarks, key=lambda benchmark: ROOMS.index(benchmark.room))


def listed(benchmarks: list[Benchmark]) -> str:
    return "\n".join(f"{benchmark.name:32}{benchmark.workload}  ÷  {benchmark.reference}" for benchmark in benchmarks)


def run_all(benchmarks: list[Benchmark]) -> "list[Result]":
    """Run the benchmarks room by room, so that the resources of one room are released before the next is measured."""
    results: list[Result] = []
    for _room, room_benchmarks in groupby(benchmarks, key=lambda benchmark: benchmark.room):
        with open_workshop() as shop:
            for benchmark in room_benchmarks:
                print(f"[{len(results) + 1}/{len(benchmarks)}] {benchmark.name} …", end=" ", file=sys.stderr, flush=True)
                results.append(run(benchmark, shop))
    return results


def run(benchmark: Benchmark, shop: Workshop) -> Result:
    start = time.monotonic()
    try:
        result = Result(benchmark, benchmark.measure(shop))
    except Unavailable as reason:
        result = Result(benchmark, None, str(reason))
    except Exception as error:  # noqa: BLE001  a benchmark that fails is reported in its row, and the others still run
        result = Result(benchmark, None, f"failed: {type(error).__name__}: {error}")
    progress("")
    summary = (
        f"{figure(result.measurements.ratio)} (target {benchmark.target or 'none'})"
        if result.measurements
        else f"not measured: {result.missing}"
    )
    print(f"{summary}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    main()
