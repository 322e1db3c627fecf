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

HERE = Path(__file__).parent
PAGE = HERE / "RESULTS.md"
DOCUMENT = HERE / "results.json"
PICTURE = HERE / "results.svg"
COSTS = HERE / "costs.json"
SCALING = HERE.parent / "docs" / "scaling.md"
TITLES = ("benchmark", "ratio", "middle half", "target", "", "ours", "reference", "workload ÷ reference")


class Result(NamedTuple):
    benchmark: Benchmark
    taken: Measurements | None
    missing: str = ""


def conditions() -> dict[str, Any]:
    """Return the machine's properties and its load. On a loaded machine both sides wait, and ratios approach 1."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
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
    return {"machine": machine, "benchmarks": [as_json(result) for result in results]}


def as_json(result: Result) -> dict[str, Any]:
    one, taken = result.benchmark, result.taken
    said: dict[str, Any] = {
        "name": one.name,
        "workload": one.workload,
        "reference": one.reference,
        "target": one.target and [one.target.sign, one.target.ratio],
    }
    if taken is None:
        return {**said, "missing": result.missing}
    return {
        **said,
        "ratio": taken.ratio,
        "middle_half": taken.spread,
        "met": None if one.target is None else one.target.met_by(taken.ratio),
        "unit": taken.unit,
        "ours": taken.medians[0],
        "against": taken.medians[1],
        "rounds": {"ours": taken.ours, "reference": taken.reference},
        **({"curve": {str(size): median(figures) for size, figures in taken.curve.items()}} if taken.curve else {}),
    }


# Tables


def table(results: list[Result]) -> str:
    return aligned([TITLES, *(cells(as_json(result)) for result in results)])


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table that is also readable as plain text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def cells(one: dict[str, Any]) -> tuple[str, ...]:
    target = f"{one['target'][0]} {one['target'][1]:g}" if one["target"] else ""
    if "missing" in one:
        return (one["name"], "", "", target, "?", "", "", f"not measured: {one['missing'].splitlines()[0]}")
    low, high = one["middle_half"]
    met = {None: "", True: "✓", False: "✗"}[one["met"]]
    absolute = [f"{figure(number)} {one['unit']}" for number in (one["ours"], one["against"])]
    words = f"{one['workload']} ÷ {one['reference']}"
    return (one["name"], figure(one["ratio"]), f"{figure(low)} … {figure(high)}", target, met, *absolute, words)


def figure(number: float) -> str:
    """Format a number with three significant digits, which is all that a noisy machine supports."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def growth_table(document: dict[str, Any]) -> str:
    """Return a table of the measured figures by size."""
    grown = [one for one in document["benchmarks"] if one.get("curve")]
    rows: list[tuple[str, ...]] = [("benchmark", "what grows, and what an operation does then")]
    for one in grown:
        steps = ", ".join(f"{int(size):,}: {figure(value)} {one['unit']}" for size, value in one["curve"].items())
        rows.append((one["name"], steps))
    return aligned(rows) if grown else ""


def capacity_table(document: dict[str, Any]) -> str:
    """Return what one server could do if it did nothing else: its measured rates divided by the cost of an operation."""
    known = {one["name"]: one for one in document["benchmarks"]}
    same, least = known.get("pg.create.c8", {}).get("against"), known.get("pg.create.commits", {}).get("against")
    if not same or not least or not COSTS.exists():
        return "Not measured yet."
    costs = json.loads(COSTS.read_text(encoding="utf-8"))["operations"]
    statements = same * costs["a todo is created"]["statements"]
    rows: list[tuple[str, ...]] = [("operation", "the server's statements allow", "its commits allow")]
    for name, one in costs.items():
        if "second" not in name:
            by_commits = f"{figure(least / one['commits'])} /s" if one["commits"] >= 0.5 else "no bound"
            rows.append((name, f"{figure(statements / one['statements'])} /s", by_commits))
    return f"{figure(statements)} statements and {figure(least)} commits a second were measured.\n\n{aligned(rows)}"


# Files


def write_down(document: dict[str, Any]) -> None:
    """Update the measured figures and leave the prose around them. A partial run updates only its own benchmarks."""
    if DOCUMENT.exists():
        document = merged(json.loads(DOCUMENT.read_text(encoding="utf-8")), document)
    DOCUMENT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PICTURE.write_text(draw.picture(document), encoding="utf-8")
    tables = {
        "machine": machine_line(document),
        "table": aligned([TITLES, *(cells(one) for one in document["benchmarks"])]),
        "growth": growth_table(document),
        "short": short_line(document),
        "capacity": capacity_table(document),
    }
    for page in (PAGE, SCALING):
        text = page.read_text(encoding="utf-8")
        for name, words in tables.items():
            text = between_markers(text, name, words)
        page.write_text(with_figures(text, document), encoding="utf-8")


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Replace the results that were measured again, and append those of new benchmarks."""
    renewed = {one["name"]: one for one in now["benchmarks"]}
    whole = all(one["name"] in renewed for one in before["benchmarks"])
    kept = [renewed.pop(one["name"], one) for one in before["benchmarks"]]
    return now if whole else {"machine": before["machine"], "benchmarks": [*kept, *renewed.values()]}


def machine_line(document: dict[str, Any]) -> str:
    return "Measured on: " + ", ".join(f"{name} {value}" for name, value in document["machine"].items()) + "."


def short_line(document: dict[str, Any]) -> str:
    """Name the missed targets, so that the prose about them can be checked."""
    missed = [one for one in document["benchmarks"] if one.get("met") is False]
    met = sum(one.get("met") is True for one in document["benchmarks"])
    named = ", ".join(f"`{one['name']}` ({figure(one['ratio'])}, target {one['target'][0]} {one['target'][1]:g})" for one in missed)
    return f"{met} targets are met, {len(missed)} are missed{': ' + named if named else ''}."


def between_markers(text: str, name: str, words: str) -> str:
    """Replace the text between `<!-- measured: NAME -->` and `<!-- /measured -->`."""
    pattern = re.compile(rf"(<!-- measured: {re.escape(name)} -->\n).*?(<!-- /measured -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}\n{words}\n\n{found[2]}", text)


def with_figures(text: str, document: dict[str, Any]) -> str:
    """Replace single figures inside sentences: `<!--=NAME:ours-->651 /s<!--/-->`."""
    known = {one["name"]: one for one in document["benchmarks"]}

    def renewed(found: "re.Match[str]") -> str:
        one = known.get(found[1], {})
        value = one.get(found[2])
        if value is None:
            return f"<!--={found[1]}:{found[2]}-->not measured yet<!--/-->"
        unit = "" if found[2] == "ratio" else f" {one['unit']}"
        return f"<!--={found[1]}:{found[2]}-->{figure(value)}{unit}<!--/-->"

    return re.sub(r"<!--=([\w.]+):(\w+)-->.*?<!--/-->", renewed, text)
