"""`python -m bench.scaling [--set NAME=VALUE …] [--write]`: print the model of scale_model.py, or write it into capacity.md."""

import argparse
import json
import math
from pathlib import Path

from bench.report import COSTS, FIGURES, SCALING, aligned, between_markers, figure
from bench.scale_model import MEANINGS, Assumptions, Model, NotMeasured, Plan, list_walls, plan_installation, read_measurements

SIZES = (1, 64, 1_000, 10_000, 100_000, 1_000_000)


def render_plans(plans: list[Plan]) -> str:
    titles = (
        *("agents", "iterations", "jobs", "processes", "cells", "server cores", "stored a day", "log", "to models", "to readers"),
        *("infrastructure", "models"),
    )
    rows = [
        (
            f"{plan.agents:,}",
            f"{figure(plan.iterations_per_s)} /s",
            f"{figure(plan.jobs_per_s)} /s",
            f"{plan.processes:,}",
            f"{plan.cells:,}",
            f"{plan.server_cores:,}",
            f"{figure(plan.stored_gb_per_day)} GB",
            f"{figure(plan.log_mb_per_s)} MB/s",
            f"{figure(plan.models_mb_per_s)} MB/s",
            f"{figure(plan.readers_mb_per_s)} MB/s",
            f"${figure(plan.infrastructure_usd_per_h)} /h",
            f"${figure(plan.models_usd_per_h)} /h",
        )
        for plan in plans
    ]
    return aligned([titles, *rows])


def render_walls(model: Model) -> str:
    titles = ("wall", "reached at", "what moves it")
    agents, name = model.find_limit()
    cell = model.plan_cell(agents)
    shares = (cell.work_cores, cell.idle_cores, cell.heard_cores)
    work, idle, heard = (f"{100 * share / cell.server_cores:.0f} %" for share in shares)
    sentence = (
        f"So a cell carries {agents:,} agents, in {cell.processes:,} processes. It is limited by {name}. The server spends {work} "
        f"of its processor time on the agents' work, {heard} on processes that look for jobs after an announcement, and {idle} "
        f"on what every process does without work. A process uses {100 * cell.client_cores / cell.processes:.0f} % of a core."
    )
    table = aligned([titles, *((wall.name, f"{round_down(wall.agents):,} agents", wall.moved_by) for wall in list_walls(model))])
    return f"{table}\n\n{sentence}"


def render_assumptions(assumed: Assumptions) -> str:
    rows = [(f"`{name}`", f"{value:,g}", MEANINGS[name]) for name, value in assumed._asdict().items()]
    return aligned([("assumption", "value", "meaning"), *rows])


def round_down(number: float) -> int:
    """Return two significant digits: an assumption has no more."""
    step = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return int(number // step * step)


def render_sections(model: Model) -> dict[str, str]:
    return {
        "model": render_plans([plan_installation(model, size) for size in SIZES]),
        "walls": render_walls(model),
        "assumptions": render_assumptions(model.assumed),
    }


def read_model(assumed: Assumptions | None = None) -> Model:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in (FIGURES, COSTS)]
    return Model(read_measurements(*documents), assumed or Assumptions())


def write_page(page: Path = SCALING) -> None:
    """Update the model in docs/internals/capacity.md. It also names the figures that were not measured yet."""
    text = page.read_text(encoding="utf-8")
    try:
        sections = render_sections(read_model())
    except NotMeasured as missing:
        sections = dict.fromkeys(("model", "walls"), str(missing))
    for name, content in sections.items():
        text = between_markers(text, name, content)
    page.write_text(text, encoding="utf-8")


def parse_assumption(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if name not in MEANINGS:
        raise argparse.ArgumentTypeError(f"there is no assumption {name!r}; they are {', '.join(MEANINGS)}")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0) and not (name == "heard" and number == 0):
        raise argparse.ArgumentTypeError(f"{name} must be a number above 0, such as {name}={getattr(Assumptions(), name):g}")
    return name, number


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    help_text = "replace an assumption, such as iteration_s=5 (repeatable)"
    parser.add_argument("--set", action="append", type=parse_assumption, default=[], metavar="NAME=VALUE", help=help_text)
    parser.add_argument("--write", action="store_true", help="update docs/internals/capacity.md")
    arguments = parser.parse_args()
    if arguments.write and arguments.set:
        parser.error("--set cannot be combined with --write: the page has the usual assumptions")
    try:
        model = read_model(Assumptions()._replace(**dict(arguments.set)))
    except NotMeasured as missing:
        parser.exit(1, f"{missing}\n")
    print(*render_sections(model).values(), sep="\n\n")
    if arguments.write:
        write_page()


if __name__ == "__main__":
    main()
