"""`headway halt` and `headway unhalt`: the kill switch of the whole installation."""

import re
import time

from headway.storage.direct import DirectDatabase
from tests.surfaces.shell import Shell, get_error_line
from tests.tables import each_row


def list_event_kinds(database_url: str) -> list[str]:
    with DirectDatabase(database_url) as database:
        return [str(kind) for (kind,) in database.read(lambda tx: tx.all("SELECT kind FROM events ORDER BY seq"))]


def test_thrown_and_lifted(headway: Shell, database_url: str) -> None:
    flags = ("--database-url", database_url)
    headway.ok("todo", "add", "so that there is somebody to be told", *flags)
    halted = headway("halt", *flags)
    get_error_line(headway("chat", "hello", *flags), 5)
    lifted = headway("unhalt", *flags)

    assert (halted.code, lifted.code, halted.err, lifted.err) == (0, 0, "", "")
    assert "headway unhalt" in halted.out
    assert lifted.out == "The halt is lifted.\n"
    assert headway("chat", "hello", *flags).code == 0
    assert [kind for kind in list_event_kinds(database_url) if "halted" in kind] == ["halted", "unhalted"]


def test_the_reason_of_a_halt_is_shown(headway: Shell) -> None:
    assert headway.ok("halt", "--why", "lunch\x1b[2J\nbreak").startswith("Halted: lunch\N{REPLACEMENT CHARACTER}[2J break. ")
    line = get_error_line(headway("chat", "hello"), 5)

    assert "lunch" in line
    assert "\x1b" not in line


def test_both_are_documents_too(headway: Shell) -> None:
    before = int(time.time())
    halted = headway.json("halt", "--why", "lunch")

    assert list(halted) == ["halt"]
    assert before <= halted["halt"].pop("since") <= time.time()
    assert halted["halt"] == {"halted": True, "why": "lunch", "by": "cli"}
    assert headway.json("unhalt") == {"halt": {"halted": False, "why": "", "since": 0, "by": ""}}


def test_halting_twice_changes_nothing(headway: Shell, database_url: str) -> None:
    flags = ("--database-url", database_url)
    headway.ok("todo", "add", "so that there is somebody to be told", *flags)
    first = headway.json("halt", "--why", "lunch", *flags)
    second = headway.json("halt", "--why", "something else", *flags)

    assert first == second
    output = headway.ok("halt", "--why", "something else", *flags)
    assert re.fullmatch(r"Already halted since .*: lunch\. The earlier reason is kept\. .*\n", output)
    assert headway.ok("unhalt", *flags) == "The halt is lifted.\n"
    assert headway.ok("unhalt", *flags) == "Nothing was halted.\n"
    assert [kind for kind in list_event_kinds(database_url) if "halted" in kind] == ["halted", "unhalted"]


def test_a_reason_that_cannot_be_stored_halts_nothing(headway: Shell) -> None:
    get_error_line(headway("halt", "--why", "x" * 10_000), 2)
    assert headway.ok("unhalt") == "Nothing was halted.\n"


def test_people_can_still_edit_todos_during_a_halt(headway: Shell) -> None:
    headway.ok("halt")
    headway.ok("todo", "add", "by hand")
    headway.ok("todo", "done", "1")
    assert headway.ok("todo", "list", "--all") == "#1 [completed] by hand\n"


WHOLE = ["halt", "unhalt", "serve", "worker", "doctor", "admin tenant list", "admin tenant add x", "admin tenant rm x"]


@each_row("command", WHOLE)
def test_installation_wide_commands_refuse_a_tenant_and_a_conversation(headway: Shell, command: str) -> None:
    """A user who names one tenant does not want to halt all of them."""
    for flag in ("--tenant", "--conversation"):
        for arguments in ([*command.split(), flag, "acme"], [flag, "acme", *command.split()]):
            line = get_error_line(headway(*arguments), 2)
            assert line.startswith(f"headway: {command.removesuffix(' x')} applies to the whole installation")
            assert f"omit {flag}" in line
    assert not headway.ledger.exists()
    assert "--tenant" not in headway.ok(*command.split(), "--help")


def test_other_flags_that_would_change_nothing_are_refused(headway: Shell) -> None:
    for arguments in (["jobs", "list", "--conversation", "k"], ["--conversation", "k", "goal", "list"], ["demo", "--home", "x"]):
        assert "; omit --" in get_error_line(headway(*arguments), 2)
    assert "--tenant" in headway.ok("jobs", "list", "--help")
