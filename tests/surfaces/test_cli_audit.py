"""`headway admin audit`: who changed access, limits or rules."""

import json
import os
import pwd

from headway.storage.direct import DirectDatabase
from tests.surfaces.shell import Shell, get_error_line
from tests.warm_start import Program

ME = f"cli ({pwd.getpwuid(os.getuid()).pw_name})"


def test_the_command_line_names_the_user_of_the_machine(headway: Shell, database_url: str) -> None:
    flags = ("--database-url", database_url)
    headway.ok("tenant", "add", "acme", *flags)
    headway.ok("tenant", "add", "other", *flags)
    headway.ok("token", "new", "--tenant", "other", "--label", "\x1b[2Jci", *flags)
    headway.ok("halt", "--why", "lunch", *flags)
    headway.ok("unhalt", *flags)
    headway.ok("tenant", "rm", "acme", "--yes", *flags)

    entries = headway.json("audit", *flags)["entries"]
    actions = ["tenant.remove", "halt.lift", "halt.set", "token.create", "tenant.add", "tenant.add"]
    assert [entry["action"] for entry in entries] == actions
    assert {entry["who"] for entry in entries} == {ME}
    assert [entry["tenant"] for entry in entries if entry["tenant"]] == ["other"]
    assert entries[0]["old"]["name"] == "acme"

    lines = headway.ok("audit", *flags).splitlines()
    assert len(lines) == 6
    assert f"\t{ME}\tinstallation\ttenant.remove tenant:" in lines[0]
    assert not any("\x1b" in line for line in lines)

    newest = headway("audit", "--limit", "2", *flags)
    assert newest.out.splitlines() == lines[:2]
    assert "more exist" in newest.err
    printed = headway.ok("audit", "--json-lines", "--limit", "2", *flags)
    assert [json.loads(line) for line in printed.splitlines()] == entries[1::-1]
    assert [entry["action"] for entry in headway.json("audit", "--action", "halt", "--since", "1h", *flags)["entries"]] == actions[
        1:3
    ]
    assert [entry["tenant"] for entry in headway.json("audit", "--tenant", "other", "--action", "token", *flags)["entries"]] == [
        "other"
    ]


def test_checks_that_were_removed_and_leases_that_were_overruled_name_the_user(headway: Shell) -> None:
    headway.ok("todo", "add", "x", "--check-file", "a.txt")
    headway.ok("todo", "claim", "--agent", "worker-1")
    headway.ok("todo", "edit", "1", "--no-checks", "--force")
    assert [(entry["action"], entry["who"]) for entry in headway.json("audit")["entries"]] == [
        ("todo.force", ME),
        ("check.edit", ME),
    ]


def test_mistakes_are_said_in_one_line(headway: Shell) -> None:
    assert headway.ok("audit") == "no entries\n"
    assert "--json-lines" in get_error_line(headway("audit", "--json", "--follow"), 2)
    assert "No tenant named 'nobody'" in get_error_line(headway("audit", "--tenant", "nobody"), 3)
    assert "The local tenant does not exist yet." in get_error_line(headway("audit", "--tenant", "local"), 3)
    assert "duration" in get_error_line(headway("audit", "--since", "yesterday"), 2)


def test_follow_prints_each_entry_once(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    headway.ok("tenant", "add", "other")
    with Program(("audit", "--follow", "--json-lines", "--limit", "1"), headway.folder) as program:
        assert program.stdout is not None
        assert json.loads(program.stdout.readline())["new"] == {"name": "other"}
        headway.ok("halt")
        assert json.loads(program.stdout.readline())["action"] == "halt.set"
        with DirectDatabase(
            f"sqlite:///{headway.ledger}"
        ) as database:  # a transaction that took its number earlier, and committed late
            database.write(
                lambda tx: tx.run(
                    "INSERT INTO audit (seq, tenant_id, at, who, action, target, old, new) "
                    "VALUES (-1, 0, 9999999999999, 'ada', 'late', '', 'null', 'null')"
                )
            )
        assert json.loads(program.stdout.readline())["action"] == "late"
        program.terminate()
