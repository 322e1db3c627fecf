"""`headway todo …`: every subcommand, its JSON and its exit code."""

import subprocess
import time
from typing import Any

import pytest

from tests.surfaces.shell import CommandResult, Shell, get_error_line
from tests.tables import each_row

FIELDS = [
    "id",
    "conversation_id",
    "turn_id",
    "agent_id",
    "subject",
    "description",
    "completion_criteria",
    "agent_type",
    "status",
    "position",
    "outcome",
    "checks",
    "proof",
    "completed_by",
    "priority",
    "due",
    "labels",
    "depends_on",
    "created_at",
    "updated_at",
    "started_at",
    "completed_at",
]


def add(headway: Shell, *subjects: str) -> list[int]:
    return [headway.json("todo", "add", subject)["todo"]["id"] for subject in subjects]


def status(headway: Shell, todo_id: int) -> str:
    value: str = headway.json("todo", "show", str(todo_id))["todo"]["status"]
    return value


def subjects(ran: Any) -> list[str]:
    return [todo["subject"] for todo in ran["todos"]]


def test_a_person_writes_work_down_does_it_and_looks_back(headway: Shell, database_url: str) -> None:
    def run(*arguments: str) -> CommandResult:
        return headway("--database-url", database_url, "todo", *arguments)

    first = run("add", "plan", "--json").json["todo"]["id"]
    second = run("add", "build", "--after", f"{first}", "--json").json["todo"]["id"]
    third = run("add", "rest", "--json").json["todo"]["id"]

    assert run("ready").out == f"#{first} [pending] plan\n#{third} [pending] rest\n"
    assert run("start", f"{first}").out == f"▶ #{first} [in_progress] plan\n"
    assert run("done", f"{first}", "--outcome", "on paper").out == f"#{first} [completed] plan\n"
    assert run("cancel", f"#{third}").out == f"#{third} [canceled] rest\n"
    assert run("ready").out == f"#{second} [pending] build\n"
    assert subjects(run("list", "--all", "--json").json) == ["build", "rest", "plan"]
    assert run("reopen", f"{first}").out == f"#{first} [pending] plan\n"
    assert run("ready").out == f"#{first} [pending] plan\n"
    assert run("rm", f"{second}", f"{third}").out == f"deleted #{second}, #{third}\n"
    assert run("list", "--all").out == f"#{first} [pending] plan\n"


def test_the_ledger_of_a_project_stays_out_of_its_repository(headway: Shell) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=headway.folder, check=True)
    headway.ok("todo", "add", "plan")
    assert headway.ledger.is_file()
    shown = subprocess.run(["git", "status", "--porcelain"], cwd=headway.folder, check=True, capture_output=True, text=True)
    assert ".headway" not in shown.stdout


def test_a_new_todo_has_every_field_of_the_contract(headway: Shell) -> None:
    before = int(time.time())
    other = headway.json("todo", "add", "first")["todo"]["id"]
    options = ["-d", "with care", "--criteria", "it is there", "--agent", "ada", "--agent-type", "writer", "--after", f"#{other}"]
    todo = headway.json("todo", "add", "write", "it", "down", *options)["todo"]

    assert list(todo) == FIELDS
    assert before <= todo.pop("created_at") == todo.pop("updated_at") <= time.time()
    assert todo == {
        "id": other + 1,
        "conversation_id": 0,
        "turn_id": None,
        "agent_id": "ada",
        "subject": "write it down",
        "description": "with care",
        "completion_criteria": "it is there",
        "agent_type": "writer",
        "status": "pending",
        "position": 2,
        "outcome": None,
        "checks": [],
        "proof": "none",
        "completed_by": None,
        "priority": "normal",
        "due": None,
        "labels": [],
        "depends_on": [other],
        "started_at": 0,
        "completed_at": 0,
    }


def test_a_todo_can_be_written_down_in_any_status(headway: Shell) -> None:
    going = headway.json("todo", "add", "going", "--status", "in_progress")["todo"]
    over = headway.json("todo", "add", "over", "--status", "cancelled")["todo"]

    assert going["started_at"]
    assert not going["completed_at"]
    assert (over["status"], bool(over["completed_at"])) == ("canceled", True)


def test_details_can_come_from_standard_input(headway: Shell) -> None:
    todo_id = headway.json("todo", "add", "long", "-d", "-", stdin="line one\nline two\n")["todo"]["id"]
    assert headway.json("todo", "show", f"{todo_id}")["todo"]["description"] == "line one\nline two\n"

    headway.ok("todo", "edit", f"{todo_id}", "-d", "-", stdin="ünicode")
    assert headway.json("todo", "show", f"{todo_id}")["todo"]["description"] == "ünicode"


