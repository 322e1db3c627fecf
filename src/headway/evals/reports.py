"""A run of a suite, and its report in text and JSON."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from headway.evals.attempt import Workbench, run_attempt
from headway.evals.recordings import Difference, TraceStep, find_difference
from headway.evals.results import AttemptResult, CellSummary, ResultsFile, summarise
from headway.evals.suite import Attempt, MatrixCell, Suite
from headway.ledger.text import to_one_line

HALT_POLL_S = 1.0


class Pacing(NamedTuple):
    """The progress of a run."""

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


# Reports of a run: a table for people, a JSON document, and JUnit XML for continuous integration.


HEADINGS = ("cell", "cases", "passed", "rate", "pass^k", "cost", "tokens", "steps", "time")
DETAIL_LIMIT = 400  # characters of a problem in the table
RECORDING_LABEL = "the recording"


class Report(NamedTuple):
    suite: Suite
    cells: Sequence[MatrixCell]
    end: SuiteEnd
    recorded: Mapping[str, Sequence[TraceStep]] = {}  # by case

    @property
    def summaries(self) -> list[CellSummary]:
        return summarise(self.cells, self.end.results, self.suite.repeat)

    @property
    def failures(self) -> list[AttemptResult]:
        return [result for result in self.end.results if not result.passed]

    def find_difference(self, failed: AttemptResult) -> Difference | None:
        """Compare a failed attempt with one that passed: in the same cell, else in another, else with the recording."""
        passed = [result for result in self.end.results if result.passed and result.case == failed.case]
        passed.sort(key=lambda result: (result.cell != failed.cell, result.repetition))
        if passed:
            other = passed[0]
            suffix = "" if other.cell == failed.cell else f" of {other.cell.label}"
            return find_difference(failed.trace, other.trace, f"repetition {other.repetition}{suffix}")
        recorded = self.recorded.get(failed.case)
        return find_difference(failed.trace, recorded, RECORDING_LABEL) if recorded else None


# For people


def render_table(report: Report) -> Iterator[str]:
    rows = [HEADINGS, *(render_cell(summary) for summary in report.summaries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        first, *others = (
            cell.ljust(width) if not n else cell.rjust(width) for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *others)).rstrip()
    for result in report.failures:
        yield from render_failure(report, result)
    if count := len(report.end.not_run):
        yield f"Not run: {count} attempt{'s' if count != 1 else ''} ({report.end.reason})."


def render_cell(summary: CellSummary) -> tuple[str, ...]:
    attempts = summary.attempts or 1
    return (
        to_one_line(summary.cell.label)[:60],
        str(summary.cases),
        f"{summary.passed}/{summary.attempts}",
        f"{summary.pass_rate:.0%}",
        "-" if summary.pass_power is None else f"{summary.pass_power:.2f} (k={summary.repeat})",
        f"${summary.cost_usd:.4f}",
        f"{summary.input_tokens + summary.output_tokens:,}",
        f"{summary.steps / attempts:.1f}",
        f"{summary.duration_s / attempts:.1f} s",
    )


def render_failure(report: Report, result: AttemptResult) -> Iterator[str]:
    yield ""
    yield f"✘ {to_one_line(result.case)} #{result.repetition} ({to_one_line(result.cell.label)[:60]}): {result.end}"
    yield from (f"  {to_one_line(problem)[:DETAIL_LIMIT]}" for problem in result.problems)
    if difference := report.find_difference(result):
        yield f"  First differs from {to_one_line(difference.reference)} at step {difference.step}:"
        yield f"    expected {difference.expected}"
        yield f"    found    {difference.found}"


# For programs


def build_document(report: Report) -> dict[str, Any]:
    def show(result: AttemptResult) -> dict[str, Any]:
        difference = None if result.passed else report.find_difference(result)
        cell = {"model": result.cell.model, "role": result.cell.role or None, "prompt": result.cell.prompt or None}
        fields = {name: value for name, value in result.as_json().items() if name not in ("cell", "trace", "key")}
        return {**fields, **cell, "first_difference": difference.as_json() if difference else None}

    return {
        "suite": report.suite.name,
        "repeat": report.suite.repeat,
        "ok": is_ok(report.end),
        "ended_early": report.end.reason or None,
        "cells": [summary.as_json() for summary in report.summaries],
        "attempts": [show(result) for result in report.end.results],
        "not_run": [describe_attempt(attempt) for attempt in report.end.not_run],
    }


def is_ok(end: SuiteEnd) -> bool:
    return not end.not_run and all(result.passed for result in end.results)


def describe_attempt(attempt: Attempt) -> dict[str, Any]:
    cell = attempt.cell
    return {
        "case": attempt.case.name,
        "model": cell.model,
        "role": cell.role or None,
        "prompt": cell.prompt or None,
        "repetition": attempt.repetition,
    }


# JUnit


def build_junit(report: Report) -> bytes:
    """Build JUnit XML: a suite per cell, a test case per attempt."""
    root = ET.Element("testsuites", name=clean(report.suite.name))
    for cell in report.cells:
        results = [result for result in report.end.results if result.cell == cell]
        missing = [attempt for attempt in report.end.not_run if attempt.cell == cell]
        element = ET.SubElement(
            root,
            "testsuite",
            name=clean(f"{report.suite.name} ({cell.label})"),
            tests=str(len(results) + len(missing)),
            failures=str(sum(result.status == "failed" for result in results)),
            errors=str(sum(result.status == "error" for result in results)),
            skipped=str(len(missing)),
            time=f"{sum(result.duration_s for result in results):.3f}",
        )
        for result in results:
            add_junit_case(element, report, result)
        for attempt in missing:
            case = ET.SubElement(element, "testcase", classname=clean(report.suite.name), name=clean(attempt.label))
            ET.SubElement(case, "skipped", message=f"not run: {report.end.reason}")
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def add_junit_case(suite: ET.Element, report: Report, result: AttemptResult) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=clean(report.suite.name),
        name=clean(f"{result.case} #{result.repetition}"),
        time=f"{result.duration_s:.3f}",
    )
    if result.passed:
        return
    kind = "failure" if result.status == "failed" else "error"
    problem = ET.SubElement(case, kind, message=clean(to_one_line(result.problems[0] if result.problems else result.end))[:1_000])
    problem.text = clean("\n".join(render_failure(report, result)).strip())


def clean(content: str) -> str:
    """Remove the characters that XML cannot contain."""
    return "".join(
        character
        for character in content
        if character in "\t\n" or 32 <= ord(character) < 0xD800 or 0xE000 <= ord(character) <= 0xFFFD or ord(character) > 0xFFFF
    )
