"""Results of attempts, and summaries of them."""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import comb
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from headway.evals.recordings import TraceStep
from headway.evals.suite import MatrixCell
from headway.ledger.errors import Conflict, Invalid, NotFound

FORMAT: Final = 1
FILE_NAME: Final = "results.jsonl"
WORK_FOLDER: Final = "attempts"

AttemptStatus = Literal["passed", "failed", "error"]


class AttemptResult(NamedTuple):
    key: str
    case: str
    cell: MatrixCell
    repetition: int
    status: AttemptStatus
    end: str  # how the turn or the goal ended: drained, answered, completed, timeout, …
    problems: tuple[str, ...] = ()  # why it did not pass
    checks: tuple[Mapping[str, Any], ...] = ()
    answer: str = ""
    trace: tuple[TraceStep, ...] = ()
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    steps: int = 0  # model calls, of all agents
    duration_s: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "cell": self.cell._asdict(), "trace": [step._asdict() for step in self.trace]}


def decode_result(document: dict[str, Any]) -> AttemptResult:
    fields = {name: document[name] for name in AttemptResult._fields}
    for name in ("problems", "checks"):
        fields[name] = tuple(fields[name])
    trace = tuple(TraceStep(**step) for step in fields["trace"])
    return AttemptResult(**{**fields, "cell": MatrixCell(**fields["cell"]), "trace": trace})


class ResultsFile:
    """The folder of one run. Only one process at a time writes to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE_NAME
        self.descriptor = -1

    @property
    def work_folder(self) -> Path:
        return self.folder / WORK_FOLDER

    @contextmanager
    def open(self, header: Mapping[str, Any]) -> Iterator[list[AttemptResult]]:
        """Lock the file and yield the results that it has. A line that a kill has cut off is removed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Conflict(f"Another process is working on {self.folder}.") from None
            kept = load_results(self.path)
            os.ftruncate(self.descriptor, kept.size)
            os.lseek(self.descriptor, 0, os.SEEK_END)
            if not kept.size:
                self.append({"kind": "run", "format": FORMAT, **header})
            yield kept.results
        finally:
            os.close(self.descriptor)

    def add(self, result: AttemptResult) -> None:
        self.append({"kind": "attempt", **result.as_json()})

    def append(self, document: Mapping[str, Any]) -> None:
        line = json.dumps(document, ensure_ascii=False).encode(errors="replace") + b"\n"
        while line:
            line = line[os.write(self.descriptor, line) :]
        os.fsync(self.descriptor)


class KeptResults(NamedTuple):
    results: list[AttemptResult]
    size: int  # bytes of whole lines


def load_results(path: Path) -> KeptResults:
    results: list[AttemptResult] = []
    size = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            document = json.loads(line)
            if document["kind"] == "attempt":
                results.append(decode_result(document))
            elif document["format"] != FORMAT:
                raise Invalid(f"{path} was written by another version of Headway. Start a new run.")
        except (ValueError, TypeError, KeyError):
            raise Invalid(f"{path}, line {number}, is not a result of a run. Start a new run.") from None
        size += len(line)
    return KeptResults(results, size)


def find_newest_run(folder: Path) -> Path:
    """Return the folder of a suite's newest run. Their names are dates, so that they sort by time."""
    runs = sorted(path.parent for path in folder.glob(f"*/{FILE_NAME}"))
    if not runs:
        raise NotFound(f"There is no run to resume in {folder}.")
    return runs[-1]


# Numbers about attempts: pass rate, pass^k, cost, tokens, steps and time.


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