@pytest.mark.parametrize("verb", ["start", "done", "cancel", "reopen", "show"])
def test_a_verb_on_one_todo_answers_with_that_todo(headway: Shell, verb: str) -> None:
    (todo_id,) = add(headway, "one")
    answer = headway.json("todo", verb, f"{todo_id}")

    assert list(answer) == ["todo"]
    assert list(answer["todo"]) == FIELDS


def test_a_verb_on_several_todos_answers_with_all_of_them(headway: Shell) -> None:
    first, second = add(headway, "one", "two")
    answer = headway.json("todo", "done", f"{second}", f"{first}", "--outcome", "both")

    assert [(todo["id"], todo["status"], todo["outcome"]) for todo in answer["todos"]] == [
        (second, "completed", "both"),
        (first, "completed", "both"),
    ]


@pytest.mark.parametrize(("verb", "code"), [("start", 3), ("done", 3), ("cancel", 3), ("reopen", 3), ("rm", 3)])
def test_a_typo_in_the_last_id_leaves_the_others_alone(headway: Shell, verb: str, code: int) -> None:
    first, second = add(headway, "one", "two")
    if verb == "reopen":
        headway.ok("todo", "done", f"{first}", f"{second}")
    before = headway.ok("todo", "export")

    assert get_error_line(headway("todo", verb, f"{first}", f"{second}", "404"), code) == "headway: No todo 404."
    assert headway.ok("todo", "export") == before


def test_the_outcome_and_the_times_of_an_ended_todo_are_kept(headway: Shell) -> None:
    (todo_id,) = add(headway, "one")
    started = headway.json("todo", "start", f"{todo_id}")["todo"]
    ended = headway.json("todo", "done", f"{todo_id}", "--outcome", "fine")["todo"]

    assert (ended["outcome"], ended["started_at"]) == ("fine", started["started_at"])
    assert ended["completed_at"] >= ended["started_at"] > 0


def test_reopening_puts_the_work_ahead_again(headway: Shell) -> None:
    (todo_id,) = add(headway, "one")
    headway.ok("todo", "start", f"{todo_id}")
    headway.ok("todo", "done", f"{todo_id}", "--outcome", "too early")
    todo = headway.json("todo", "reopen", f"{todo_id}")["todo"]

    assert (todo["status"], todo["outcome"], todo["started_at"], todo["completed_at"]) == ("pending", None, 0, 0)


@pytest.mark.parametrize("verb", ["done", "cancel"])
def test_ending_an_ended_todo_is_a_conflict(headway: Shell, verb: str) -> None:
    (todo_id,) = add(headway, "one")
    ended = headway.json("todo", verb, f"{todo_id}", "--outcome", "first")["todo"]

    assert "already" in get_error_line(headway("todo", verb, f"{todo_id}", "--outcome", "second"), 4)
    assert headway.json("todo", "show", f"{todo_id}")["todo"] == ended


@pytest.mark.parametrize(("first", "then"), [("done", "cancel"), ("cancel", "done")])
def test_an_ended_todo_only_reopens(headway: Shell, first: str, then: str) -> None:
    (todo_id,) = add(headway, "one")
    headway.ok("todo", first, f"{todo_id}")

    assert "it can become pending" in get_error_line(headway("todo", then, f"{todo_id}"), 4)


@pytest.mark.parametrize("end", ["done", "cancel"])
def test_starting_an_ended_todo_is_refused_and_says_how_to_reopen_it(headway: Shell, end: str) -> None:
    (todo_id,) = add(headway, "one")
    headway.ok("todo", end, f"{todo_id}")

    line = get_error_line(headway("todo", "start", f"{todo_id}"), 4)
    assert line.endswith(f"cannot be started. Reopen it first: set its status to pending (`headway todo reopen {todo_id}`).")
    headway.ok("todo", "reopen", f"{todo_id}")
    headway.ok("todo", "start", f"{todo_id}")
    assert status(headway, todo_id) == "in_progress"


@pytest.mark.parametrize(("verb", "kept"), [("start", "in_progress"), ("reopen", "pending")])
def test_the_status_it_already_has_is_no_error(headway: Shell, verb: str, kept: str) -> None:
    (todo_id,) = add(headway, "one")
    first = headway.json("todo", verb, f"{todo_id}")

    assert headway.json("todo", verb, f"{todo_id}") == first
    assert status(headway, todo_id) == kept


def test_editing_sets_the_named_fields_and_leaves_the_rest(headway: Shell) -> None:
    first, second = add(headway, "one", "two")
    before = headway.json("todo", "show", f"{second}")["todo"]
    options = ["--subject", "deux", "--criteria", "said", "--agent-type", "coder", "--outcome", "soon", "--after", f"{first}"]
    after = headway.json("todo", "edit", f"{second}", *options)["todo"]

    changed = {"subject": "deux", "completion_criteria": "said", "agent_type": "coder", "outcome": "soon", "depends_on": [first]}
    assert after == before | changed | {"updated_at": after["updated_at"]}
    cleared = headway.json("todo", "edit", f"{second}", "--agent-type", "", "--after", "")["todo"]
    assert cleared == after | {"agent_type": None, "depends_on": [], "updated_at": cleared["updated_at"]}


