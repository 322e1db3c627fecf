"""Full, closed, interrupted or non-Unicode output streams never cause a traceback."""

import json
import subprocess

from tests.surfaces.shell import HEADWAY, PATIENCE_S, Shell
from tests.tables import each_row
from tests.warm_start import build_command


@each_row("command", [["todo", "list"], ["todo", "list", "--json"], ["todo", "export"], ["doctor"]])
def test_an_answer_that_cannot_be_written(headway: Shell, command: list[str]) -> None:
    headway.ok("todo", "add", "one")
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([*build_command("-m", "headway"), *command], stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE_S)

    assert ran.stderr == b"headway: Operating system error: No space left on device.\n"
    assert ran.returncode == 1


def test_streams_that_are_closed(headway: Shell) -> None:
    """With a Python of its own for each command, which finds its streams closed when it starts."""
    headway.ok("todo", "add", "one")
    commands = [
        "todo add two -d - <&-",
        "todo list >&-",
        "todo list 2>&-",
        "todo add three -d - <&- >&- 2>&-",
        "todo rm 1 <&- >&- 2>&-",
    ]
    script = " && ".join(f'"$@" {command}' for command in commands)
    ran = subprocess.run(["sh", "-c", script, "sh", *HEADWAY], input=b"", capture_output=True, timeout=PATIENCE_S)

    assert (ran.returncode, ran.stderr) == (0, b"")
    assert headway.ok("todo", "list") == "#2 [pending] two\n#3 [pending] three\n"


def test_a_narrow_locale_costs_no_answer(headway: Shell) -> None:
    headway.ok("todo", "add", "žluťoučký kůň")
    ran = headway.process("todo", "start", "1", env={"PYTHONIOENCODING": "latin-1"}, warm=False)
    assert ran == (0, "▶ #1 [in_progress] žluťoučký kůň\n", "")


def test_a_reader_that_has_seen_enough(headway: Shell) -> None:
    headway.ok("todo", "import", "-", stdin=json.dumps([{"subject": f"todo {number} " + "x" * 500} for number in range(500)]))
    commands = ["todo list --limit 5000", "todo list --json --limit 5000", "todo export", "todo export --format md"]
    answers = {}
    warm = build_command("-m", "headway")
    for pipeline in [f"{command} | {reader}" for command in commands for reader in ("head -1", "true")]:
        ran = subprocess.run(["sh", "-c", f'"$@" {pipeline}', "sh", *warm], capture_output=True, timeout=PATIENCE_S)
        answers[pipeline] = (ran.returncode, ran.stderr, len(ran.stdout.splitlines()))

    assert answers == {pipeline: (0, b"", 1 if "head" in pipeline else 0) for pipeline in answers}
