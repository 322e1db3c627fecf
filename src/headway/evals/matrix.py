"""The attempts of a run: every case in every cell of the matrix, repeated."""

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import product
from typing import NamedTuple

from headway.evals.suite import Case, Suite
from headway.ledger.errors import Invalid, NotFound


class MatrixCell(NamedTuple):
    """One combination of the matrix. Empty names mean the operator's settings and the case's own role."""

    model: str = ""
    role: str = ""
    prompt: str = ""  # its name
    prompt_text: str = ""

    @property
    def label(self) -> str:
        return " · ".join(part for part in (self.model, self.role, self.prompt) if part) or "settings"


class Attempt(NamedTuple):
    case: Case
    cell: MatrixCell
    repetition: int  # counts from 1
    key: str  # identifies the case, the cell and the repetition as they are now

    @property
    def label(self) -> str:
        return f"{self.case.name} #{self.repetition}"


def build_cells(suite: Suite, default_model: str) -> list[MatrixCell]:
    """Combine the models, roles and prompts. Without models in the matrix, the cell shows the operator's model."""
    matrix = suite.matrix
    goal = next((case.name for case in suite.cases if case.goal), "")
    if matrix.roles and goal:
        raise Invalid(
            f"matrix.roles: case {goal!r} is a goal, whose main agent always has the same role. Put goals into another suite."
        )
    models = matrix.models or (default_model,)
    roles, prompts = matrix.roles or ("",), matrix.prompts or {"": ""}
    return [MatrixCell(model, role, name, prompts[name]) for model, role, name in product(models, roles, prompts)]


def filter_cases(suite: Suite, patterns: Sequence[str]) -> Suite:
    """Keep the cases whose name or one of whose tags matches a pattern."""
    if not patterns:
        return suite
    cases = tuple(
        case for case in suite.cases if any(fnmatchcase(name, glob) for name in (case.name, *case.tags) for glob in patterns)
    )
    if not cases:
        raise NotFound(f"No case of {suite.name} matches {', '.join(patterns)[:200]!r}. `--list` shows all cases.")
    return suite._replace(cases=cases)


def list_attempts(suite: Suite, cells: Sequence[MatrixCell], *, replay: bool) -> list[Attempt]:
    """List all attempts. The repetitions of a case come last, so that a run that ends early has tried every case."""
    prints = {case.name: suite.fingerprint(case) for case in suite.cases}
    return [
        Attempt(case, cell, repetition, make_key(prints[case.name], cell, repetition, replay=replay))
        for repetition in range(1, suite.repeat + 1)
        for case in suite.cases
        for cell in cells
    ]


def make_key(fingerprint: str, cell: MatrixCell, repetition: int, *, replay: bool) -> str:
    return sha256(json.dumps([fingerprint, cell, repetition, replay]).encode()).hexdigest()[:32]
