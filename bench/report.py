"""The report: a table to read, a document for programs, and both written to files beside this one."""

import json
import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import apsw

from bench import draw
from bench.harness import Benchmark, Measurements
from headway.surfaces.cli.main import find_commit

HERE = Path(__file__).parent
PAGE = HERE / "RESULTS.md"
DOCUMENT = HERE.parent / ".bench" / "results.json"  # all figures of the machine that measured; not committed
PICTURE = HERE / "results.svg"
COSTS = HERE / "costs.json"
FIGURES = HERE / "figures.json"  # those that the model of an installation needs
SCALING = HERE.parent / "docs" / "internals" / "capacity.md"
TITLES = ("benchmark", "ratio", "middle half", "target", "", "ours", "reference", "workload ÷ reference")
TOKEN_TITLES = (
    "agent",
    "steps",
    "calls",
    "input",
    "output",
    "largest request",
    "cacheable",
    "bill",
    "facts in view",
    "one call away",
)


class Result(NamedTuple):
    benchmark: Benchmark
    measurements: Measurements | None
    missing: str = ""


def conditions() -> dict[str, Any]:
    """Return the machine's properties and its load. On a loaded machine both sides wait, and ratios approach 1."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "code": find_commit(),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": system_name(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "load before": round(os.getloadavg()[0], 1),
    }


def system_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def as_document(machine: dict[str, Any], results: list[Result]) -> dict[str, Any]:
    measured = {"date": machine["date"], "code": machine["code"]}
    return {"machine": machine, "benchmarks": [as_json(result) | measured for result in results]}


def as_json(result: Result) -> dict[str, Any]:
    benchmark, measurements = result.benchmark, result.measurements
    description: dict[str, Any] = {
        "name": benchmark.name,
        "workload": benchmark.workload,
        "reference": benchmark.reference,
        "target": benchmark.target and [benchmark.target.sign, benchmark.target.ratio],
    }
    if measurements is None:
        return {**description, "missing": result.missing}
    return {
        **description,
        "ratio": measurements.ratio,
        "middle_half": measurements.spread,
        "met": None if benchmark.target is None else benchmark.target.met_by(measurements.ratio),
        "unit": measurements.unit,
        "ours": measurements.medians[0],
        "against": measurements.medians[1],
        "rounds": {"ours": measurements.ours, "reference": measurements.reference},
        **({"curve": {str(size): median(figures) for size, figures in measurements.curve.items()}} if measurements.curve else {}),
        **({"rows": measurements.rows} if measurements.rows else {}),
    }


# Tables


def table(results: list[Result]) -> str:
    return aligned([TITLES, *(cells(as_json(result)) for result in results)])


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table that is also readable as plain text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def cells(benchmark: dict[str, Any]) -> tuple[str, ...]:
    target = f"{benchmark['target'][0]} {benchmark['target'][1]:g}" if benchmark["target"] else ""
    if "missing" in benchmark:
        return (benchmark["name"], "", "", target, "?", "", "", f"not measured: {benchmark['missing'].splitlines()[0]}")
    low, high = benchmark["middle_half"]
    mark = {None: "", True: "✓", False: "✗"}[benchmark["met"]]
    absolute = [f"{figure(number)} {benchmark['unit']}" for number in (benchmark["ours"], benchmark["against"])]
    comparison = f"{benchmark['workload']} ÷ {benchmark['reference']}"
    return (benchmark["name"], figure(benchmark["ratio"]), f"{figure(low)} … {figure(high)}", target, mark, *absolute, comparison)


def figure(number: float) -> str:
    """Format a number with three significant digits, which is all that a noisy machine supports."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def growth_table(document: dict[str, Any]) -> str:
    """Return a table of the measured figures by size."""
    with_curve = [benchmark for benchmark in document["benchmarks"] if benchmark.get("curve")]
    rows: list[tuple[str, ...]] = [("benchmark", "what grows, and what an operation does then")]
    for benchmark in with_curve:
        steps = ", ".join(f"{int(size):,}: {figure(value)} {benchmark['unit']}" for size, value in benchmark["curve"].items())
        rows.append((benchmark["name"], steps))
    return aligned(rows) if with_curve else ""


def tokens_table(document: dict[str, Any]) -> str:
    """Return what each agent's job cost in tokens."""
    jobs = [job for benchmark in document["benchmarks"] for job in benchmark.get("rows", [])]
    rows = [token_cells(job) for job in sorted(jobs, key=lambda job: int(job["steps"]))]
    return aligned([TOKEN_TITLES, *rows]) if rows else "Not measured yet."


def token_cells(job: dict[str, Any]) -> tuple[str, ...]:
    counts = (f"{job[name]:,}" for name in ("steps", "calls", "input", "output", "largest"))
    view = job["view"]
    facts = f"{view['codes'] + view['keepers']} of {2 * job['steps']}"
    return (job["agent"], *counts, f"{job['cacheable']:.0f} %", f"{figure(job['cents'])} ¢", facts, f"{view['one_call_away']}")


