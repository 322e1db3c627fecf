"""Numbers about attempts: pass rate, pass^k, cost, tokens, steps and time."""

from collections.abc import Iterable, Sequence
from math import comb
from typing import Any, NamedTuple

from headway.evals.matrix import MatrixCell
from headway.evals.results import AttemptResult


def estimate_pass_power(attempts: int, passed: int, k: int) -> float | None:
    """Estimate the probability that k attempts in a row pass, without bias: the share of the choices of k that all passed.

    None if there are fewer than k attempts.
    """
    return comb(passed, k) / comb(attempts, k) if attempts >= k else None


class CellSummary(NamedTuple):
    cell: MatrixCell
    cases: int
    attempts: int
    passed: int
    repeat: int  # k
    pass_power: float | None  # pass^k, averaged over the cases that were tried k times
    cost_usd: float
    input_tokens: int
    output_tokens: int
    steps: int
    duration_s: float

    @property
    def pass_rate(self) -> float:
        return self.passed / self.attempts if self.attempts else 0.0

    def as_json(self) -> dict[str, Any]:
        fields = {name: value for name, value in self._asdict().items() if name != "cell"}
        cell = {"model": self.cell.model, "role": self.cell.role or None, "prompt": self.cell.prompt or None}
        return {**cell, **fields, "pass_rate": round(self.pass_rate, 4), "cost_usd": round(self.cost_usd, 9)}


def summarise_cell(cell: MatrixCell, results: Iterable[AttemptResult], repeat: int) -> CellSummary:
    own = [result for result in results if result.cell == cell]
    by_case: dict[str, list[bool]] = {}
    for result in own:
        by_case.setdefault(result.case, []).append(result.passed)
    powers = [estimate_pass_power(len(ends), sum(ends), repeat) for ends in by_case.values()]
    known = [power for power in powers if power is not None]
    return CellSummary(
        cell,
        cases=len(by_case),
        attempts=len(own),
        passed=sum(result.passed for result in own),
        repeat=repeat,
        pass_power=sum(known) / len(known) if known else None,
        cost_usd=sum(result.cost_usd for result in own),
        input_tokens=sum(result.input_tokens for result in own),
        output_tokens=sum(result.output_tokens for result in own),
        steps=sum(result.steps for result in own),
        duration_s=round(sum(result.duration_s for result in own), 3),
    )


def summarise(cells: Sequence[MatrixCell], results: Sequence[AttemptResult], repeat: int) -> list[CellSummary]:
    return [summarise_cell(cell, results, repeat) for cell in cells]
