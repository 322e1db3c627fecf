"""Turns the rows of all runs into tables. Intervals resample the tasks, because runs of one task resemble each other."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from statistics import fmean
from typing import Any, Final, NamedTuple

from bench.effect.systems import PLAIN, SYSTEMS
from bench.effect.task_list import TASKS
from bench.effect.tasks import TASK_SETS

Row = dict[str, Any]
RESAMPLES: Final = 2_000
SEED: Final = 7
SECTION_START: Final = "## Set "


class Figure(NamedTuple):
    """A mean over tasks with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float

    def as_percent(self) -> str:
        return f"{100 * self.value:.0f} ({100 * self.low:.0f}–{100 * self.high:.0f})"

    def as_points(self) -> str:
        return f"{100 * self.value:+.0f} ({100 * self.low:+.0f} to {100 * self.high:+.0f})"


Measure = Callable[[Sequence[Row]], float]


def measure_items(rows: Sequence[Row]) -> float:
    return fmean(row["done"] / row["possible"] for row in rows)


def measure_whole(rows: Sequence[Row]) -> float:
    return fmean(is_whole(row) for row in rows)


def is_whole(row: Row) -> bool:
    return bool(row["done"] == row["possible"] and not row["invented"])


def measure_false(rows: Sequence[Row]) -> float:
    return fmean(row["verdict"] == "false done" for row in rows)


def measure_admitted(rows: Sequence[Row]) -> float:
    return fmean(bool(row["admits"]) for row in rows)


def measure_tokens(rows: Sequence[Row]) -> float:
    return fmean(row["input_tokens"] for row in rows)


def by_task(rows: Iterable[Row], measure: Measure) -> dict[str, float]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["task"]].append(row)
    return {task: measure(group) for task, group in sorted(groups.items())}


@cache
def draw_samples(count: int) -> list[list[int]]:
    source = random.Random(SEED)
    return [source.choices(range(count), k=count) for _ in range(RESAMPLES)]


def estimate(values: Sequence[float]) -> Figure:
    if not values:
        return Figure(0.0, 0.0, 0.0)
    means = sorted(sum(values[place] for place in sample) / len(values) for sample in draw_samples(len(values)))
    return Figure(fmean(values), means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)])


def compare(ours: Iterable[Row], theirs: Iterable[Row], measure: Measure) -> Figure:
    """Estimate a difference over the tasks that both have."""
    first, second = by_task(ours, measure), by_task(theirs, measure)
    return estimate([first[task] - second[task] for task in first if task in second])


class SystemFigures(NamedTuple):
    title: str
    whole: Figure
    false: Figure


def group_rows(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["system"]].append(row)
    return {name: groups[name] for name in SYSTEMS if name in groups}


def select_work(rows: Iterable[Row]) -> list[Row]:
    """Leave out the tasks with an impossible item, which have their own columns."""
    return [row for row in rows if row["kind"] != "impossible"]


def list_figures(rows: Iterable[Row]) -> list[SystemFigures]:
    return [
        SystemFigures(
            SYSTEMS[name].title,
            estimate([*by_task(select_work(group), measure_whole).values()]),
            estimate([*by_task(select_work(group), measure_false).values()]),
        )
        for name, group in group_rows(rows).items()
        if select_work(group)
    ]


def write_report(rows: Sequence[Row]) -> str:
    """Write the tables of each set, model and arm that the rows have."""
    sections: list[str] = []
    keys = sorted(
        {(row["set"], row["model"], row["arm"]) for row in rows},
        key=lambda key: (TASK_SETS.index(key[0]), key[1], key[2] != "repair"),
    )
    for task_set, model, arm in keys:
        chosen = [row for row in rows if (row["set"], row["model"], row["arm"]) == (task_set, model, arm)]
        tasks = {row["task"] for row in chosen}
        items = sum(len(TASKS[task].items) for task in tasks)
        title = f"## Set `{task_set}`, {model}, arm `{arm}`: {len(tasks)} tasks with {items} items, {len(chosen)} runs"
        sections += [title, write_main_table(chosen), write_differences(chosen), write_kinds(chosen)]
    return "\n\n".join(section for section in sections if section) + "\n"


