"""`headway todo` with checks: completing, overriding, verifying, and what is asked without a sandbox."""

import json
from pathlib import Path

import pytest

from tests.surfaces.shell import Shell
from tests.tables import each_row

NUMBER = '{"kind": "outcome", "schema": {"type": "integer"}, "name": "a count"}'


def test_checks_run_in_the_folder_where_they_were_written(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--check-command", "grep -c passed log", "--check-file", "report.md~Summary")
    todo = headway.json("todo", "add", "ship", *options)["todo"]
    folder = str(headway.folder)
    assert todo["checks"] == [
        {"kind": "command", "run": "grep -c passed log", "folder": folder, "by": "operator"},
        {"kind": "file", "path": "report.md", "contains": "Summary", "folder": folder, "by": "operator"},
    ]
    failed = headway("todo", "done", "1")
    assert (failed.code, failed.out) == (4, "")
    assert "✗ command grep -c passed log" in failed.err
    assert "grep: log: No such file" in failed.err
    assert failed.err.endswith("headway: Todo 1 is not done.\n")
    (headway.folder / "log").write_text("3 passed")
    (headway.folder / "report.md").write_text("# Summary")
    monkeypatch.setenv("HEADWAY_HOME", str(headway.folder / ".headway"))
    monkeypatch.chdir(headway.folder.parent)
    assert headway.json("todo", "done", "1")["todo"]["proof"] == "proven"

    assert "#1 [completed] [✓ proven] ship" in headway.ok("todo", "list", "--all")
    shown = headway.ok("todo", "show", "1")
    assert f"check      command grep -c passed log in {folder} (operator)" in shown
    assert "all checks passed (cli)" in shown
    assert headway.ok("todo", "verify").endswith("1 of 1 hold\n")
    (headway.folder / "log").unlink()
    broken = headway("todo", "verify")
    assert broken.code == 4
    assert broken.out.startswith("✗ broken #1 ship\n    ✗ command grep -c passed log\n")
    assert "[✗ broken]" in headway.ok("todo", "list", "--all")
    assert "✗ command grep" in headway.ok("todo", "show", "1")


def test_a_check_sees_the_programs_in_path_with_their_libraries(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = headway.folder.parent / "environment"
    program = environment / "bin" / "greet"
    program.parent.mkdir(parents=True)
    (environment / "lib").mkdir()
    (environment / "lib" / "words").write_text("good morning")
    program.write_text('#!/bin/sh\ncat "$(dirname "$0")/../lib/words"\n')
    program.chmod(0o755)
    (environment / "key").write_text("secret")
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    headway.ok("todo", "add", "greet", "--check", '{"kind": "command", "run": "greet", "expect": "good morning"}')
    assert headway.json("todo", "done", "1")["todo"]["proof"] == "proven"
    headway.ok("todo", "add", "peek", "--check-command", f"cat {environment}/key")
    assert "No such file" in headway("todo", "done", "2").err
    headway.ok("todo", "add", "missing", "--check-command", "nonesuch")
    refusal = headway("todo", "done", "3").err
    assert "It ended with 127, not 0." in refusal
    assert "Install the program, activate its environment, or add its" in refusal


def test_a_check_that_makes_no_sense_is_refused(headway: Shell) -> None:
    refused = headway("todo", "add", "ship", "--check-file", "../../etc/passwd")
    assert (refused.code, refused.err) == (2, "headway: checks[0].path leads outside the workspace.\n")
    document = {"todos": [{"subject": "ship", "checks": [{"kind": "outcome", "schema": {"type": 7}}]}]}
    (headway.folder / "todos.json").write_text(json.dumps(document))
    assert "checks[0].schema.type must be one of" in headway("todo", "import", "todos.json").err
    assert headway.json("todo", "list")["todos"] == []


def test_a_check_can_be_overridden_with_a_reason(headway: Shell) -> None:
    headway.ok("todo", "add", "count", "--check", NUMBER)
    assert headway("todo", "done", "1", "--override", " ").code == 2
    done = headway.json("todo", "done", "1", "--override", "Counted by hand.")["todo"]
    assert (done["status"], done["proof"]) == ("completed", "overridden")
    assert headway.json("todo", "show", "1")["receipt"]["override"] == "Counted by hand."
    assert "completed without the checks: Counted by hand. (cli)" in headway.ok("todo", "show", "1")
    verified = headway("todo", "verify", "1", "--json")
    assert verified.json["results"][0]["todo"]["proof"] == "overridden"


def test_verify_reports_every_todo_and_says_which_have_no_checks(headway: Shell) -> None:
    assert headway.ok("todo", "verify") == "no completed todos have checks\n"
    headway.ok("todo", "add", "plain")
    headway.ok("todo", "add", "count", "--check", NUMBER)
    assert headway("todo", "verify", "1").code == 2
    assert headway("todo", "verify", "9").code == 3
    assert headway.json("todo", "verify") == {"results": []}
    everything = headway("todo", "verify", "--all", "--json")
    assert everything.code == 4
    (result,) = json.loads(everything.out)["results"]
    assert (result["todo"]["id"], result["todo"]["proof"], result["receipt"]["ok"]) == (2, "unproven", False)


def test_edit_replaces_checks(headway: Shell) -> None:
    headway.ok("todo", "add", "count", "--check", NUMBER)
    edited = headway.json("todo", "edit", "1", "--check-file", "a", "--workspace")["todo"]
    assert edited["checks"] == [{"kind": "file", "path": "a", "by": "operator"}]
    assert headway.json("todo", "edit", "1", "--no-checks")["todo"]["proof"] == "none"
    assert headway("todo", "edit", "1", "--no-checks", "--check", NUMBER).code == 2
    for options in (("--check", "[]"), ("--check", "{"), ("--check", '{"kind": "x"}'), ("--workspace",)):
        assert headway("todo", "edit", "1", *options).code == 2


def test_without_a_sandbox_a_command_needs_consent(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX", "off")
    headway.ok("todo", "add", "say", "--check-command", "echo hello > said")
    refused = headway("todo", "done", "1")
    assert refused.code == 2
    assert "these commands need --yes: echo hello > said." in refused.err
    asked = headway.terminal("todo", "done", "1", question="Run them?", answer="n\n")
    assert asked.code == 1
    assert "echo hello > said" in asked.out
    assert not (headway.folder / "said").exists()
    assert headway.json("todo", "done", "1", "--yes")["todo"]["proof"] == "proven"
    assert (headway.folder / "said").exists()
    assert headway.json("todo", "show", "1")["receipt"]["versions"]["sandbox"] == "none (HEADWAY_SANDBOX is off)"


def test_a_goal_has_checks(headway: Shell) -> None:
    goal = headway.json("goal", "add", "Count.", "--check", NUMBER, "--no-wait")["goal"]
    assert (goal["proof"], goal["checks"][0]["by"]) == ("unproven", "operator")
    shown = headway.ok("goal", "show", "1")
    assert "? unproven" in shown
    assert "a count (operator)" in shown


def test_a_tool_called_by_a_person_runs_checks(headway: Shell) -> None:
    headway.ok("todo", "add", "count", "--check", NUMBER)
    call = ("tools", "call", "todo_update", "--args")
    refused = headway(*call, '{"id": 1, "status": "completed", "outcome": "many"}')
    assert refused.code == 1
    assert "Check failed: a count" in refused.out
    assert "proven" in headway.ok(*call, '{"id": 1, "status": "completed", "outcome": "4"}')


def test_checks_survive_a_round_trip_and_their_proof_does_not(headway: Shell) -> None:
    headway.ok("todo", "add", "count", "--check", NUMBER, "--check-file", "a~b\nc")
    headway.ok("todo", "done", "1", "--override", "By hand.")
    (before,) = headway.json("todo", "list", "--all")["todos"]
    for name, loses in (("out.json", False), ("out.md", True)):
        exported = headway("todo", "export", name)
        assert ("the receipts of 1 todo, which are unproven" in exported.err) == loses
        headway.ok("todo", "rm", str(before["id"]), "--yes")
        (before,) = headway.json("todo", "import", name, "--yes")["todos"]
        assert (before["status"], before["proof"]) == ("completed", "unproven")
        assert before["checks"] == [
            {"kind": "file", "path": "a", "contains": "b\nc", "by": "person"},
            json.loads(NUMBER) | {"by": "person"},
        ]
        headway.ok("todo", "reopen", str(before["id"]))
        headway.ok("todo", "done", str(before["id"]), "--override", "By hand.")
    assert "proof: overridden" in headway.ok("todo", "export", "--format", "md")


def test_checks_in_a_file_from_elsewhere_are_shown_and_run_no_shell(headway: Shell, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    check = {
        "kind": "command",
        "run": "touch owned; echo \x1b[2Jx",
        "folder": str(tmp_path / "outside"),
        "name": "a spelling check",
    }
    (headway.folder / "TODO.md").write_text(f"- [ ] Fix typo\n  check: {json.dumps(check)}\n")
    (headway.folder / "todos.json").write_text(json.dumps([{"subject": "Fix typo", "checks": [{**check, "by": "operator"}]}]))
    for number, name in enumerate(("TODO.md", "todos.json"), 1):
        refused = headway("todo", "import", name)
        assert (refused.code, refused.out) == (2, "")
        assert "touch owned; echo" in refused.err
        assert "\x1b" not in refused.err
        assert f"(without its folder {tmp_path / 'outside'})" in refused.err
        assert "must be accepted. Nothing was imported. Read them, and repeat with --yes." in refused.err
        assert headway.terminal("todo", "import", name, question="Import them?", answer="n\n").code == 1
        assert len(headway.json("todo", "list")["todos"]) == number - 1

        (todo,) = headway.json("todo", "import", name, "--yes")["todos"]
        assert [(check["by"], "folder" in check) for check in todo["checks"]] == [("person", False)]
        failed = headway("todo", "done", str(todo["id"]), "--yes")
        assert failed.code == 1
        assert "is not allowed (HEADWAY_COMMANDS allows no program)" in failed.err
    assert list((tmp_path / "outside").iterdir()) == []
    assert headway("todo", "import", "-", "--format", "md", stdin="- [ ] no checks").code == 0


@each_row(
    ("folder", "reason"),
    [
        ("/", "is a folder of the system"),
        ("/etc", "is a folder of the system"),
        ("/etc/../etc/ssl/", "is a folder of the system"),
        ("//etc", "is a folder of the system"),
        ("/usr", "is a folder of the system"),
        ("/var/run/secrets", "is a folder of the system"),
        ("/home", "holds the files of all users"),
        ("/root", "holds the keys and settings of a user"),
        ("/root/.ssh", "holds the keys and settings of a user"),
        ("/home/ada", "holds the keys and settings of a user"),
        ("/home/ada/.aws/cache", "holds the keys and settings of a user"),
    ],
)
def test_a_check_cannot_name_folders_of_the_system_or_of_keys(headway: Shell, folder: str, reason: str) -> None:
    for check in ({"kind": "command", "run": "ls"}, {"kind": "file", "path": "x"}):
        refused = headway("todo", "add", "look", "--check", json.dumps({**check, "folder": folder}))
        assert (refused.code, reason in refused.err) == (2, True), refused.err


def test_a_check_reaches_nothing_of_headway_itself(headway: Shell) -> None:
    """Checks typed in the project's folder run there, and the home in it is empty for them."""
    home, link = headway.folder / ".headway", headway.folder / "innocent"
    headway.ok("todo", "add", "look", "--check-command", "ls -A .headway | wc -l", "--check-command", "cat innocent/headway.db")
    link.symlink_to(home)
    failed = headway("todo", "done", "1")
    assert (failed.code, "SQLite" in failed.err) == (4, False)
    assert "No such file" in failed.err
    headway.ok(
        "todo", "add", "count", "--check", json.dumps({"kind": "command", "run": "ls -A .headway", "folder": str(headway.folder)})
    )
    headway.ok("todo", "done", "2")
    assert headway.json("todo", "show", "2")["receipt"]["checks"][0]["detail"] == ""
    for folder, path in (
        (home, "headway.db"),
        (link, "headway.db"),
        (home / "workspace" / "1", "x"),
        (headway.folder, ".headway/headway.db"),
    ):
        check = {"kind": "file", "path": path, "folder": str(folder), "exists": False}
        commands = ({"kind": "command", "run": "ls", "folder": str(folder)},) if folder != headway.folder else ()
        for definition in (check, *commands):
            todo = headway.json("todo", "add", "read", "--check", json.dumps(definition))["todo"]
            failed = headway("todo", "done", str(todo["id"]))
            assert failed.code == 4
            assert "holds Headway's own files" in failed.err


def test_a_database_outside_of_the_home_is_hidden(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", f"sqlite:///{headway.folder / 'elsewhere.db'}")
    headway.ok("todo", "add", "read", "--check-command", "cat elsewhere.db*", "--check-file", "elsewhere.db~SQLite")
    failed = headway("todo", "done", "1")
    assert failed.code == 4
    assert "SQLite format" not in failed.err
    assert "✗ file elsewhere.db\n    " in failed.err
    assert "holds Headway's own files" in failed.err


def test_a_checklist_with_a_broken_check_is_refused(headway: Shell) -> None:
    refused = headway("todo", "import", "-", "--format", "md", stdin='- [ ] a\n  check: {"kind": \n')
    assert refused.code == 2
    assert "Item 1 of the document" in refused.err
    refused = headway("todo", "import", "-", "--format", "json", stdin='[{"subject": "a", "checks": [{"kind": "x"}]}]')
    assert "Todo 1 of the document: checks[0].kind must be one of" in refused.err