def test_a_todo_moves_to_the_place_it_is_given(headway: Shell) -> None:
    first, second, third = add(headway, "one", "two", "three")
    headway.ok("todo", "edit", f"{third}", "--position", "1")
    assert subjects(headway.json("todo", "list")) == ["three", "one", "two"]

    headway.ok("todo", "add", "zero", "--position", "1")
    assert subjects(headway.json("todo", "list")) == ["zero", "three", "one", "two"]
    assert {first, second} < {todo["id"] for todo in headway.json("todo", "list")["todos"]}


def test_an_edit_that_says_nothing_is_a_usage_error(headway: Shell) -> None:
    (todo_id,) = add(headway, "one")
    assert "Nothing to change" in get_error_line(headway("todo", "edit", f"{todo_id}"), 2)


def test_todos_that_wait_for_each_other_are_refused(headway: Shell) -> None:
    first, second = add(headway, "one", "two")
    headway.ok("todo", "edit", f"{second}", "--after", f"{first}")

    assert "wait for each other" in get_error_line(headway("todo", "edit", f"{first}", "--after", f"{second}"), 2)
    assert headway.json("todo", "show", f"{first}")["todo"]["depends_on"] == []


def test_a_card_shows_everything_about_a_todo(headway: Shell) -> None:
    headway.ok("todo", "add", "first")
    headway.ok("todo", "add", "second", "--after", "1", "-d", "one\ntwo", "--criteria", "both", "--agent-type", "coder")
    headway.ok("todo", "done", "2", "--outcome", "well")
    card = headway.ok("todo", "show", "#2")

    assert card.startswith("✔ #2 second\n")
    for name, value in [("status", "completed"), ("list", "tenant-wide"), ("waits for", "#1"), ("done by", "a person")]:
        assert f"\n  {name:<10} {value}\n" in card
    for name, value in [("agent", "index"), ("agent type", "coder"), ("outcome", "well"), ("position", "2"), ("done when", "both")]:
        assert f"\n  {name:<10} {value}\n" in card
    assert card.endswith("\n    one\n    two\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--json", "todo", "list", "--all"],
        ["todo", "--json", "list", "--all"],
        ["todo", "list", "--json", "--all"],
        ["todo", "list", "--all", "--json"],
    ],
)
def test_shared_flags_stand_before_or_after_the_subcommand(headway: Shell, arguments: list[str]) -> None:
    headway.ok("todo", "add", "one")
    assert subjects(headway(*arguments).json) == ["one"]


def test_a_flag_after_the_subcommand_wins_over_one_before_it(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    headway.ok("todo", "add", "ours", "--tenant", "acme")

    assert subjects(headway.json("--tenant", "local", "todo", "list", "--tenant", "acme")) == ["ours"]


def test_deleting_says_so_in_json(headway: Shell) -> None:
    (todo_id,) = add(headway, "one")
    assert headway.json("todo", "rm", f"{todo_id}") == {"deleted": True}
    assert headway("todo", "show", f"{todo_id}").code == 3


@each_row(
    "arguments",
    [
        ["todo", "add"],
        ["todo", "done"],
        ["todo", "show", "one"],
        ["todo", "show", "-1"],
        ["todo", "show", "٣"],
        ["todo", "show", "9" * 19],
        ["todo", "show", "9" * 5_000],
        ["todo", "add", "x", "--after", "y"],
        ["todo", "add", "x", "--status", "blocked"],
        ["todo", "add", "x", "--position", "-1"],
        ["todo", "add", "x", "--position", "9" * 30],
        ["todo", "list", "--limit", "0"],
        ["todo", "list", "--status", "open"],
        ["todo", "list", "--nonsense"],
        ["todo", "claim"],
        ["todo", "claim", "--agent", ""],
        ["todo", "claim", "--agent", "ada", "--lease", "soon"],
        ["todo", "claim", "--agent", "ada", "--lease", "0s"],
        ["todo", "export", "--format", "xml"],
        ["todo", "nonsense"],
        ["nonsense"],
    ],
)
def test_unintelligible_arguments_are_a_usage_error(headway: Shell, arguments: list[str]) -> None:
    line = get_error_line(headway(*arguments), 2)
    assert len(line) < 300


def test_help_names_every_command(headway: Shell) -> None:
    assert headway("todo", "done", "-h").out == headway("todo", "done", "--help").out
    output = headway.ok("todo", "--help")
    for verb in [
        "add",
        "list",
        "show",
        "start",
        "done",
        "cancel",
        "reopen",
        "rm",
        "ready",
        "claim",
        "export",
        "import",
        "edit",
        "heartbeat",
    ]:
        assert f"\n  {verb} " in output
