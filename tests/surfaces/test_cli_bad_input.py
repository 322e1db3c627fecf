"""Bad input: one error line, the right exit code, no data lost and nothing half-written."""

import pytest

from tests.surfaces.shell import Shell, get_error_line
from tests.tables import each_row

MEGABYTE = 1_000_000


@pytest.mark.parametrize("subject", ["", " ", "\n\t", "\u00a0"])
def test_an_empty_subject(headway: Shell, subject: str) -> None:
    assert "A todo needs a subject" in get_error_line(headway("todo", "add", subject), 2)
    headway.ok("todo", "add", "fine")
    assert "A todo needs a subject" in get_error_line(headway("todo", "edit", "1", "--subject", subject), 2)
    assert headway.ok("todo", "list") == "#1 [pending] fine\n"


def test_a_subject_that_is_too_long(headway: Shell) -> None:
    assert "at most 1,000" in get_error_line(headway("todo", "add", "x" * 1_001), 2)


def test_a_description_of_ten_megabytes(headway: Shell) -> None:
    headway.ok("todo", "add", "fine", "-d", "small")
    for command in (["add", "large"], ["edit", "1"]):
        line = get_error_line(headway("todo", *command, "-d", "-", stdin=b"x" * 10 * MEGABYTE), 2)
        assert line == "headway: description has 10,000,000 characters; at most 200,000 are allowed."
    assert [todo["description"] for todo in headway.json("todo", "list")["todos"]] == ["small"]


def test_a_description_that_is_no_text(headway: Shell) -> None:
    for bad in (b"caf\xe9", b"nul\0", b"\xed\xa0\x80"):
        get_error_line(headway("todo", "add", "x", "-d", "-", stdin=bad), 2)
    assert headway.ok("todo", "list", "--all") == "no open todos\n"


@each_row("verb", ["show", "start", "done", "cancel", "reopen", "rm"])
def test_an_unknown_id(headway: Shell, verb: str) -> None:
    assert get_error_line(headway("todo", verb, "404"), 3) == "headway: No todo 404."


def test_an_illegal_transition_names_the_legal_ones(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    headway.ok("todo", "done", "1")
    line = get_error_line(headway("todo", "cancel", "1"), 4)
    assert line == "headway: Todo 1 is completed and cannot become canceled; it can become pending or in_progress."


def test_a_flag_that_is_almost_right_is_guessed(headway: Shell) -> None:
    assert get_error_line(headway("todo", "list", "--hom", "x"), 2).endswith(
        "Did you mean '--home'? Try `headway todo list --help`."
    )


@each_row("option", ["--tenant", "--conversation", "--turn", "--agent", "--home", "--database-url"])
def test_arguments_that_are_no_text(headway: Shell, option: str) -> None:
    assert "not valid text" in get_error_line(headway.process("todo", "list", option, b"caf\xe9"), 2)


def test_a_subject_that_is_no_text(headway: Shell) -> None:
    assert "not valid text" in get_error_line(headway.process("todo", "add", b"caf\xe9"), 2)
    assert headway.ok("todo", "list") == "no open todos\n"
