"""Finds the places in the code where a mutant can be made, and draws a sample of them."""

import ast
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SEED = 20
# How many mutants each part of the code gets.
QUOTAS = {"ledger": 42, "storage": 46, "actions": 46, "engine": 26, "agents": 54, "autonomy": 30, "surfaces": 56}
LARGE = 60  # one more than a larger number is no fault
SAMPLE = Path(__file__).with_name("sample.json")

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.Div: "*"}


class Mutant(NamedTuple):
    """A change of one expression: its place by name, so that it is found again after other lines moved."""

    file: str
    function: str
    kind: str
    before: str
    after: str
    nth: int  # among equal ones of the function

    @property
    def part(self) -> str:
        return Path(self.file).parts[2]


class Site(NamedTuple):
    """A mutant with its place in the text."""

    mutant: Mutant
    start: int
    end: int


def find_sites(root: Path, file: str) -> list[Site]:
    """All possible mutants of a file, in the order of the text."""
    text = (root / file).read_text(encoding="utf-8")
    finder = Finder(file, text)
    finder.visit(ast.parse(text))
    return finder.sites


class Finder(ast.NodeVisitor):
    """Visits the bodies of functions: what runs at import belongs to no test."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.data = text.encode()
        starts = [0]
        for line in self.data.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self.starts = starts
        self.names: list[str] = []
        self.depth = 0
        self.sites: list[Site] = []
        self.seen: Counter[tuple[str, ...]] = Counter()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.append(node.name)
        for child in node.body:
            self.visit(child)
        self.names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.names.append(node.name)
        self.depth += 1
        for child in node.body:
            self.visit(child)
        self.depth -= 1
        self.names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Python 3.11 does not know the places inside of these."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Assertions narrow types."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """The wording of an error is no behaviour to mutate."""

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard:
            self.visit(node.guard)
        for child in node.body:
            self.visit(child)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            left, right = self.segment(node.left), self.segment(node.comparators[0])
            self.add("comparison", node, f"{left} {COMPARISONS[type(node.ops[0])]} {right}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        operator = " or " if isinstance(node.op, ast.And) else " and "
        self.add("logic", node, operator.join(f"({self.segment(value)})" for value in node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add("negation", node, f"({self.segment(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = [node.left, node.right]
        if type(node.op) in ARITHMETIC and not any(is_text(side) for side in sides):
            self.add("arithmetic", node, f"({self.segment(node.left)}) {ARITHMETIC[type(node.op)]} ({self.segment(node.right)})")
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.IfExp | ast.While) -> None:
        if isinstance(node.test, ast.Name | ast.Call | ast.Attribute | ast.Await):
            self.add("condition", node.test, f"not ({self.segment(node.test)})")
        self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.add("constant", node, str(not node.value))
        elif isinstance(node.value, int) and node.value < LARGE:
            self.add("constant", node, str(node.value + 1))

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Await) and not self.segment(node.value).startswith("log."):
            self.add("call left out", node.value, "None")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Call | ast.Await | ast.Name):
            self.add("nothing returned", node.value, "None")
        self.generic_visit(node)

    def segment(self, node: ast.expr) -> str:
        start, end = self.place(node)
        return self.data[start:end].decode()

    def place(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def add(self, kind: str, node: ast.expr, after: str) -> None:
        before = self.segment(node)
        if not self.depth or ("await" in after and kind == "nothing returned") or "yield" in before or ":=" in before:
            return
        key = (".".join(self.names), kind, before, after)
        self.sites.append(Site(Mutant(self.file, *key, self.seen[key]), *self.place(node)))
        self.seen[key] += 1


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def draw(root: Path) -> list[Mutant]:
    """Draw mutants that do not overlap, spread over the files of each part."""
    chance = random.Random(SEED)
    drawn: list[Mutant] = []
    for part, quota in QUOTAS.items():
        files = sorted(str(path.relative_to(root)) for path in (root / "src/headway" / part).rglob("*.py"))
        waiting = {file: chance.sample(sites, len(sites)) for file in files if (sites := find_sites(root, file))}
        chosen: list[Site] = []
        while len(chosen) < quota:
            for file in chance.sample(sorted(waiting), len(waiting)):
                site = next((site for site in waiting[file] if not overlaps(site, chosen)), None)
                if site and len(chosen) < quota:
                    chosen.append(site)
        drawn += [site.mutant for site in chosen]
    return drawn


def overlaps(site: Site, chosen: list[Site]) -> bool:
    return any(site.mutant.file == other.mutant.file and site.start < other.end and other.start < site.end for other in chosen)


def load() -> list[Mutant]:
    return [Mutant(*row) for row in json.loads(SAMPLE.read_text(encoding="utf-8"))]


def save(mutants: list[Mutant]) -> None:
    rows = ",\n".join(json.dumps(mutant, ensure_ascii=False) for mutant in mutants)
    SAMPLE.write_text(f"[\n{rows}\n]\n", encoding="utf-8")


def instrument(root: Path, mutants: list[Mutant]) -> Iterator[int]:
    """Write all mutants into the code, each switched by its number. Yields the numbers of those whose place is gone."""
    for file in sorted({mutant.file for mutant in mutants}):
        numbers = {mutant: number for number, mutant in enumerate(mutants) if mutant.file == file}
        known = {site.mutant: site for site in find_sites(root, file)} if (root / file).exists() else {}
        yield from (number for mutant, number in numbers.items() if mutant not in known)
        found = [known[mutant] for mutant in numbers if mutant in known]
        if not found:
            continue
        data = (root / file).read_bytes()
        for site in sorted(found, key=lambda site: -site.start):
            before = data[site.start : site.end].decode()
            switched = f"(({site.mutant.after}) if _mutant({numbers[site.mutant]}) else ({before}))"
            data = data[: site.start] + switched.encode() + data[site.end :]
        (root / file).write_bytes(data)
