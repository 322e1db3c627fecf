"""Faults of the database or the disk: one error line, exit code 1, no data lost and nothing half-written."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import apsw
import pytest

from headway.storage.direct import DirectDatabase
from tests.surfaces.shell import HEADWAY, PATIENCE_S, Shell, get_error_line

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
LOCK = """
import apsw, sys
ledger = apsw.Connection(sys.argv[1])
ledger.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def hold_lock(ledger: Path) -> Iterator[IO[bytes]]:
    """Hold an open transaction in another process until the yielded stream is closed."""
    with subprocess.Popen([sys.executable, "-c", LOCK, ledger], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        yield other.stdin
        other.stdin.close()


def limit_file_size(size: int) -> Callable[[], None]:
    """Limit the file size of a process, which then sees writes fail as on a full disk."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize("content", [b"not a database", b"garbage " * 10_000, b"SQLite format 3\0" + b"\xa5" * 8_192])
def test_a_file_that_is_no_database_is_left_untouched(headway: Shell, content: bytes) -> None:
    headway.ledger.parent.mkdir()
    headway.ledger.write_bytes(content)
    headway.trust()

    for command in (["todo", "list"], ["todo", "add", "x"], ["tenant", "list"]):
        line = get_error_line(headway(*command), 1)
        assert str(headway.ledger) in line
        assert "restore a backup" in line
    assert headway.ledger.read_bytes() == content


def test_a_database_of_another_program_is_left_untouched(headway: Shell) -> None:
    headway.ledger.parent.mkdir()
    other = apsw.Connection(str(headway.ledger))
    other.execute("CREATE TABLE todos (what TEXT); INSERT INTO todos VALUES ('theirs')")
    headway.trust()

    assert "already exists" in get_error_line(headway("todo", "add", "x"), 1)
    assert other.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").get == "todos"
    assert other.execute("SELECT what FROM todos").get == "theirs"
    other.close()


def test_a_database_of_a_newer_headway(headway: Shell, new_database_url: str) -> None:
    with DirectDatabase(new_database_url) as database:
        database.write(lambda tx: tx.run("INSERT INTO migrations (number, name, applied_at) VALUES (9999, 'future', 1)"))

    for command in (["todo", "list"], ["todo", "add", "x"]):
        line = get_error_line(headway(*command, "--database-url", new_database_url), 1)
        assert "schema version 9999" in line
        assert "Upgrade" in line


def test_a_database_from_before_the_first_release_says_how_to_take_its_todos_along(headway: Shell) -> None:
    unreleased = headway.folder / "unreleased.db"
    database = apsw.Connection(str(unreleased))
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE migrations (number, name, applied_at)")
    database.execute("INSERT INTO migrations VALUES (1, '0001_ledger.sql', 1)")
    database.close()
    before = unreleased.read_bytes()
    export = Path(__file__).parent / "exports" / "unreleased_todos.json"  # written by the last version of that time

    line = get_error_line(headway("todo", "list", "--database-url", f"sqlite:///{unreleased}"), 1)
    assert "Nothing was changed" in line
    assert "`headway todo export todos.json`" in line
    assert unreleased.read_bytes() == before

    headway.ok("todo", "import", str(export), "--yes")
    imported = {todo["subject"]: todo for todo in headway.json("todo", "list", "--all")["todos"]}
    assert [imported[subject]["status"] for subject in ("Write the schema", "Read it again", "Find a reader")] == [
        "pending",
        "pending",
        "completed",
    ]
    schema = imported["Write the schema"]
    assert (schema["priority"], schema["due"], schema["labels"]) == ("high", 1796133600, ["sql", "storage"])
    assert [check["path"] for check in schema["checks"]] == ["schema.sql"]
    assert imported["Read it again"]["depends_on"] == [schema["id"]]
    assert imported["Find a reader"]["outcome"] == "Grace reads it"


def test_a_folder_that_cannot_be_made(headway: Shell) -> None:
    (headway.folder / "file").write_text("in the way")
    line = get_error_line(headway("todo", "add", "x", "--home", "file/below"), 1)
    assert str(headway.folder / "file" / "below") in line
    assert (headway.folder / "file").read_text() == "in the way"


def test_a_home_that_is_a_file(headway: Shell) -> None:
    (headway.folder / "file").write_text("in the way")
    assert str(headway.folder / "file") in get_error_line(headway("todo", "add", "x", "--home", "file"), 1)
    assert (headway.folder / "file").read_text() == "in the way"


def test_a_database_that_is_a_folder(headway: Shell) -> None:
    assert str(headway.folder) in get_error_line(headway("todo", "add", "x", "--database-url", f"sqlite:///{headway.folder}"), 1)


def test_a_postgres_that_is_not_there(headway: Shell) -> None:
    line = get_error_line(headway("todo", "add", "x", "--database-url", "postgresql://me:hunter2@127.0.0.1:1/x"), 1)
    assert line.startswith("headway: Postgres cannot be reached")


def test_a_model_server_that_is_not_running_here_is_not_waited_for(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("HEADWAY_RETRY_DELAY_S", "3600")
    line = get_error_line(headway("chat", "hi", "--model", "ollama:qwen"), 1)
    assert line == "headway: ollama:qwen: no server is running at http://127.0.0.1:1/v1. Start it, or change the address."
    assert headway.json("conversation", "list")["conversations"] == []


def test_a_full_disk_loses_nothing_that_was_stored(headway: Shell) -> None:
    headway.ok("todo", "add", "kept")
    before = headway.ok("todo", "export")
    document = '[{"subject": "too much", "description": "' + "x" * 190_000 + '"}]'

    for stdin, command in (
        (b"", ["todo", "add", "too much", "-d", "x" * 100_000]),
        (document.encode(), ["todo", "import", "-"]),
    ):
        line = get_error_line(headway.process(*command, stdin=stdin, before=limit_file_size(60_000)), 1)
        assert str(headway.ledger) in line
        assert "nothing was changed" in line
    assert headway.ok("todo", "export") == before
    assert headway.ok("todo", "add", "there is space again") == "#2 [pending] there is space again\n"
    headway.ok("doctor")


def test_a_disk_that_is_full_from_the_start(headway: Shell) -> None:
    assert str(headway.ledger) in get_error_line(headway.process("todo", "add", "x", before=limit_file_size(2_000)), 1)
    assert headway.ok("todo", "add", "there is space") == "#1 [pending] there is space\n"


def test_an_export_that_finds_the_disk_full_keeps_the_copy_that_is_there(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    headway.ok("todo", "export", "copy.json")
    before = (headway.folder / "copy.json").read_bytes()
    headway.ok("todo", "add", "two", "-d", "x" * 100_000)
    headway.ok("todo", "list")
    ran = headway.process("todo", "export", "copy.json", before=limit_file_size(90_000))

    assert get_error_line(ran, 1) == "headway: copy.json cannot be written: File too large."
    assert (headway.folder / "copy.json").read_bytes() == before
    assert sorted(os.listdir()) == [".headway", "copy.json"]


def test_a_database_that_is_locked_for_too_long_is_one_error_and_can_still_be_read(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    with hold_lock(headway.ledger):
        assert headway.ok("todo", "list") == "#1 [pending] one\n"
        line = get_error_line(headway("todo", "done", "1"), 1)

    assert "locked by another process" in line
    assert "nothing was changed" in line
    assert headway.ok("todo", "list") == "#1 [pending] one\n"
    assert headway("todo", "done", "1").code == 0


def test_a_database_that_is_locked_for_a_moment_is_waited_for(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    with hold_lock(headway.ledger) as lock, subprocess.Popen([*HEADWAY, "todo", "done", "1"]) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
        lock.close()
        assert waiting.wait(PATIENCE_S) == 0
    assert headway.json("todo", "show", "1")["todo"]["status"] == "completed"
