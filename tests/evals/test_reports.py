"""Numbers and reports of a run: pass^k by hand, the first step that diverged, JUnit XML and results that a kill has cut off."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from headway.evals.recordings import TraceStep, find_difference
from headway.evals.reports import Report, SuiteEnd, build_document, build_junit, render_table
from headway.evals.results import AttemptResult, ResultsFile, estimate_pass_power, load_results, summarise_cell
from headway.evals.suite import MatrixCell, list_attempts, parse_suite
from headway.ledger.errors import Conflict, Invalid
from tests.tables import each_row

CELL = MatrixCell("model-a")
ANSWER = TraceStep("answer", result="done")
READ, WRITE = TraceStep("read_file", '{"path": "a"}'), TraceStep("write_file", '{"path": "b"}', ok=False)


def build_result(case: str, repetition: int, passed: bool, *trace: TraceStep, cell: MatrixCell = CELL) -> AttemptResult:
    status, problems = ("passed", ()) if passed else ("failed", ("Check failed: file b\x1b[31m: There is no b.",))
    return AttemptResult(
        f"{case}{repetition}{cell.label}",
        case,
        cell,
        repetition,
        status,  # type: ignore[arg-type]
        "answered",
        problems,
        trace=trace,
        cost_usd=0.25,
        input_tokens=100,
        output_tokens=10,
        steps=2,
        duration_s=1.5,
    )


@each_row(
    ("attempts", "passed", "k", "expected"),
    [(1, 1, 1, 1.0), (4, 2, 1, 0.5), (4, 3, 2, 3 / 6), (5, 3, 2, 3 / 10), (5, 3, 3, 1 / 10), (3, 2, 3, 0.0), (2, 2, 3, None)],
)
def test_pass_power_is_the_share_of_choices_of_k_attempts_that_all_passed(
    attempts: int, passed: int, k: int, expected: float | None
) -> None:
    assert estimate_pass_power(attempts, passed, k) == pytest.approx(expected)


def test_a_cell_averages_pass_power_over_the_cases_that_were_tried_k_times() -> None:
    results = [
        build_result(case, n, passed)
        for case, ends in {"x": "pp", "y": "pf", "z": "p"}.items()
        for n, passed in enumerate([e == "p" for e in ends], 1)
    ]
    summary = summarise_cell(CELL, results, repeat=2)
    assert (summary.cases, summary.attempts, summary.passed) == (3, 5, 4)
    assert (summary.pass_rate, summary.pass_power) == (0.8, 0.5)  # x: 1, y: 0, z was tried only once
    assert (summary.cost_usd, summary.input_tokens, summary.steps) == (1.25, 500, 10)


def test_the_first_step_that_differs_is_found() -> None:
    assert find_difference((READ, ANSWER), (READ, ANSWER), "") is None
    difference = find_difference((READ, ANSWER), (READ, WRITE, ANSWER), "repetition 1")
    assert difference is not None
    assert (difference.step, difference.expected, difference.found) == (2, 'write_file {"path": "b"}', "answer → done")


def build_report() -> Report:
    suite = parse_suite('repeat = 2\n[[case]]\nname = "x"\nmessage = "hi"\n[[case]]\nname = "y"\nmessage = "hi"', "s.toml", ".")
    passed, failed = build_result("x", 1, True, READ, WRITE, ANSWER), build_result("x", 2, False, READ, ANSWER)
    not_run = [attempt for attempt in list_attempts(suite, [CELL], replay=False) if attempt.case.name == "y"]
    return Report(suite, [CELL], SuiteEnd([passed, failed], not_run, "budget"))


def test_the_table_has_a_line_per_cell_and_says_where_a_failure_diverged() -> None:
    table = "\n".join(render_table(build_report()))
    assert "model-a" in table
    assert "1/2   50%  0.00 (k=2)  $0.5000     220    2.0  1.5 s" in table
    assert "✘ x #2 (model-a): answered\n  Check failed: file b\N{REPLACEMENT CHARACTER}[31m: There is no b." in table
    assert "First differs from repetition 1 at step 2:\n    expected write_file" in table
    assert "Not run: 2 attempts (budget)." in table
    document = build_document(build_report())
    assert (document["ok"], document["ended_early"]) == (False, "budget")
    assert [attempt["first_difference"] and attempt["first_difference"]["step"] for attempt in document["attempts"]] == [None, 2]


def test_junit_has_a_suite_per_cell_and_a_case_per_attempt() -> None:
    root = ET.fromstring(build_junit(build_report()))
    counts = {"tests": "4", "failures": "1", "errors": "0", "skipped": "2"}
    assert root.tag == "testsuites"
    assert {name: root.get(name) for name in counts} == counts
    (suite,) = root
    assert {name: suite.get(name) for name in counts} == counts
    assert [(case.get("name"), [child.tag for child in case]) for case in suite] == [
        ("x #1", []),
        ("x #2", ["failure"]),
        ("y #1", ["skipped"]),
        ("y #2", ["skipped"]),
    ]
    assert float(suite.get("time", "")) == 3.0
    assert "First differs" in (suite[1][0].text or "")


def test_results_survive_a_line_that_was_cut_off(tmp_path: Path) -> None:
    first, second = build_result("x", 1, True, READ), build_result("x", 2, False)
    file = ResultsFile(tmp_path / "run")
    with file.open({"suite": "s"}) as kept:
        assert kept == []
        file.add(first)
        with pytest.raises(Conflict, match="Another process is working on"), ResultsFile(file.folder).open({}):
            pass
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + b'{"kind": "attempt", "key": "cut o')
    with file.open({}) as kept:
        assert kept == [first]
        file.add(second)
    assert load_results(file.path).results == [first, second]
    file.path.write_bytes(whole + b'{"kind": "attempt"}\n')
    with pytest.raises(Invalid, match="line 3, is not a result of a run"):
        load_results(file.path)
