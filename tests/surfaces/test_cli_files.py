"""`headway file`: list, show, get and diff."""

import json
from pathlib import Path

from headway.actions.access import local_tenant
from headway.actions.history import files
from headway.ledger.file_versions import FileOrigin, WrittenFiles, build_written
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.surfaces.shell import Shell, get_error_line


def record(headway: Shell, path: str, content: bytes, run_id: str = "") -> str:
    """Record a file as an agent's tool does, and return its id."""

    def act(tx: Transaction) -> str:
        written = WrittenFiles((build_written(path, content),))
        origin = FileOrigin("write_file", "researcher", run_id)
        return str(files.record_files(tx, local_tenant.ensure_local(tx).id, "", written, origin)["files"][0]["id"])

    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        return database.write(act)


def test_files_are_listed_shown_read_and_compared(headway: Shell, tmp_path: Path) -> None:
    assert headway.ok("files", "list") == "no files recorded\n"
    record(headway, "docs/plan.md", b"one\ntwo\n", "1")
    file_id = record(headway, "docs/plan.md", b"one\n2\n", "2")
    record(headway, "photo.bin", b"\xff\xfe")

    (line,) = headway.ok("files", "list", "--path", "docs", "--search", "PLAN").splitlines()
    assert line.split("\t")[:3] == [file_id, "2", "6 bytes"]
    assert line.endswith("\tresearcher with write_file\tdocs/plan.md")
    assert headway.ok("files", "list", "--role", "writer") == "no files recorded\n"
    assert get_error_line(headway("files", "list", "--sub-goal", "7"), 3) == "headway: No sub-goal #7."
    shown = headway.ok("files", "show", "docs/plan.md").splitlines()
    assert [row.split("\t")[:3] for row in shown[1:]] == [["2", "written", "6 bytes"], ["1", "written", "8 bytes"]]
    assert headway.ok("files", "get", file_id, "--version", "1") == "one\ntwo\n"
    assert headway.json("files", "get", "photo.bin")["base64"] == "//4="
    diff = ["--- docs/plan.md (version 1)", "+++ docs/plan.md (version 2)", "@@ -1,2 +1,2 @@", " one", "-two", "+2"]
    assert headway.ok("files", "diff", "docs/plan.md").splitlines() == diff
    assert headway.json("files", "diff", file_id, "--from", "0", "--to", "1")["added"] == 2
    record(headway, "photo.bin", b"\xfe\xff", "2")
    assert headway.ok("files", "diff", "photo.bin") == "The versions cannot be compared. At least one of them is not text.\n"

    target = tmp_path / "saved.md"
    headway.ok("files", "get", file_id, "--output", str(target))
    assert target.read_bytes() == b"one\n2\n"
    assert "exists. Nothing was written." in get_error_line(headway("files", "get", file_id, "-o", str(target)), 4)
    headway.ok("files", "get", file_id, "--version", "1", "-o", str(target), "--force")
    assert target.read_bytes() == b"one\ntwo\n"
    absent = get_error_line(headway("files", "show", "absent"), 3)
    assert absent == "headway: No file 'absent' is recorded. `headway file list` shows all."


def test_hostile_text_does_not_reach_the_terminal(headway: Shell) -> None:
    headway.ok("todo", "list")
    record(headway, "a\x1b]0;owned\x07\nb", b"\x1b[31mred\n")

    listed = headway.ok("files", "list")
    diff = headway.ok("files", "diff", json.loads(headway.ok("files", "list", "--json"))["files"][0]["id"])

    assert "\x1b" not in listed + diff
    assert len(listed.splitlines()) == 1
