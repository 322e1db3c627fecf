"""A run of a suite: several attempts at a time, within a budget, until all are done or it is stopped."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headway.evals.attempt import Workbench, run_attempt
from headway.evals.matrix import Attempt
from headway.evals.results import AttemptResult, ResultsFile

HALT_POLL_S = 1.0


class Pacing(NamedTuple):
    """How a run proceeds."""

    parallel: int = 4
    budget_usd: float = 5.0
    is_halted: Callable[[], bool] = lambda: False
    on_result: Callable[[AttemptResult], None] = lambda _result: None


class Budget:
    """The money of a run. An attempt starts only if the whole budget of its case is left, so that none fails for want of it."""

    def __init__(self, limit_usd: float, spent_usd: float) -> None:
        self.limit = limit_usd
        self.spent = spent_usd
        self.reserved = 0.0
        self.changed = asyncio.Condition()

    async def reserve(self, amount: float) -> bool:
        """Wait until the amount is free. False: it never will be."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.has_room(amount) or not self.reserved)
            if not self.has_room(amount):
                return False
            self.reserved += amount
            return True

    def has_room(self, amount: float) -> bool:
        return self.spent + self.reserved + amount <= self.limit * (1 + 1e-9)

    async def settle(self, amount: float, cost: float) -> None:
        async with self.changed:
            self.reserved = max(0.0, self.reserved - amount)
            if self.reserved < 1e-9:  # sums of fractions do not end at zero
                self.reserved = 0.0
            self.spent += cost
            self.changed.notify_all()


class SuiteEnd(NamedTuple):
    results: list[AttemptResult]
    not_run: list[Attempt]
    reason: str = ""  # why attempts are missing: budget, halted or interrupted


class SuiteRun:
    def __init__(self, bench: Workbench, pacing: Pacing, results: ResultsFile, done: Sequence[AttemptResult]) -> None:
        self.bench = bench
        self.pacing = pacing
        self.results = results
        self.done = {result.key: result for result in done}
        self.budget = Budget(pacing.budget_usd, sum(result.cost_usd for result in done))
        self.reason = ""
        self.workers: list[asyncio.Task[None]] = []

    async def run(self, attempts: Sequence[Attempt]) -> SuiteEnd:
        """Run the attempts that have no result yet. Results are stored as soon as an attempt ends."""
        todo = iter([attempt for attempt in attempts if attempt.key not in self.done])
        self.workers = [asyncio.create_task(self.work(todo)) for _ in range(self.pacing.parallel)]
        watch = asyncio.create_task(self.watch_halt())
        try:
            ended = await asyncio.gather(*self.workers, return_exceptions=True)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
        results = [self.done[attempt.key] for attempt in attempts if attempt.key in self.done]
        return SuiteEnd(results, [attempt for attempt in attempts if attempt.key not in self.done], self.reason)

    async def work(self, todo: Any) -> None:
        for attempt in todo:
            amount = min(attempt.case.budget_usd, self.pacing.budget_usd)
            if not await self.budget.reserve(amount):
                self.reason = self.reason or "budget"
                continue
            cost = 0.0
            try:
                result = await run_attempt(self.bench, attempt, amount)
                cost = result.cost_usd
                await asyncio.to_thread(self.results.add, result)
                self.done[result.key] = result
                self.pacing.on_result(result)
            finally:
                await self.budget.settle(amount, cost)

    async def watch_halt(self) -> None:
        while True:
            if await asyncio.to_thread(self.pacing.is_halted):
                self.stop("halted")
                return
            await asyncio.sleep(HALT_POLL_S)

    def stop(self, reason: str) -> None:
        """Stop now. Attempts that are running have no result, and run again when the run is resumed."""
        self.reason = reason
        for worker in self.workers:
            worker.cancel()
