"""Output format: plain lines in a pipe, colours and marks on a terminal, and questions only on a terminal."""

import re

import pytest

from tests.surfaces.shell import Shell

BOLD, DIM = "1", "2"


def list_styles(line: str) -> set[str]:
    """Return the styles that a line of terminal output uses."""
    return {code for codes in re.findall(r"\x1b\[([0-9;]*)m", line) for code in codes.split(";")}


def strip_styles(line: str) -> str:
    """Return the line without its styles."""
    return re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()


def fill(headway: Shell) -> None:
    for subject in ("plan", "build", "test", "announce"):
        headway.ok("todo", "add", subject)
    headway.ok("todo", "edit", "3", "--after", "2")
    headway.ok("todo", "start", "2")
    headway.ok("todo", "done", "1")
    headway.ok("todo", "cancel", "4")


def test_a_list_on_a_terminal_has_counts_marks_and_dimmed_ended_rows(headway: Shell) -> None:
    fill(headway)
    ran = headway.terminal("todo", "list", "--all")
    counts, build, test, announce, plan = ran.out.splitlines()

    assert ran.code == 0
    assert strip_styles(counts) == "2 open (1 in progress, 1 pending) · 2 ended"
    assert BOLD in list_styles(counts)
    assert [strip_styles(line).split()[:3] for line in (build, test, announce, plan)] == [
        ["▶", "#2", "build"],
        ["○", "#3", "test"],
        ["✕", "#4", "announce"],
        ["✔", "#1", "plan"],
    ]
    assert "after #2" in strip_styles(test)
    for line, subject in ((announce, "announce"), (plan, "plan")):
        before = line[: line.index(subject)]
        assert DIM in before.rpartition("\x1b[")[2].partition("m")[0].split(";")
    assert DIM not in build[: build.index("build")].rpartition("\x1b[")[2].partition("m")[0].split(";")


def test_in_a_pipe_everything_is_plain(headway: Shell) -> None:
    fill(headway)
    for command in (["todo", "list", "--all"], ["todo", "show", "2"], ["todo", "ready"], ["doctor"], ["tenant", "list"]):
        out = headway.process(*command, env={"TERM": "xterm-256color"}).out

        assert "\x1b" not in out, command
        assert all(line == line.rstrip() for line in out.splitlines()), command


def test_a_list_in_a_pipe_is_a_line_a_todo(headway: Shell) -> None:
    fill(headway)
    assert headway.ok("todo", "list", "--all") == (
        "▶ #2 [in_progress] build\n#3 [pending] test\n#4 [canceled] announce\n#1 [completed] plan\n"
    )


def test_an_empty_list_on_a_terminal_says_so(headway: Shell) -> None:
    assert strip_styles(headway.terminal("todo", "list").out) == "no open todos"


def test_a_long_list_on_a_terminal_says_that_there_is_more(headway: Shell) -> None:
    fill(headway)
    assert "--limit" in headway.terminal("todo", "list", "--limit", "1").out
    assert "--limit" not in headway.terminal("todo", "list").out


def test_a_long_subject_stays_within_a_narrow_terminal(headway: Shell) -> None:
    headway.ok("todo", "add", "a rather long subject " * 10)
    lines = headway.terminal("todo", "list", width=40).out.splitlines()

    assert len(lines) > 3
    assert all(len(strip_styles(line)) <= 40 for line in lines)


def test_json_on_a_terminal_is_nothing_but_json(headway: Shell) -> None:
    fill(headway)
    assert headway.terminal("todo", "list", "--json").out.replace("\r\n", "\n") == headway.ok("todo", "list", "--json")


@pytest.mark.parametrize("command", [["todo", "rm", "1"], ["tenant", "rm", "local"]])
@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"])
def test_on_a_terminal_deleting_asks_and_takes_no_for_an_answer(headway: Shell, command: list[str], answer: str) -> None:
    headway.ok("todo", "add", "dear to me")
    ran = headway.terminal(*command, question="[y/N]", answer=answer)

    assert ran.code == 1
    assert "for good? [y/N]" in ran.out
    assert "Traceback" not in ran.out
    assert headway.ok("todo", "list") == "#1 [pending] dear to me\n"


def test_answering_no_says_that_nothing_was_changed(headway: Shell) -> None:
    headway.ok("todo", "add", "dear to me")
    ran = headway.terminal("todo", "rm", "1", question="[y/N]", answer="n\n")
    assert ran.out.splitlines()[-1] == "Nothing was changed."


def test_on_a_terminal_deleting_asks_and_takes_yes_for_an_answer(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    headway.ok("todo", "add", "two")
    ran = headway.terminal("todo", "rm", "1", "2", question="[y/N]", answer="y\n")

    assert ran.code == 0
    assert "#1 'one', #2 'two'" in ran.out
    assert headway.ok("todo", "list", "--all") == "no open todos\n"


@pytest.mark.parametrize("flag", ["--yes", "-y"])
def test_deleting_with_yes_does_not_ask(headway: Shell, flag: str) -> None:
    headway.ok("todo", "add", "one")
    assert headway.terminal("todo", "rm", "1", flag) == (0, "deleted #1\r\n", "")


def test_deleting_without_a_terminal_does_not_ask(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    assert headway.process("todo", "rm", "1") == (0, "deleted #1\n", "")


def test_an_interrupted_question_prints_one_line(headway: Shell) -> None:
    headway.ok("todo", "add", "dear to me")
    # If the command is about to read when the signal arrives, it reads first. The line end lets that read return.
    ran = headway.terminal("todo", "rm", "1", question="[y/N]", answer="\x03\n")

    assert ran.code == 1
    assert ran.out.splitlines()[-1] in ("headway: Interrupted.", "Nothing was changed.")  # an empty line means no
    assert headway.ok("todo", "list") == "#1 [pending] dear to me\n"