def merge_sections(page: str, report: str) -> str:
    """Put the sections of a report into a page of earlier results, in place of sections of the same set, model and arm."""
    sections = {get_key(section): section for section in split_sections(page)} | {
        get_key(section): section for section in split_sections(report)
    }
    return "\n\n".join(sections[key] for key in sorted(sections, key=lambda key: "`fresh`" not in key)) + "\n"


def split_sections(page: str) -> list[str]:
    return [f"{SECTION_START}{section.strip()}" for section in page.split(f"\n{SECTION_START}")[1:]]


def get_key(section: str) -> str:
    """Return the set, model and arm of a section's title."""
    return section.partition("\n")[0].partition(": ")[0]


def write_main_table(rows: Sequence[Row]) -> str:
    lines = [
        "| system | runs | items done % | whole tasks % | false done % | whole tasks reported | impossible admitted % | calls "
        "| tokens in | tokens out | seconds | limit, timeout, error |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, group in group_rows(rows).items():
        work = select_work(group)
        hard = [row for row in group if row["kind"] == "impossible"]
        whole = [row for row in work if is_whole(row)]
        reported = f"{sum(row['verdict'] == 'done' for row in whole)} of {len(whole)}"
        means = [fmean(row[field] for row in group) for field in ("calls", "input_tokens", "output_tokens", "wall_s")]
        ends = [str(sum(row["end"] in names for row in group)) for names in (("limit",), ("timeout",), ("failed", "error"))]
        cells = [
            SYSTEMS[name].title,
            str(len(group)),
            *(
                estimate([*by_task(work, measure).values()]).as_percent()
                for measure in (measure_items, measure_whole, measure_false)
            ),
            reported,
            f"{100 * measure_admitted(hard):.0f}" if hard else "–",
            f"{means[0]:.1f}",
            *(f"{mean:,.0f}" for mean in means[1:3]),
            f"{means[3]:.1f}",
            ", ".join(ends),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_differences(rows: Sequence[Row]) -> str:
    """Compare everything of ours with the best peer and with the plain loop."""
    groups = {name: select_work(group) for name, group in group_rows(rows).items()}
    peers = [name for name in groups if SYSTEMS[name].is_peer and groups[name]]
    if not peers:
        return ""
    best = max(peers, key=lambda name: fmean(by_task(groups[name], measure_whole).values()))
    references = dict.fromkeys([best, *([PLAIN] if PLAIN in groups else [])])
    lines = ["| difference in points | items done | whole tasks | false done | tokens in |", "|---|---|---|---|---|"]
    for name, group in groups.items():
        for reference in references if not SYSTEMS[name].is_peer and group else ():
            figures = [
                compare(group, groups[reference], measure).as_points() for measure in (measure_items, measure_whole, measure_false)
            ]
            ratio = measure_tokens(group) / max(1.0, measure_tokens(groups[reference]))
            mark = " (best peer)" if reference == best else ""
            lines.append(f"| {SYSTEMS[name].title} − {SYSTEMS[reference].title}{mark} | {' | '.join(figures)} | {ratio:.1f}× |")
    return "\n".join(lines) if len(lines) > 2 else ""


def write_kinds(rows: Sequence[Row]) -> str:
    kinds = list(dict.fromkeys(task.kind for task in TASKS.values() if any(row["task"] == task.name for row in rows)))
    lines = [f"| whole tasks % by kind | {' | '.join(kinds)} |", f"|---|{'---|' * len(kinds)}"]
    for name, group in group_rows(rows).items():
        shares = [[is_whole(row) for row in group if row["kind"] == kind] for kind in kinds]
        lines.append(f"| {SYSTEMS[name].title} | {' | '.join(f'{100 * fmean(share):.0f}' if share else '–' for share in shares)} |")
    return "\n".join(lines)
