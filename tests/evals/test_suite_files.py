"""Suites: strict parsing with errors that name the case and the field, the matrix, and the fingerprints that --resume compares."""

from pathlib import Path

import pytest

from headway.evals.attempt import check_access
from headway.evals.suite import MatrixCell, Suite, build_cells, filter_cases, list_attempts, load_suite, parse_suite
from headway.ledger.errors import Invalid, NotFound
from headway.settings import load
from tests.tables import each_row

MESSAGE = '[[case]]\nname = "one"\nmessage = "hi"\n'
GOAL = '[[case]]\nname = "two"\ngoal = "clean up"\n'


def parse(content: str, folder: Path | None = None) -> Suite:
    return parse_suite(content, "suite.toml", str(folder or "."))


@each_row(
    ("content", "problem"),
    [
        ("name = ", "suite.toml is not valid TOML"),
        ('name = "x"', "suite.toml: a suite needs 1 to 1,000 cases, each as a table [[case]]."),
        (f'colour = "red"\n{MESSAGE}', "suite.toml: a suite cannot have 'colour'."),
        ('name = "../x"\n' + MESSAGE, "name must not contain a slash"),
        (f"repeat = 0\n{MESSAGE}", "repeat must be a whole number from 1 to 100."),
        (MESSAGE + MESSAGE, "case 'one': another case has the same name."),
        ('[[case]]\nmessage = "hi"', "case 1: it needs a name."),
        ('[[case]]\nname = "one"', "case 'one': it needs either a message or a goal."),
        (MESSAGE + 'goal = "both"', "case 'one': it needs either a message or a goal."),
        (GOAL + 'role = "coder"', "case 'two': role is for cases with a message"),
        (MESSAGE + "budget_usd = -1", "case 'one': budget_usd must be a number from 1e-06"),
        (MESSAGE + 'timeout_s = "long"', "case 'one': timeout_s must be a number"),
        (MESSAGE + 'mode = "fast"', "case 'one': mode must be plan or queue."),
        (MESSAGE + 'mesage = "typo"', "case 'one': a case cannot have 'mesage'."),
        (MESSAGE + 'ends = ["completed"]', "case 'one': ends: 'completed' is none of drained, answered"),
        (MESSAGE + 'checks = [{kind = "file"}]', "case 'one': checks[0]: a file check needs path."),
        (
            MESSAGE + 'checks = [{kind = "command", run = "ls", folder = "/"}]',
            "case 'one': checks: only the operator may name a folder",
        ),
        (MESSAGE + 'plan = [{title = "x", checks = [{kind = "mood"}]}]', "case 'one': plan[0].checks[0].kind must be one of"),
        (MESSAGE + 'files = {"../x" = "y"}', "case 'one': files: "),
        (MESSAGE + 'files = "/etc"', "case 'one': files: path must be relative"),
        (MESSAGE + 'files = "missing"', "case 'one': files: there is no folder missing beside the suite."),
        (MESSAGE + 'files = {"a.txt" = 1}', "case 'one': files.a.txt must be text"),
        (MESSAGE + 'recording = "x.json"', "case 'one': recording: there is no file x.json beside the suite."),
        (MESSAGE + 'policy = [{tool = "*", decision = "allow"}]', "policy: a suite may ask or deny."),
        ('defaults = {name = "x"}\n' + MESSAGE, "defaults cannot have 'name'."),
        ('matrix = {models = ["a", "a"]}\n' + MESSAGE, "matrix.models names something twice."),
        ("matrix = {prompts = {a = 1}}\n" + MESSAGE, "matrix.prompts must be a table of texts"),
    ],
)
def test_an_error_names_the_case_and_the_field(content: str, problem: str) -> None:
    with pytest.raises(Invalid) as raised:
        parse(content)
    assert problem in str(raised.value)


def test_the_matrix_combines_models_roles_and_prompts() -> None:
    suite = parse('matrix = {models = ["a", "b"], roles = ["coder"], prompts = {plain = "", brief = "Be brief."}}\n' + MESSAGE)
    cells = build_cells(suite, "default")
    assert [cell.label for cell in cells] == ["a · coder · plain", "a · coder · brief", "b · coder · plain", "b · coder · brief"]
    attempts = list_attempts(suite._replace(repeat=3), cells, replay=False)
    assert len({attempt.key for attempt in attempts}) == 12
    assert [attempt.repetition for attempt in attempts[:5]] == [1, 1, 1, 1, 2]
    assert build_cells(parse(MESSAGE), "default") == [MatrixCell("default")]
    with pytest.raises(Invalid, match="'two' is a goal"):
        build_cells(parse('matrix = {roles = ["coder"]}\n' + GOAL), "default")


def test_cases_are_chosen_by_name_or_tag() -> None:
    suite = parse(MESSAGE + 'tags = ["slow"]\n' + GOAL)
    assert [case.name for case in filter_cases(suite, ["slo*"]).cases] == ["one"]
    assert [case.name for case in filter_cases(suite, ["t?o", "one"]).cases] == ["one", "two"]
    with pytest.raises(NotFound, match="No case of suite matches 'three'"):
        filter_cases(suite, ["three"])


def test_a_changed_case_or_file_has_another_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "a.txt"
    file.write_text("1")

    def fingerprint(content: str) -> str:
        suite = parse(content, tmp_path)
        return suite.fingerprint(suite.cases[0])

    content = MESSAGE + 'files = "data"\n'
    first = fingerprint(content)
    assert fingerprint("# a comment\n" + content) == first
    assert fingerprint(content + "timeout_s = 9") != first
    file.write_text("2")
    assert fingerprint(content) != first


def test_a_case_gets_only_programs_and_hosts_that_the_settings_allow(tmp_path: Path) -> None:
    settings = load({"home": str(tmp_path), "commands": "git", "http_allow": "*.example.org"})
    check_access(settings, parse(MESSAGE + 'commands = ["git"]\nhttp_allow = ["www.example.org"]').cases[0])
    for field, value in (("commands", "rm"), ("http_allow", "example.com"), ("http_allow", "*")):
        with pytest.raises(Invalid, match=f"Case 'one': {field}: .* is not allowed here"):
            check_access(settings, parse(f'{MESSAGE}{field} = ["{value}"]').cases[0])


def test_the_suite_that_comes_with_headway_has_about_twenty_cases() -> None:
    suite = load_suite("basics")
    assert 20 <= len(suite.cases) <= 30
    assert all(case.about and case.tags for case in suite.cases)
    with pytest.raises(NotFound, match=r"There is no suite 'advanced'.*: basics"):
        load_suite("advanced")
