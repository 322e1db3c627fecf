"""`python -m bench [NAME…] [--list] [--json]`: run the benchmarks whose names start so, and print their ratios."""

import argparse
import json
import os
import platform
import sys
import time
from typing import Any, NamedTuple

from bench import agent_loop, claims, cold_start, engine_room, http, page, peers, postgres, store, streams  # noqa: F401  modules register their benchmarks
from bench.harness import REGISTRY, Benchmark, Measurements, Unavailable, Workshop, open_workshop, progress


class Result(NamedTuple):
    benchmark: Benchmark
    taken: Measurements | None
    missing: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="run those whose name starts with one of these")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and what they measure")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    chosen = [one for name, one in REGISTRY.items() if not arguments.names or name.startswith(tuple(arguments.names))]
    if not chosen:
        parser.error("no benchmark has such a name; --list shows them")
    if arguments.list:
        print(listed(chosen))
        return
    machine = conditions()
    with open_workshop() as shop:
        results = [run(one, shop) for one in chosen]
    if arguments.json:
        print(json.dumps({"machine": machine, "benchmarks": [as_json(result) for result in results]}, indent=2, ensure_ascii=False))
    else:
        print(table(results), "", ", ".join(f"{name}: {value}" for name, value in machine.items()), sep="\n")


def run(one: Benchmark, shop: Workshop) -> Result:
    began = time.monotonic()
    try:
        result = Result(one, one.measure(shop))
        summary = f"{figure(result.taken.ratio)} (target {one.target or 'none'})" if result.taken else ""
    except Unavailable as reason:
        result = Result(one, None, str(reason))
        summary = str(reason)
    progress("")
    print(f"{one.name}: {summary}, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return result


def listed(chosen: list[Benchmark]) -> str:
    return "\n".join(f"{one.name:32}{one.workload}  ÷  {one.reference}" for one in chosen)


def table(results: list[Result]) -> str:
    """A Markdown table, aligned, so that it reads well here and in RESULTS.md."""
    head = ("benchmark", "ratio", "middle half", "target", "", "ours", "reference", "workload ÷ reference")
    rows = [head, *(cells(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def cells(result: Result) -> tuple[str, ...]:
    one, taken = result.benchmark, result.taken
    target = str(one.target or "")
    words = f"{one.workload} ÷ {one.reference}"
    if taken is None:
        return (one.name, "", "", target, "?", "", "", f"not measured: {result.missing}")
    low, high = taken.spread
    met = "" if one.target is None else "✓" if one.target.met_by(taken.ratio) else "✗"
    absolute = [f"{figure(number)} {taken.unit}" for number in taken.medians]
    return (one.name, figure(taken.ratio), f"{figure(low)} … {figure(high)}", target, met, *absolute, words)


def figure(number: float) -> str:
    """Three digits that matter, no more than a noisy machine can tell."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def conditions() -> dict[str, str | int | float | None]:
    """What it ran on, and how busy that was with other things: on a loaded machine both sides wait, and ratios draw near 1."""
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load before": round(os.getloadavg()[0], 1),
    }


def as_json(result: Result) -> dict[str, Any]:
    one, taken = result.benchmark, result.taken
    said = {
        "name": one.name,
        "workload": one.workload,
        "reference": one.reference,
        "target": one.target and str(one.target),
    }
    if taken is None:
        return {**said, "missing": result.missing}
    return {
        **said,
        "ratio": taken.ratio,
        "middle_half": taken.spread,
        "met": one.target and one.target.met_by(taken.ratio),
        "unit": taken.unit,
        "ours": taken.ours,
        "reference_figures": taken.reference,
    }


if __name__ == "__main__":
    main()
