"""The table of results, on the terminal and in docs/internals/proof.md."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.cluster import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "proof.md"
BEGIN, END = "<!-- cluster -->", "<!-- /cluster -->"
HEAD = ("fault", "lost", "doubled", "unknown", "finished by itself", "seconds")


def format_row(title: str, outcome: Outcome) -> str:
    """A line of the table; what went wrong instead of "yes"."""
    wrong = [*outcome.unfinished, *outcome.failed]
    finished = f"**no**: {len(wrong)} of 8" if wrong else "yes"
    cells = (title, len(outcome.lost), len(outcome.doubled), len(outcome.unknown), finished, f"{outcome.seconds:.0f}")
    return format_line(*map(str, cells))


def format_skipped(title: str, reason: str) -> str:
    return format_line(title, "–", "–", "–", f"not run: {reason}", "–")


def format_line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def render(rows: Mapping[str, str], order: list[str]) -> str:
    lines = [format_line(*HEAD), "|---|---|---|---|---|---|", *(rows[title] for title in order if title in rows)]
    return "\n".join(lines)


def read_rows() -> dict[str, str]:
    """The lines that the page has now, by title."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    lines = [line for line in rest.partition(END)[0].splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines[1:]}


def write(rows: Mapping[str, str], order: list[str]) -> None:
    """Replace the lines of these rows in the page and keep the others."""
    page = PAGE.read_text(encoding="utf-8")
    table = render({**read_rows(), **rows}, order)
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{table}\n\n{END}", page, flags=re.DOTALL), encoding="utf-8")
