"""A coverage-guided fuzzer: inputs that make a module take a new arc (a step from line to line) are kept and mutated further."""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any

Arc = tuple[CodeType, int, int]


class ArcCounter:
    """Counts how often each arc of a module is taken, while the block runs."""

    def __init__(self, module: ModuleType) -> None:
        self.file = module.__file__
        self.taken: Counter[Arc] = Counter()

    def __enter__(self) -> "ArcCounter":
        self.taken.clear()
        self.before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def _enter(self, frame: FrameType, _event: str, _value: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != self.file:
            return None
        last = 0

        def step(frame: FrameType, event: str, _value: Any) -> Callable[..., Any]:
            nonlocal last
            if event == "line":
                self.taken[frame.f_code, last, frame.f_lineno] += 1
                last = frame.f_lineno
            return step

        return step

    def features(self) -> set[tuple[Arc, int]]:
        """The arcs, with their counts rounded to powers of two, so that a loop counts as new only when its iterations double."""
        return {(arc, times.bit_length()) for arc, times in self.taken.items()}


def generate_inputs(
    seeds: Sequence[str], pieces: Sequence[str], chance: random.Random, known: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the seeds, then an endless series of mutations of the inputs that `known` rejected as new."""
    corpus = [seed for seed in seeds if not known(seed)] or [""]
    yield from seeds
    while True:
        child = mutate(chance.choice(corpus[-40:] if chance.random() < 0.5 else corpus), corpus, pieces, chance)
        yield child
        if not known(child):
            corpus.append(child)


def mutate(parent: str, corpus: Sequence[str], pieces: Sequence[str], chance: random.Random, longest: int = 200) -> str:
    child = parent
    for _ in range(chance.choice((1, 1, 2, 4))):
        at, to = sorted((chance.randint(0, len(child)), chance.randint(0, len(child))))
        operation = chance.randrange(5)
        if operation == 0:
            child = child[:at] + chance.choice(pieces) + child[at:]
        elif operation == 1:
            child = child[:at] + child[to:]
        elif operation == 2:
            child = child[:at] + child[at:to] * 2 + child[to:]
        elif operation == 3:
            child = child[:at] + chance.choice(corpus)[:40] + child[to:]
        else:
            child = child[:at] + chr(chance.choice((0, 9, 10, 13, 32, 47, 96, 126, 0x85, 0x2028, 0x1F989))) + child[at + 1 :]
    return child[:longest]
