"""Full, closed, interrupted or non-Unicode output streams never cause a traceback."""

import json
import subprocess

import pytest

from tests.surfaces.shell import HEADWAY, PATIENCE_S, Shell


@pytest.mark.parametrize("command", [["todo", "list"], ["todo", "list", "--json"], ["todo", "export"], ["doctor"]])
def test_an_answer_that_cannot_be_written(headway: Shell, command: list[str]) -> None:
    headway.ok("todo", "add", "one")
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([*HEADWAY, *command], stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE_S)

    assert ran.stderr == b"headway: Operating system error: No space left on device.\n"
    assert ran.returncode == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(headway: Shell, closed: str) -> None:
    headway.ok("todo", "add", "one")
    command = f'"$@" todo add two -d - {closed} && "$@" todo list {closed} && "$@" todo rm 1 {closed}'
    ran = subprocess.run(["sh", "-c", command, "sh", *HEADWAY], input=b"", capture_output=True, timeout=PATIENCE_S)

    assert (ran.returncode, ran.stderr) == (0, b"")
    assert headway.ok("todo", "list") == "#2 [pending] two\n"


def test_a_narrow_locale_costs_no_answer(headway: Shell) -> None:
    headway.ok("todo", "add", "žluťoučký kůň")
    ran = headway.process("todo", "start", "1", env={"PYTHONIOENCODING": "latin-1"})
    assert ran == (0, "▶ #1 [in_progress] žluťoučký kůň\n", "")


@pytest.mark.parametrize("reader", ["head -1", "true"])
@pytest.mark.parametrize(
    "command", ["todo list --limit 5000", "todo list --json --limit 5000", "todo export", "todo export --format md"]
)
def test_a_reader_that_has_seen_enough(headway: Shell, command: str, reader: str) -> None:
    headway.ok("todo", "import", "-", stdin=json.dumps([{"subject": f"todo {number} " + "x" * 500} for number in range(500)]))
    pipeline = f'"$@" {command} | {reader}'
    ran = subprocess.run(["sh", "-c", pipeline, "sh", *HEADWAY], capture_output=True, timeout=PATIENCE_S)

    assert (ran.returncode, ran.stderr) == (0, b"")
    assert len(ran.stdout.splitlines()) == (1 if reader == "head -1" else 0)
