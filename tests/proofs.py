"""The torture programme: tests with a variable number of trials, and the table of their results.

`make test` runs a share of the trials; `make torture` (pytest --torture) runs all of them and prints the table. Such a test is
marked `proof`, and asks for its number of trials:

    @pytest.mark.proof
    def test_nothing_acknowledged_is_lost_when_the_power_fails(proof: Proof) -> None:
        for seed in proof.seeds("power loss", share=400, whole=20_000):
            ...

A test that kills processes is marked `kill_points` instead, and gets the points before which to kill as its argument `points`.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pytest

ROW = "proof"  # the property of a test's report that holds its trials
Row = tuple[str, int, bool, float]


class Proof:
    """The number of trials of a test, and its line in the table."""

    def __init__(self, whole: bool, record: Callable[[str, object], None]) -> None:
        self.whole = whole
        self._record = record

    def trials(self, what: str, share: int, whole: int) -> int:
        """The number of trials to run: the share, or the whole."""
        trials = whole if self.whole else share
        self.tried(what, trials)
        return trials

    def tried(self, what: str, trials: int) -> None:
        """Record the trials of a test that finds their number itself."""
        self._record(ROW, json.dumps([what, trials]))

    def seeds(self, what: str, share: int, whole: int) -> Iterator[int]:
        """The seeds of the trials, the same in every run, so that a failure can be repeated."""
        return iter(range(self.trials(what, share, whole)))


@pytest.fixture
def proof(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Proof:
    return Proof(request.config.getoption("torture"), record_property)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--torture", action="store_true", help="try what is marked proof as often as `make torture` does")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the tests that kill processes. Hundreds of tests that only `make torture` runs are not created for other runs."""
    if marker := metafunc.definition.get_closest_marker("kill_points"):
        series = list_points(**marker.kwargs, whole=metafunc.config.getoption("torture"))
        metafunc.parametrize("points", series, ids=[str(points[0]) for points in series])


def list_points(stride: int, *, step: int = 1, share: Sequence[int] = (1,), whole: bool) -> list[Sequence[int]]:
    """The points of each test: the share in one test, or all of them, or every `step`-th, `stride` apart in each test.

    The test ends at the first point that its process does not reach.
    """
    return [range(first, sys.maxsize, stride) for first in range(1, stride + 1, step)] if whole else [share]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests whose examples Hypothesis generates: `make torture` tries more examples of each."""
    if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
        item.add_marker("property")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("torture"):
        terminalreporter.section("the torture programme")
        for line in table(rows(terminalreporter)):
            terminalreporter.write_line(line)


def rows(reporter: Any) -> Iterator[Row]:
    for outcome, holds in (("passed", True), ("failed", False)):
        for report in reporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                if name == ROW and report.when == "call":
                    what, trials = json.loads(value)
                    yield what, trials, holds, report.duration


def table(results: Iterator[Row]) -> Iterator[str]:
    """One line per kind of trial, summed over the tests that ran it."""
    yield f"{'what was tried':<72} {'trials':>9} {'seconds':>8}  held"
    for what, group in groupby(sorted(results), key=lambda row: row[0]):
        tried = list(group)
        held = "yes" if all(row[2] for row in tried) else "NO"
        yield f"{what:<72} {sum(row[1] for row in tried):>9,} {sum(row[3] for row in tried):>8.0f}  {held}"