def capacity_table(document: dict[str, Any]) -> str:
    """Return what one server could do if it did nothing else: its measured rates divided by the cost of an operation."""
    known = {benchmark["name"]: benchmark for benchmark in document["benchmarks"]}
    create_rate, commit_rate = known.get("pg.create.c8", {}).get("against"), known.get("pg.create.commits", {}).get("against")
    if not create_rate or not commit_rate or not COSTS.exists():
        return "Not measured yet."
    costs = json.loads(COSTS.read_text(encoding="utf-8"))["operations"]
    statements = create_rate * costs["a todo is created"]["statements"]
    rows: list[tuple[str, ...]] = [("operation", "the server's statements allow", "its commits allow")]
    for name, cost in costs.items():
        if "second" not in name:
            by_commits = f"{figure(commit_rate / cost['commits'])} /s" if cost["commits"] >= 0.5 else "no bound"
            rows.append((name, f"{figure(statements / cost['statements'])} /s", by_commits))
    return f"{figure(statements)} statements and {figure(commit_rate)} commits a second were measured.\n\n{aligned(rows)}"


# Files


def write_down(document: dict[str, Any]) -> None:
    """Update the measured figures and leave the prose around them. A partial run updates only its own benchmarks."""
    from bench import scaling  # which uses the tables of this module
    from bench.scale_model import select_figures

    if DOCUMENT.exists():
        document = merged(json.loads(DOCUMENT.read_text(encoding="utf-8")), document)
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    FIGURES.write_text(json.dumps(select_figures(document), indent=1) + "\n", encoding="utf-8")
    PICTURE.write_text(draw.picture(document), encoding="utf-8")
    tables = {
        "machine": machine_line(document),
        "table": aligned([TITLES, *(cells(mark_other_code(document, benchmark)) for benchmark in document["benchmarks"])]),
        "growth": growth_table(document),
        "tokens": tokens_table(document),
        "short": short_line(document),
        "capacity": capacity_table(document),
    }
    for page in (PAGE, SCALING):
        text = page.read_text(encoding="utf-8")
        for name, content in tables.items():
            text = between_markers(text, name, content)
        page.write_text(with_figures(text, document), encoding="utf-8")
    scaling.write_page()


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Replace the results that were measured again, and append the results of new benchmarks."""
    new_results = {result["name"]: result for result in now["benchmarks"]}
    is_complete = all(result["name"] in new_results for result in before["benchmarks"])
    results = [new_results.pop(result["name"], result) for result in before["benchmarks"]]
    return now if is_complete else {"machine": before["machine"], "benchmarks": [*results, *new_results.values()]}


def mark_other_code(document: dict[str, Any], benchmark: dict[str, Any]) -> dict[str, Any]:
    """Let a row say so that was measured with other code than the whole table."""
    code, date = benchmark.get("code"), benchmark.get("date", "")
    is_other = code != document["machine"].get("code")
    return benchmark | {"name": f"{benchmark['name']} (of {date[:10]}, {code})"} if is_other else benchmark


def machine_line(document: dict[str, Any]) -> str:
    return "Measured on: " + ", ".join(f"{name} {value}" for name, value in document["machine"].items()) + "."


def short_line(document: dict[str, Any]) -> str:
    """Name the missed targets, so that the prose about them can be checked."""
    missed = [benchmark for benchmark in document["benchmarks"] if benchmark.get("met") is False]
    met = sum(benchmark.get("met") is True for benchmark in document["benchmarks"])
    names = ", ".join(
        f"`{benchmark['name']}` ({figure(benchmark['ratio'])}, target {benchmark['target'][0]} {benchmark['target'][1]:g})"
        for benchmark in missed
    )
    return f"{met} targets are met, {len(missed)} are missed{': ' + names if names else ''}."


def between_markers(text: str, name: str, content: str) -> str:
    """Replace the text between `<!-- measured: NAME -->` and `<!-- /measured -->`."""
    pattern = re.compile(rf"(<!-- measured: {re.escape(name)} -->\n).*?(<!-- /measured -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}\n{content}\n\n{match[2]}", text)


def with_figures(text: str, document: dict[str, Any]) -> str:
    """Replace single figures inside sentences: `<!--=NAME:ours-->651 /s<!--/-->`."""
    known = {benchmark["name"]: benchmark for benchmark in document["benchmarks"]}

    def renewed(match: "re.Match[str]") -> str:
        benchmark = known.get(match[1], {})
        value = benchmark.get(match[2])
        if value is None:
            return f"<!--={match[1]}:{match[2]}-->not measured yet<!--/-->"
        unit = "" if match[2] == "ratio" else f" {benchmark['unit']}"
        return f"<!--={match[1]}:{match[2]}-->{figure(value)}{unit}<!--/-->"

    return re.sub(r"<!--=([\w.]+):(\w+)-->.*?<!--/-->", renewed, text)
