"""A benchmark is a ratio: Headway against a named reference, measured alternately.

Machines are noisy, but noise that outlasts a round disturbs both sides of it alike. So the sides alternate, and the
figure is the median of the ratios taken round by round.

To add one, decorate a function in a module of this package that `bench.__main__` imports:

    @benchmark("store.create", "one caller, a durable commit each", "a bare loop of the same SQL", at_least(0.7))
    def create(shop: Workshop) -> Measurements:
        return in_turns(one_round_of_ours, one_round_of_the_reference)
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, TypeVar

T = TypeVar("T")

ROUNDS = 25


class Target(NamedTuple):
    sign: Literal["≥", "≤"]
    ratio: float

    def met_by(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.sign == "≥" else ratio <= self.ratio

    def __str__(self) -> str:
        return f"{self.sign} {self.ratio:g}"


def at_least(ratio: float) -> Target:
    return Target("≥", ratio)


def at_most(ratio: float) -> Target:
    return Target("≤", ratio)


class Measurements(NamedTuple):
    """One figure per round and side, all in the same unit: a rate or a time. A curve holds figures by size, in that unit."""

    ours: list[float]
    reference: list[float]
    unit: str = "/s"
    curve: Mapping[int, list[float]] | None = None  # figures by size, the smallest first
    rows: list[dict[str, Any]] | None = None  # rows of a separate table

    @property
    def ratios(self) -> list[float]:
        return sorted(ours / reference for ours, reference in zip(self.ours, self.reference, strict=True))

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def medians(self) -> tuple[float, float]:
        return median(self.ours), median(self.reference)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the ratios between which the middle half of the rounds lies."""
        ratios = self.ratios
        quarter = len(ratios) // 4
        return ratios[quarter], ratios[-1 - quarter]


class Unavailable(Exception):
    """A benchmark lacks something it needs. The message says how to get it."""


class Workshop:
    """Resources that the benchmarks of one room share: a folder, and things that are slow to create."""

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        self.folder = folder
        self.cleanup = cleanup
        self._resources: dict[Callable[[Workshop], object], object] = {}

    def once(self, make: Callable[["Workshop"], T]) -> T:
        """Return what `make` returns, and call it only once."""
        if make not in self._resources:
            self._resources[make] = make(self)
        return self._resources[make]  # type: ignore[return-value]  # the value was made by this function


@contextmanager
def open_workshop() -> Iterator[Workshop]:
    with TemporaryDirectory(prefix="hw-bench-") as folder, ExitStack() as cleanup:
        yield Workshop(Path(folder), cleanup)


class Benchmark(NamedTuple):
    name: str
    workload: str
    reference: str
    target: Target | None  # None: recorded, without a target
    measure: Callable[[Workshop], Measurements]

    @property
    def room(self) -> str:
        """The first part of the name. Benchmarks of one room run together and share their resources."""
        return self.name.partition(".")[0]


REGISTRY: dict[str, Benchmark] = {}


def benchmark(
    name: str, workload: str, reference: str, target: Target | None
) -> Callable[[Callable[[Workshop], Measurements]], Callable[[Workshop], Measurements]]:
    def register(measure: Callable[[Workshop], Measurements]) -> Callable[[Workshop], Measurements]:
        REGISTRY[name] = Benchmark(name, workload, reference, target, measure)
        return measure

    return register


class Pace:
    """Limits the number of rounds, and the size of what takes long. A trial takes one round, to see that everything runs."""

    trial = False

    @classmethod
    def rounds(cls, usual: int) -> int:
        return 1 if cls.trial else usual

    @classmethod
    def size(cls, usual: T, trial: T) -> T:
        return trial if cls.trial else usual


def in_turns(
    ours: Callable[[], float], reference: Callable[[], float], rounds: int = ROUNDS, unit: str = "/s", *, warm: bool = True
) -> Measurements:
    """Measure both sides alternately. Each callable does one round and returns its figure. The first round is a warm-up."""
    measurements = Measurements([], [], unit)
    alternately([(ours, measurements.ours), (reference, measurements.reference)], rounds, warm=warm)
    return measurements


def growing(sizes: Mapping[int, Callable[[], float]], rounds: int, unit: str = "/s") -> Measurements:
    """Measure at each size alternately, the smallest first, and compare the largest with the smallest."""
    curve: dict[int, list[float]] = {size: [] for size in sizes}
    alternately([(one_round, curve[size]) for size, one_round in sizes.items()], rounds)
    smallest, *_, largest = curve.values()
    return Measurements(largest, smallest, unit, curve)


def alternately(sides: list[tuple[Callable[[], float], list[float]]], rounds: int, *, warm: bool = True) -> None:
    for number in range(-1 if warm else 0, Pace.rounds(rounds)):
        for side, figures in sides:
            progress(f"round {number + 1} of {rounds}")
            figure = side()
            if number >= 0:
                figures.append(figure)
        sides.reverse()


def rate(count: int, work: Callable[[], object]) -> float:
    """Return how many per second, when `work` does `count`."""
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def progress(message: str) -> None:
    """Print a line that the next one overwrites, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{message}")
        sys.stderr.flush()
