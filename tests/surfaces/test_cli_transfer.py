"""`todo export` and `todo import`: an exported document imports without loss."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.surfaces.shell import HEADWAY, Shell, get_error_line

TURN = "6f2c1a9e-0d6b-4b53-9a51-3f3c0c7f9d10"
TIMES = {"created_at": 1700000000.001, "updated_at": 1700000003.999, "started_at": 1700000001.25, "completed_at": 1700000002.5}


def fill(headway: Shell) -> None:
    """Fill the ledger with todos that together use every field."""
    for key, title in (("first", "A thread"), ("second", "")):
        headway.ok("conversation", "new", title, "--key", key)
    headway.ok("todo", "add", "plan ▶ ünïcode", "-d", "one\n\n  two\ttabbed\n", "--criteria", "on paper", "--agent-type", "writer")
    headway.ok("todo", "add", "build", "--after", "1", "--agent", "ada", "--conversation", "first")
    headway.ok("todo", "add", "test", "--after", "1", "--after", "2", "--conversation", "second")
    headway.ok("todo", "add", "give up", "--status", "canceled")
    headway.ok("todo", "add", "before the plan", "--position", "1")
    headway.ok("todo", "start", "1")
    headway.ok("todo", "done", "1", "--outcome", "it is\non paper \x1b[31m \u202e")
    headway.ok("todo", "start", "2")
    ended = {"subject": "planned", "status": "completed", "conversation_id": 9, "turn_id": TURN, "outcome": ""} | TIMES
    waiting = {"subject": "also planned", "conversation_id": 9, "turn_id": TURN, "position": 5, "id": 2, "depends_on": [1]}
    document = {"conversations": [{"id": 9, "key": "second"}], "todos": [ended | {"id": 1, "completed_by": "check"}, waiting]}
    headway.ok("todo", "import", "-", stdin=json.dumps(document))


def other_home(headway: Shell) -> list[str]:
    return ["--home", str(headway.folder / "elsewhere")]


def test_json_loses_nothing_on_the_way_into_an_empty_ledger(headway: Shell) -> None:
    fill(headway)
    exported = headway.ok("todo", "export")
    imported = headway.json("todo", "import", "-", *other_home(headway), stdin=exported)

    assert (len(imported["todos"]), imported["known"]) == (7, 0)
    assert headway.ok("todo", "export", *other_home(headway)) == exported
    todos = {todo["subject"]: todo for todo in json.loads(exported)["todos"]}
    assert {name: todos["planned"][name] for name in TIMES} == TIMES
    assert [todos["also planned"][name] for name in ("turn_id", "position", "depends_on")] == [TURN, 5, [todos["planned"]["id"]]]
    assert [todos[name]["completed_by"] for name in ("planned", "plan ▶ ünïcode", "give up")] == ["check", "person", None]
    assert todos["plan ▶ ünïcode"]["outcome"] == "it is\non paper \x1b[31m \u202e"
    assert todos["before the plan"]["position"] < todos["plan ▶ ünïcode"]["position"]


def test_json_loses_nothing_on_the_way_to_postgres_and_back(headway: Shell, postgres_url: str) -> None:
    fill(headway)
    exported = headway.ok("todo", "export")
    headway.ok("todo", "import", "-", "--database-url", postgres_url, stdin=exported)
    moved = headway.ok("todo", "export", "--database-url", postgres_url)
    headway.ok("todo", "import", "-", *other_home(headway), stdin=moved)

    assert headway.ok("todo", "export", *other_home(headway)) == exported


def test_an_imported_ledger_continues_where_the_old_one_stopped(headway: Shell) -> None:
    fill(headway)
    headway.ok("todo", "import", "-", *other_home(headway), stdin=headway.ok("todo", "export"))

    for command in (["ready"], ["list"], ["list", "--conversation", "second"], ["list", "--turn", TURN]):
        assert headway.ok("todo", *command, *other_home(headway)) == headway.ok("todo", *command)
    headway.ok("todo", "done", "2", *other_home(headway))
    ready = [todo["subject"] for todo in headway.json("todo", "ready", *other_home(headway))["todos"]]
    assert sorted(ready) == ["before the plan", "test"]
    last = headway.json("todo", "add", "at the end", *other_home(headway))["todo"]
    assert last["position"] > max(todo["position"] for todo in headway.json("todo", "ready")["todos"])


def test_ids_are_renumbered_where_the_old_ones_had_gaps(headway: Shell) -> None:
    for subject in ("gone", "first", "gone too", "second"):
        headway.ok("todo", "add", subject)
    headway.ok("todo", "edit", "4", "--after", "2")
    headway.ok("todo", "rm", "1", "3")
    exported = headway.ok("todo", "export")
    headway.ok("todo", "import", "-", *other_home(headway), stdin=exported)
    imported_again = json.loads(headway.ok("todo", "export", *other_home(headway)))["todos"]

    first, second = json.loads(exported)["todos"]
    assert imported_again == [first | {"id": 1}, second | {"id": 2, "depends_on": [1]}]


def test_importing_twice_adds_nothing(headway: Shell) -> None:
    fill(headway)
    exported = headway.ok("todo", "export")
    second = headway.json("todo", "import", "-", stdin=exported)

    assert second == {"todos": [], "known": 7}
    assert headway.ok("todo", "export") == exported
    assert headway("todo", "import", "-", stdin=exported) == (0, "", "0 imported, 7 already in the ledger\n")


def test_importing_a_grown_export_adds_only_the_new_todos(headway: Shell) -> None:
    fill(headway)
    headway.ok("todo", "import", "-", *other_home(headway), stdin=headway.ok("todo", "export"))
    headway.ok("todo", "add", "news", "--after", "2")
    imported = headway.json("todo", "import", "-", *other_home(headway), stdin=headway.ok("todo", "export"))

    assert imported["known"] == 7
    assert [(todo["subject"], todo["depends_on"]) for todo in imported["todos"]] == [("news", [2])]


def test_todos_imported_into_an_existing_list_follow_it_in_their_order(headway: Shell) -> None:
    for subject in ("first", "second", "third"):
        headway.ok("todo", "add", subject)
    headway.ok("todo", "edit", "3", "--position", "1")
    exported = headway.ok("todo", "export")
    headway.ok("todo", "add", "mine", *other_home(headway))
    headway.ok("todo", "import", "-", *other_home(headway), stdin=exported)

    todos = headway.json("todo", "list", *other_home(headway))["todos"]
    assert [todo["subject"] for todo in todos] == ["mine", "third", "first", "second"]


def test_an_empty_ledger_can_be_moved_too(headway: Shell) -> None:
    exported = headway.ok("todo", "export")
    assert headway.json("todo", "import", "-", stdin=exported) == {"todos": [], "known": 0}


def test_a_plain_list_of_subjects_is_enough(headway: Shell) -> None:
    todos = headway.json("todo", "import", "-", stdin='[{"subject": "one"}, {"subject": "two", "status": "cancelled"}]')["todos"]
    assert [(todo["subject"], todo["status"]) for todo in todos] == [("one", "pending"), ("two", "canceled")]


def test_todos_of_no_conversation_are_imported_into_the_one_that_is_named(headway: Shell) -> None:
    conversation = headway.json("conversation", "new", "--key", "k")["conversation"]
    document = [{"subject": "one"}]
    for form, text in (("json", json.dumps(document)), ("md", "- [ ] one\n")):
        todos = headway.json("todo", "import", "-", "--format", form, "--conversation", "k", stdin=text)["todos"]
        assert [todo["conversation_id"] for todo in todos] == [conversation["id"]]


def test_a_turn_of_another_tenant_is_not_touched(headway: Shell) -> None:
    fill(headway)
    exported = headway.ok("todo", "export")
    headway.ok("tenant", "add", "acme")
    todos = headway.json("todo", "import", "-", "--tenant", "acme", stdin=exported)["todos"]

    (turn,) = {todo["turn_id"] for todo in todos} - {None}
    assert turn != TURN
    assert len(headway.json("todo", "list", "--all", "--turn", turn, "--tenant", "acme")["todos"]) == 2
    assert headway.ok("todo", "export") == exported


def test_an_export_of_one_conversation_can_be_imported_though_its_todos_wait_for_others(headway: Shell) -> None:
    fill(headway)
    ran = headway("todo", "export", "--conversation", "second")
    assert ran.err == "note: #3 waits for #2, which is in a list that was not exported.\n"

    imported = headway.json("todo", "import", "-", *other_home(headway), stdin=ran.out)["todos"]
    assert {todo["subject"] for todo in imported} >= {"test", "planned", "plan ▶ ünïcode"}
    assert "build" not in {todo["subject"] for todo in imported}


def test_markdown_shows_marks_descriptions_and_dependencies(headway: Shell) -> None:
    for subject, verb in (("release", ""), ("build", "start"), ("test", "done"), ("announce", "cancel"), ("rest", "")):
        todo_id = headway.json("todo", "add", subject, "-d", "line one\n\nline two" if subject == "build" else "")["todo"]["id"]
        if verb:
            headway.ok("todo", verb, f"{todo_id}")
    headway.ok("todo", "edit", "1", "--after", "2", "--after", "4")
    headway.ok("todo", "edit", "2", "--after", "3")

    expected = "- [ ] release\n  - [/] build\n    > line one\n    >\n    > line two\n    - [x] test\n  - [-] announce\n- [ ] rest\n"
    assert headway("todo", "export", "--format", "md") == (0, expected, "")


def test_nesting_in_markdown_becomes_dependencies(headway: Shell) -> None:
    document = "# Release\n\n- [ ] release\n  Before summer.\n  - [/] build\n    - [x] test\n  - [-] announce\n1. [ ] rest\n"
    todos = headway.json("todo", "import", "-", "--format", "md", stdin=document)["todos"]

    assert [(todo["subject"], todo["status"], todo["depends_on"]) for todo in todos] == [
        ("release", "pending", [2, 4]),
        ("build", "in_progress", [3]),
        ("test", "completed", []),
        ("announce", "canceled", []),
        ("rest", "pending", []),
    ]
    assert todos[0]["description"] == "Before summer."
    assert [todo["subject"] for todo in headway.json("todo", "ready")["todos"]] == ["rest"]


def test_markdown_is_the_same_after_a_round_trip(headway: Shell) -> None:
    document = "- [x] a\n  > said\n- [ ] b\n  - [x] c\n    - [-] d\n  - [/] e\n- [/] f\n- [x] g\n"
    headway.ok("todo", "import", "-", "--format", "md", stdin=document)
    assert headway.ok("todo", "export", "--format", "md") == document


def test_markdown_leaves_fenced_code_alone(headway: Shell) -> None:
    document = "- [ ] real\n\n```md\n- [ ] example\n```\n\n- [ ] too\n"
    todos = headway.json("todo", "import", "-", "--format", "md", stdin=document)["todos"]
    assert [todo["subject"] for todo in todos] == ["real", "too"]


def test_markdown_says_how_many_lines_it_did_not_take(headway: Shell) -> None:
    page = "# Plan\n- plain bullet\n- [ ] ok\n  - part of it\n- [q] weird\n- [ ]\n* * *\nprose\n```\n- code\n```\n"
    for flags in ([], ["--json"]):
        ran = headway("todo", "import", "-", "--format", "md", *flags, stdin=page)
        assert ran.err.endswith("note: 3 list lines were skipped: todos look like `- [ ] subject`.\n")
    assert [todo["description"] for todo in ran.json["todos"]] == ["- part of it"]
    assert "note" not in headway("todo", "import", "-", "--format", "md", stdin="- [ ] ok\n").err


def test_markdown_names_the_fields_it_leaves_out(headway: Shell) -> None:
    fill(headway)
    ran = headway("todo", "export", "--format", "md")

    assert ran.err == (
        "note: A checklist cannot represent that several todos wait for #1 (plan ▶ ünïcode); the outcome of 1 todo; the "
        "completion criteria of 1 todo; the agent type of 1 todo; the conversation of 4 todos; the turn of 2 todos; who completed "
        "1 todo, which counts as the importing person. Export as JSON to keep it.\n"
    )
    assert len([line for line in ran.out.splitlines() if "- [" in line]) == 7


def test_the_name_of_a_file_says_its_format(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    for name, start in (
        ("list.md", "- [ ] one"),
        ("LIST.MARKDOWN", "- [ ] one"),
        ("list.json", '{\n  "headway": 1'),
        ("list", "{"),
    ):
        assert headway("todo", "export", name) == (0, "", f"written to {name}\n")
        assert (headway.folder / name).read_text().startswith(start)
        assert headway("todo", "import", name, *other_home(headway)).code == 0


def test_an_export_answers_in_json_when_asked(headway: Shell) -> None:
    headway.ok("todo", "add", "one")

    assert headway.json("todo", "export", "--format", "md") == {"markdown": "- [ ] one\n"}
    assert headway.json("todo", "export", "list.json") == {"file": "list.json"}
    assert [todo["subject"] for todo in headway.json("todo", "export")["todos"]] == ["one"]


def test_an_export_keeps_the_links_and_the_permissions_of_the_file_it_replaces(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    private = headway.folder / "private.md"
    private.write_text("old")
    private.chmod(0o600)
    (headway.folder / "link.md").symlink_to(private)
    headway.ok("todo", "export", "link.md")

    assert (headway.folder / "link.md").is_symlink()
    assert private.read_text() == "- [ ] one\n"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_an_export_into_a_pipe_leaves_the_pipe_in_place(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    os.mkfifo("pipe.md")
    reader = os.open("pipe.md", os.O_RDONLY | os.O_NONBLOCK)
    try:
        headway.ok("todo", "export", "pipe.md")
        assert os.read(reader, 1000) == b"- [ ] one\n"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(os.stat("pipe.md").st_mode)


@pytest.mark.parametrize("file", ["no/such/folder/list.md", "."])
def test_a_file_that_cannot_be_written_is_one_error_and_leaves_nothing_behind(headway: Shell, file: str) -> None:
    headway.ok("todo", "add", "one")
    assert f"{file} cannot be written" in get_error_line(headway("todo", "export", file), 1)
    assert os.listdir(headway.folder) == [".headway"]


def test_a_document_may_start_with_a_byte_order_mark(headway: Shell) -> None:
    for form, document in (("json", b'[{"subject": "one"}]'), ("md", b"- [ ] one")):
        todos = headway.json("todo", "import", "-", "--format", form, stdin=b"\xef\xbb\xbf" + document)["todos"]
        assert [todo["subject"] for todo in todos] == ["one"]


def test_an_import_that_is_killed_at_any_moment_leaves_all_or_nothing(headway: Shell, tmp_path: Path) -> None:
    document = tmp_path / "many.json"
    document.write_text(json.dumps([{"subject": f"todo {number}", "id": number} for number in range(3_000)]))
    headway.ok("todo", "add", "here before")
    for delay in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, None):
        with subprocess.Popen(
            [*HEADWAY, "todo", "import", document], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as child:
            try:
                child.wait(delay)
            except subprocess.TimeoutExpired:
                child.kill()
        count = len(headway.json("todo", "list", "--limit", "1000000")["todos"])
        assert (count - 1) % 3_000 == 0
        headway.ok("doctor")
    assert count > 1
