"""Draws the results: every ratio against its target, and below them how costs grow. `python -m bench.draw` redraws the picture.

It is SVG written by hand, so it needs no library. It has colours for light and dark mode.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

WIDTH = 900
NAMES = 250  # where the names end and the axis begins
RIGHT = 90  # room for the figures to the right of the axis
ROW = 20
CURVES_HEIGHT = 300
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 14px; }
.faint { fill: #6e7781; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.target { stroke: #24292f; stroke-width: 1.5; }
.ground { fill: #ffffff; }
.met { fill: #1a7f37; stroke: #1a7f37; } .missed { fill: #bc4c00; stroke: #bc4c00; }
.c0 { stroke: #0969da; fill: #0969da; } .c1 { stroke: #bc4c00; fill: #bc4c00; } .c2 { stroke: #1a7f37; fill: #1a7f37; }
.c3 { stroke: #8250df; fill: #8250df; } .c4 { stroke: #bf3989; fill: #bf3989; } .c5 { stroke: #57606a; fill: #57606a; }
.c6 { stroke: #9a6700; fill: #9a6700; } .c7 { stroke: #116329; fill: #116329; }
text.curve { stroke: none; }
polyline { fill: none !important; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .faint { fill: #8d96a0; } .grid { stroke: #30363d; } .target { stroke: #e6edf3; } .ground { fill: #0d1117; }
.met { fill: #3fb950; stroke: #3fb950; } .missed { fill: #f0883e; stroke: #f0883e; }
.c0 { stroke: #58a6ff; fill: #58a6ff; } .c1 { stroke: #f0883e; fill: #f0883e; } .c2 { stroke: #3fb950; fill: #3fb950; }
.c3 { stroke: #bc8cff; fill: #bc8cff; } .c4 { stroke: #f778ba; fill: #f778ba; } .c5 { stroke: #b1bac4; fill: #b1bac4; }
.c6 { stroke: #d29922; fill: #d29922; } .c7 { stroke: #7ee787; fill: #7ee787; }
}"""
COLOURS = 8


class Axis(NamedTuple):
    """A logarithmic axis from one pixel position to another."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        within = min(max(value, self.low), self.high)
        share = math.log(within / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        """Yield 1, 2 and 5 of every decade, or only powers of ten where that would be too many."""
        steps = (1, 2, 5) if self.high / self.low <= 1_000 else (1,)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        return (
            value for power in range(first, last + 1) for step in steps if self.low <= (value := step * 10.0**power) <= self.high
        )


def picture(document: dict[str, Any]) -> str:
    with_target = [benchmark for benchmark in document["benchmarks"] if benchmark["target"] and "ratio" in benchmark]
    with_curve = [benchmark for benchmark in document["benchmarks"] if benchmark.get("curve")]
    middle = 70 + ROW * len(with_target)
    height = middle + (CURVES_HEIGHT + 90 if with_curve else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        "<title>Headway's benchmarks against their targets, and how costs grow</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        *(against_targets(with_target) if with_target else ()),
        *(growth(with_curve, middle) if with_curve else ()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def better(benchmark: dict[str, Any], ratio: float) -> float:
    """Return how much better than its target a ratio is: 1 is on target, more is better for both kinds of target."""
    sign, target = benchmark["target"]
    return float(ratio / target if sign == "≥" else target / ratio)


def against_targets(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    multiples = [better(benchmark, benchmark["ratio"]) for benchmark in benchmarks]
    axis = Axis(min(0.25, *multiples), max(4.0, *multiples), NAMES, WIDTH - RIGHT)
    bottom = 50 + ROW * len(benchmarks)
    yield text(10, 20, "How many times its target each benchmark reaches (right of the line is better)", "title")
    for tick in axis.ticks():
        yield line("target" if tick == 1 else "grid", axis.at(tick), 34, axis.at(tick), bottom)
        yield text(axis.at(tick), bottom + 14, f"{tick:g}×", "faint", "middle")
    for row, benchmark in enumerate(benchmarks):
        y = 50 + ROW * row
        kind = "met" if benchmark["met"] else "missed"
        low, high = sorted(better(benchmark, ratio) for ratio in benchmark["middle_half"])
        yield text(NAMES - 10, y + 4, benchmark["name"], "", "end")
        yield line(kind, axis.at(low), y, axis.at(high), y, 'stroke-width="4" opacity="0.45"')
        yield f'<circle class="{kind}" cx="{axis.at(better(benchmark, benchmark["ratio"])):.1f}" cy="{y}" r="4"/>'
        yield text(
            WIDTH - 10, y + 4, f"{short(benchmark['ratio'])} ({benchmark['target'][0]} {benchmark['target'][1]:g})", "faint", "end"
        )


def growth(benchmarks: list[dict[str, Any]], top: int) -> Iterator[str]:
    """Draw the cost of one operation as a multiple of its cost at the smallest size."""
    curves = [(benchmark["name"], relative_costs(benchmark)) for benchmark in benchmarks]
    costs = [cost for _, curve in curves for cost in curve.values()]
    sizes = [size for _, curve in curves for size in curve]
    bottom = top + 40 + CURVES_HEIGHT
    across, up = Axis(min(sizes), max(sizes), 60, WIDTH - 220), Axis(min(0.5, *costs), max(2.0, *costs), bottom, top + 40)
    yield text(10, top + 20, "What one operation costs as things grow (1 = at the smallest size; flat is good)", "title")
    for tick in up.ticks():
        yield line("target" if tick == 1 else "grid", across.start, up.at(tick), across.end, up.at(tick))
        yield text(across.start - 8, up.at(tick) + 4, f"{tick:g}×", "faint", "end")
    for tick in across.ticks():
        yield text(across.at(tick), bottom + 18, f"{tick:,.0f}", "faint", "middle")
    ends = sorted((up.at(list(curve.values())[-1]), number) for number, (_, curve) in enumerate(curves))
    label_heights = dict(zip((number for _, number in ends), apart([y for y, _ in ends]), strict=True))
    for number, (name, curve) in enumerate(curves):
        colour = f"c{number % COLOURS}"
        points = [(across.at(size), up.at(cost)) for size, cost in curve.items()]
        yield f'<polyline class="{colour}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        yield from (f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
        x, y = points[-1]
        yield line(colour, x + 4, y, WIDTH - 205, label_heights[number], 'stroke-dasharray="1 4" opacity="0.6"')
        yield text(WIDTH - 200, label_heights[number] + 4, f"{name} {short(list(curve.values())[-1])}×", f"{colour} curve")


def relative_costs(benchmark: dict[str, Any]) -> dict[int, float]:
    figures = {int(size): figure for size, figure in benchmark["curve"].items()}
    smallest = next(iter(figures.values()))
    return {size: smallest / figure if benchmark["unit"] == "/s" else figure / smallest for size, figure in figures.items()}


def apart(positions: list[float], distance: float = 16) -> list[float]:
    """Move positions down where they would overlap, keeping their order."""
    spaced: list[float] = []
    for position in positions:
        spaced.append(max(position, spaced[-1] + distance) if spaced else position)
    return spaced


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def line(kind: str, x1: float, y1: float, x2: float, y2: float, attributes: str = "") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


def short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


if __name__ == "__main__":
    here = Path(__file__).parent
    drawn = picture(json.loads((here.parent / ".bench" / "results.json").read_text(encoding="utf-8")))
    (here / "results.svg").write_text(drawn, encoding="utf-8")
