"""The lines of a file that are most similar to a text that does not occur in it. They show a model what to correct."""

from bisect import bisect_right
from collections.abc import Callable
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import accumulate
from typing import Final

LINES_LIMIT: Final = 5_000  # lines that are compared with the first line of the text
CANDIDATES: Final = 20
SHOWN_LINES: Final = 10
SHOWN_WIDTH: Final = 200
LEAST_SIMILARITY: Final = 0.6


def describe_closest(content: str, wanted: str) -> str:
    lines = content.split("\n")
    if found := find_without_whitespace(lines, wanted):
        return f"These lines differ from it only in whitespace:\n{show_lines(lines, found)}"
    wanted_lines = wanted.strip().split("\n")
    start = find_most_similar(lines, wanted_lines[0]) if wanted_lines[0] else None
    if start is None:
        return "No line is similar to its first line. Read the file again."
    return f"The most similar lines are:\n{show_lines(lines, range(start, start + len(wanted_lines)))}"


def find_without_whitespace(lines: list[str], wanted: str) -> range:
    """Return the lines that contain a text if whitespace is ignored."""
    squeezed = squeeze(wanted)
    squeezed_lines = [squeeze(line) for line in lines]
    start = "".join(squeezed_lines).find(squeezed) if squeezed else -1
    if start < 0:
        return range(0)
    starts = list(accumulate(map(len, squeezed_lines), initial=0))
    return range(bisect_right(starts, start) - 1, bisect_right(starts, start + len(squeezed) - 1))


def squeeze(line: str) -> str:
    return "".join(line.split())


def find_most_similar(lines: list[str], wanted: str) -> int | None:
    """Return the most similar line. Only the lines that share most letters are compared exactly, which takes milliseconds each."""
    matcher = SequenceMatcher(b=wanted.strip()[:SHOWN_WIDTH], autojunk=False)

    def rate(number: int, rating: Callable[[], float]) -> float:
        matcher.set_seq1(lines[number].strip()[:SHOWN_WIDTH])
        return rating()

    candidates = nlargest(CANDIDATES, range(min(len(lines), LINES_LIMIT)), key=lambda number: rate(number, matcher.quick_ratio))
    similarity, best = max((rate(number, matcher.ratio), -number) for number in candidates)
    return -best if similarity > LEAST_SIMILARITY else None


def show_lines(lines: list[str], numbers: range) -> str:
    shown = [number for number in numbers[:SHOWN_LINES] if number < len(lines)]
    return "\n".join(f"{number + 1}: {lines[number][:SHOWN_WIDTH]}" for number in shown)
