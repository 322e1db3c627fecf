"""`headway eval`: suites run apart from the user's data, within a budget, and survive kills; finished turns become cases."""

import json
import signal
from itertools import count
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.model_server import MODEL, ModelServer, Reply, Request, Script, by_turn, calls, text
from tests.surfaces.shell import Shell
from tests.warm_start import Program

PASSING = '[[case]]\nname = "sum"\nmessage = "What is 6*7?"\nchecks = [{kind = "outcome", schema = {pattern = "42"}}]\n'
FAILING = '[[case]]\nname = "file"\nmessage = "Write a.txt: one"\nchecks = [{kind = "file", path = "b.txt"}]\n'
TOOL = """
from pathlib import Path
from headway.agents.tools.custom import tool

@tool
def weather(city: str) -> str:
    \"\"\"Look up the weather.\"\"\"
    with Path("calls.log").open("a") as log:
        log.write(city + chr(10))
    return "rain"
"""
PRICES = f'["openai-chat:{MODEL}"]\ninput = 1\noutput = 1\n'


def write_suite(shell: Shell, *parts: str, name: str = "suite.toml") -> str:
    (shell.folder / name).write_text("\n".join(parts))
    return name


def test_a_failing_case_is_exit_code_1_and_its_check_is_reported(headway: Shell) -> None:
    suite = write_suite(headway, PASSING, FAILING)
    ran = headway("eval", "run", suite, "--junit", "junit.xml")
    assert ran.code == 1
    assert "1/2   50%  0.50 (k=1)" in ran.out
    assert "✘ file #1 (rehearsal): answered\n  Check failed: file b.txt: There is no b.txt in the workspace." in ran.out
    assert "✔" in ran.err
    assert "Results: " in ran.err
    root = ET.parse(headway.folder / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    assert not headway.ledger.exists()  # it has created no ledger of the user's
    assert not list(headway.folder.glob(".headway/evals/*/*/attempts"))


def test_every_case_of_the_basics_passes_with_the_rehearsal(headway: Shell) -> None:
    report = headway.json("eval", "run", "basics")["eval"]
    assert [attempt["problems"] for attempt in report["attempts"] if attempt["status"] != "passed"] == []
    (cell,) = report["cells"]
    assert (cell["model"], cell["pass_rate"], cell["pass_power"]) == ("rehearsal", 1.0, 1.0)
    assert cell["steps"] > cell["cases"]


def test_cases_do_not_see_the_users_data_and_change_none_of_it(headway: Shell) -> None:
    headway.ok("todo", "add", "secret plan")
    headway.ok("chat", "Remember that the code is 4711")
    headway.ok("chat", "Write mine.txt: mine")
    before = headway.ok("todo", "list", "--json")
    events = headway.ok("conversation", "list", "--json")
    unseen = {"notes": ("What do you remember?", "4711"), "files": ("List the files", "mine"), "todos": ("List the todos", "plan")}
    outcome = '{{kind = "outcome", schema = {{not = {{pattern = "{}"}}}}}}'
    cases = [
        f'[[case]]\nname = "{name}"\nmessage = "{message}"\nchecks = [{outcome.format(word)}]'
        for name, (message, word) in unseen.items()
    ]
    suite = write_suite(headway, *cases, '[[case]]\nname = "writes"\nmessage = "Add a todo: intruder"\nmust_call = ["todo_add"]')
    headway.ok("eval", "run", suite)
    assert headway.ok("todo", "list", "--json") == before
    assert headway.ok("conversation", "list", "--json") == events


def test_the_matrix_repeats_cases_with_the_prompts_and_roles_that_it_names(talker: Shell, model: ModelServer) -> None:
    def answer(request: Request) -> Reply:
        return text("42" if "Be exact." in request.system else "about 40")

    model.script = answer
    suite = write_suite(talker, 'matrix = {roles = ["coder"], prompts = {plain = "", exact = "Be exact."}}', PASSING)
    ran = talker("eval", "run", suite, "-k", "2", "--json")
    assert ran.code == 1
    report = json.loads(ran.out)["eval"]
    cells = {cell["prompt"]: (cell["passed"], cell["attempts"], cell["pass_power"]) for cell in report["cells"]}
    assert cells == {"plain": (0, 2, 0.0), "exact": (2, 2, 1.0)}
    failed = next(attempt for attempt in report["attempts"] if attempt["status"] == "failed")
    assert failed["first_difference"]["expected"] == "answer → 42"
    assert failed["first_difference"]["found"] == "answer → about 40"
    assert "programmer" in model.requests[0].system


def test_a_run_stops_at_its_budget_and_can_be_resumed(talker: Shell, model: ModelServer) -> None:
    (talker.folder / ".headway").mkdir()
    (talker.folder / ".headway" / "prices.toml").write_text(PRICES)
    talker.trust()
    model.script = lambda _: text("42", usage=(200_000, 0))  # $0.20
    cases = [PASSING.replace('"sum"', f'"sum-{n}"') for n in range(4)]
    suite = write_suite(talker, "defaults = {budget_usd = 0.5}", *cases)
    ran = talker("eval", "run", suite, "--budget", "0.80", "--parallel", "1")
    assert ran.code == 6
    assert "2/2  100%" in ran.out
    assert "$0.4000" in ran.out
    assert "Not run: 2 attempts (budget)." in ran.out
    ran = talker("eval", "run", suite, "--budget", "5", "--resume")
    assert ran.code == 0
    assert "2 of 4 attempts already have a result." in ran.err
    assert "4/4  100%" in ran.out


def test_an_attempt_fails_when_its_own_budget_is_used_up(talker: Shell, model: ModelServer) -> None:
    (talker.folder / ".headway").mkdir()
    (talker.folder / ".headway" / "prices.toml").write_text(PRICES)
    talker.trust()
    model.script = lambda _: calls(("list_files", {}), usage=(200_000, 0))
    ran = talker("eval", "run", write_suite(talker, PASSING + "budget_usd = 0.201"))
    assert ran.code == 1
    assert "It has used up its budget" in ran.out
    assert "$0.2000" in ran.out


def test_a_case_answers_the_questions_of_the_agent(talker: Shell, model: ModelServer) -> None:
    def answer(request: Request) -> Reply:
        return text(request.tool_results[-1].content) if request.tool_results else calls(("ask_person", {"question": "Which one?"}))

    model.script = answer
    case = '[[case]]\nname = "ask"\nmessage = "Paint it"\nchecks = [{kind = "outcome", schema = {type = "object"}}]\n'
    answered = case.replace('type = "object"', 'required = ["answer"]') + 'answers = ["the blue one"]'
    ran = talker("eval", "run", write_suite(talker, case, answered.replace('"ask"', '"answered"')), "--json")
    unanswered, passed = sorted(json.loads(ran.out)["eval"]["attempts"], key=lambda attempt: str(attempt["status"]))
    assert (passed["status"], "the blue one" in passed["answer"]) == ("passed", True)
    assert unanswered["problems"][0] == "The agent asked 'Which one?', and the case has no answer for it."


def test_a_run_that_was_killed_keeps_its_results_and_resumes(talker: Shell, model: ModelServer) -> None:
    headway, begun = talker, count(1)
    (headway.folder / ".headway").mkdir()
    (headway.folder / ".headway" / "prices.toml").write_text(PRICES)
    headway.trust()

    def script(_request: Request) -> Reply:
        if next(begun) in (2, 4):  # the attempts that are killed and interrupted
            model.hold()
        return text("It is 42.")

    model.script = script
    cases = [PASSING.replace('"sum"', f'"sum-{n}"') for n in range(3)]
    suite = write_suite(headway, *cases)
    with Program(("eval", "run", suite, "--parallel", "1"), headway.folder) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("✔ 1/3 sum-0")
        model.wait_for_requests(2)
        process.kill()
    model.release()
    (results,) = headway.folder.glob(".headway/evals/suite/*/results.jsonl")
    with results.open("a") as file:
        file.write('{"kind": "attempt", "key"')  # killed while it wrote
    with Program(("eval", "run", suite, "--parallel", "1", "--resume"), headway.folder) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "1 of 3 attempts already have a result.\n"
        assert process.stderr.readline().startswith("✔ 2/3 sum-1")
        model.wait_for_requests(4)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
        assert process.wait() == 6
        assert "Not run: 1 attempt (interrupted)." in out
    model.release()
    ran = headway("eval", "run", suite, "--resume")
    assert ran.code == 0, ran.err
    assert "sum-0" not in ran.err
    assert "3/3  100%" in ran.out
    assert len(results.read_text().splitlines()) == 4
    assert headway("eval", "run", write_suite(headway, PASSING, name="other.toml"), "--resume").code == 3


def test_a_halt_stops_evals(headway: Shell) -> None:
    suite = write_suite(headway, PASSING)
    headway.ok("halt", "--why", "maintenance")
    ran = headway("eval", "run", suite)
    assert ran.code == 5
    assert "maintenance" in ran.err


def test_what_cannot_run_is_refused_before_anything_runs(headway: Shell) -> None:
    assert headway("eval", "run", "missing.toml").code == 3
    assert headway("eval", "run", write_suite(headway, PASSING + 'colour = "red"')).code == 2
    refused = headway("eval", "run", write_suite(headway, PASSING + 'commands = ["rm"]'))
    assert (refused.code, "HEADWAY_COMMANDS" in refused.err) == (2, True)
    assert headway("eval", "run", write_suite(headway, PASSING + 'role = "pirate"')).code == 2
    assert headway("eval", "run", write_suite(headway, PASSING), "--model", "nobody:nothing").code == 2
    assert headway("eval", "run", write_suite(headway, PASSING), "--filter", "x").code == 3
    assert not list(headway.folder.glob(".headway/evals/**/*.jsonl"))
    listed = headway.json("eval", "run", "basics", "--list", "--filter", "hostile")["cases"]
    assert [case["name"] for case in listed] == ["quoted-writ", "prompt-injection"]


@pytest.fixture
def forecaster(talker: Shell) -> Shell:
    folder = talker.folder / ".headway" / "tools"
    folder.mkdir(parents=True)
    (folder / "forecast.py").write_text(TOOL.replace('"calls.log"', repr(str(talker.folder / "calls.log"))))
    talker.trust()
    return talker


def ask_weather(city: str) -> Script:
    write = calls(("write_file", {"path": "report.txt", "content": "rain"}))
    return by_turn(calls(("read_file", {"path": "places.txt"})), calls(("weather", {"city": city})), write, text(f"{city}: rain."))


def test_a_finished_turn_becomes_a_case_that_replays_its_calls(forecaster: Shell, model: ModelServer) -> None:
    workspace = forecaster.folder / ".headway" / "workspace" / "1"
    workspace.mkdir(parents=True)
    (workspace / "places.txt").write_text("Oslo\nBergen's\n")
    model.script = ask_weather("Oslo")
    turn_id = forecaster.json("chat", "What is the weather there?\nSee places.txt.")["turn"]["id"]
    assert forecaster.json("eval", "record", turn_id, "--suite", "cases.toml")["case"]["name"] == "what-is-the-weather-there"
    assert forecaster.json("eval", "record", turn_id, "--suite", "cases.toml", "--name", "again")["case"]["name"] == "again"
    assert forecaster("eval", "record", turn_id, "--suite", "cases.toml", "--name", "again").code == 4
    stanza = Path(forecaster.folder, "cases.toml").read_text()
    assert "Bergen's" in stanza
    assert 'path = "report.txt", sha256 = "' in stanza
    assert 'report.txt" = ' not in stanza  # the turn wrote it, so it is not there at the beginning

    forecaster.ok("eval", "run", "cases.toml", "--replay")
    assert Path(forecaster.folder, "calls.log").read_text() == "Oslo\n"  # the recorded result was served
    forecaster.ok("eval", "run", "cases.toml", "--filter", "again")
    assert Path(forecaster.folder, "calls.log").read_text() == "Oslo\nOslo\n"

    model.script = ask_weather("Bergen")
    ran = forecaster("eval", "run", "cases.toml", "--replay", "--filter", "again")
    assert ran.code == 1
    assert 'The recording has no result of this call: weather {"city": "Bergen"}' in ran.out
    assert "First differs from the recording at step 2:" in ran.out
    assert Path(forecaster.folder, "calls.log").read_text() == "Oslo\nOslo\n"


def test_a_recorded_case_has_no_secret_of_the_environment(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2hunter2"
    monkeypatch.setenv("PAYMENT_API_KEY", secret)
    turn_id = headway.json("chat", f"{secret}: write {secret}.txt: {secret}")["turn"]["id"]
    headway.ok("eval", "record", turn_id, "--suite", "suite/cases.toml")
    files = [path for path in (headway.folder / "suite").rglob("*") if path.is_file()]
    assert len(files) >= 2
    for path in files:
        assert "hunter2" not in path.name
        assert "hunter2" not in path.read_text()


def test_a_recording_is_compared_without_the_numbers_of_rows(headway: Shell) -> None:
    request = 'Write a.txt: one, then replace "one" with "two" in a.txt'
    headway.ok("chat", request)  # its plan takes the first numbers
    turn_id = headway.json("chat", request)["turn"]["id"]
    headway.ok("eval", "record", turn_id, "--suite", "cases.toml", "--name", "edit")
    suite = headway.folder / "cases.toml"
    suite.write_text(suite.read_text().replace('path = "a.txt", sha256', 'path = "b.txt", sha256'))
    ran = headway("eval", "run", "cases.toml", "--replay")
    assert ran.code == 1
    assert "There is no b.txt" in ran.out
    assert "First differs" not in ran.out


def test_only_a_finished_turn_can_be_recorded(headway: Shell) -> None:
    headway.ok("chat", "hello")
    assert headway("eval", "record", "no-such-turn", "--suite", "cases.toml").code == 3
    assert not (headway.folder / "cases.toml").exists()
