"""Migrations run at every start, and exactly once, even if several processes start at the same time."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headway.ledger.errors import DatabaseTooNew, DatabaseUnreleased, StorageError
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase, connect
from headway.storage.migrate import FIRST_NAME, FOLDER, get_current_version, list_migrations, migrate
from headway.storage.transaction import Row, Transaction, across_tenants
from headway.testing import FixedClock, TenantHarness

SECOND = """-- Todos have colours, and every tenant has brushes.
ALTER TABLE todos ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue';
CREATE TABLE brushes (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE
);
UPDATE todos SET colour = 'red' WHERE completed_at = 0;
CREATE INDEX todos_by_colour ON todos (tenant_id, colour);  -- postgres
CREATE INDEX todos_by_colour ON todos (colour);  -- sqlite
"""

OPEN = """
import sys
from headway.storage.direct import DirectDatabase

print("ready", flush=True)
input()
with DirectDatabase(sys.argv[1]) as database:
    print(database.read(lambda tx: tx.all("SELECT number FROM migrations ORDER BY number")))
"""


def list_tables(tx: Transaction) -> list[str]:
    rows = tx.all(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        if tx.dialect.name == "sqlite"
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    )
    return sorted(str(row[0]) for row in rows)


def read_all_rows(tx: Transaction) -> dict[str, list[Row]]:
    """Return every row of every table."""
    return {table: sorted(tx.all(f"SELECT * FROM {table}"), key=repr) for table in list_tables(tx)}


def test_eight_processes_that_start_at_once_on_an_empty_database_all_find_it_ready(
    new_database_url: str, at_once: Callable[..., list[str]]
) -> None:
    printed = at_once(OPEN, new_database_url)

    assert printed == [f"{[(one.number,) for one in list_migrations()]}\n"] * 8
    with DirectDatabase(new_database_url) as database:
        assert TenantHarness(database).add("first").position == 1


def test_opening_an_up_to_date_database_changes_nothing(new_database_url: str, clock: FixedClock) -> None:
    with DirectDatabase(new_database_url, clock) as database:
        TenantHarness(database).add("kept")
        before = database.read(read_all_rows)
    clock.advance(3600)

    with DirectDatabase(new_database_url, clock) as database:
        assert database.read(read_all_rows) == before
    Database(new_database_url, clock).close()
    with DirectDatabase(new_database_url, clock) as database:
        assert database.read(read_all_rows) == before


@pytest.mark.parametrize("kind", [DirectDatabase, Database])
def test_a_newer_database_is_refused_in_clear_words_and_left_as_it_is(
    new_database_url: str, clock: FixedClock, kind: type[DirectDatabase] | type[Database]
) -> None:
    with DirectDatabase(new_database_url, clock) as database:
        TenantHarness(database).add("from the future")
        database.write(lambda tx: tx.run("INSERT INTO migrations VALUES (9000, '9000_telepathy.sql', 1)"))
        before = database.read(read_all_rows)

    with pytest.raises(DatabaseTooNew, match=r"schema version 9000; this Headway knows versions up to \d+. Upgrade Headway"):
        kind(new_database_url, clock)

    with closing(connect(new_database_url)) as connection:
        assert connection.read(across_tenants(read_all_rows)) == before


def test_a_newer_sqlite_file_is_left_byte_for_byte(tmp_path: Path, sqlite_url: str) -> None:
    with DirectDatabase(sqlite_url) as database:
        database.write(lambda tx: tx.run("INSERT INTO migrations VALUES (9000, '9000_telepathy.sql', 1)"))
    before = (tmp_path / "headway.db").read_bytes()

    with pytest.raises(DatabaseTooNew):
        DirectDatabase(sqlite_url)

    assert (tmp_path / "headway.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["headway.db"]


def test_a_migration_that_fails_half_way_leaves_nothing_behind(new_database_url: str) -> None:
    with closing(connect(new_database_url)) as connection:
        # A table of another program conflicts with one of the last statements.
        connection.write(lambda tx: tx.run("CREATE TABLE events (ours INTEGER)"))

    with pytest.raises(StorageError, match="events"):
        DirectDatabase(new_database_url)

    with closing(connect(new_database_url)) as connection:
        assert connection.read(list_tables) == ["events"]


@pytest.fixture
def two_migrations(tmp_path: Path) -> str:
    """A folder with the schema and another migration."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    shutil.copy(Path(FOLDER, FIRST_NAME), folder)
    (folder / "0002_colours.sql").write_text(SECOND, encoding="utf-8")
    return str(folder)


def read_colours(tx: Transaction) -> tuple[int, list[Row], list[Row]]:
    tx.run("INSERT INTO brushes (tenant_id) SELECT id FROM tenants")
    return get_current_version(tx), tx.all("SELECT subject, colour FROM todos"), tx.all("SELECT id FROM brushes")


def test_a_second_migration_changes_new_and_existing_databases(new_database_url: str, two_migrations: str) -> None:
    with DirectDatabase(new_database_url) as database:
        TenantHarness(database).add("kept")
    with closing(connect(new_database_url)) as connection:
        for _ in range(2):  # the second time, nothing is left to do
            migrate(connection, folder=two_migrations)
        assert connection.write(across_tenants(read_colours)) == (2, [("kept", "red")], [(1,)])


def test_a_new_database_gets_all_migrations(new_database_url: str, two_migrations: str) -> None:
    with closing(connect(new_database_url)) as connection:
        migrate(connection, folder=two_migrations)
        assert connection.write(across_tenants(read_colours)) == (2, [], [])


def test_an_upgrade_says_what_it_did_and_keeps_a_copy_of_an_sqlite_file(
    tmp_path: Path, two_migrations: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "old.db"
    with DirectDatabase(f"sqlite:///{path}") as database:
        TenantHarness(database).add("kept")

    copy = tmp_path / "old.db.before-2"
    for _ in range(2):
        with closing(connect(f"sqlite:///{path}")) as connection:
            migrate(connection, folder=two_migrations)
    assert caplog.messages == [
        "the database was changed from schema version 1 to 2; an older Headway cannot open it any more; "
        f"a copy from before is {copy}"
    ]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["migrations", "old.db", copy.name]
    with closing(connect(f"sqlite:///{copy}")) as connection:
        rows = "SELECT (SELECT MAX(number) FROM migrations), (SELECT subject FROM todos)"
        assert connection.read(lambda tx: tx.one(rows)) == (1, "kept")


@pytest.mark.parametrize("kind", [DirectDatabase, Database])
@pytest.mark.parametrize("version", [1, 50])
def test_a_database_from_before_the_first_release_is_refused_and_left_as_it_is(
    new_database_url: str, kind: type[DirectDatabase] | type[Database], version: int
) -> None:
    with closing(connect(new_database_url)) as connection:
        connection.write(lambda tx: add_unreleased(tx, version))
        before = connection.read(read_all_rows)

    with pytest.raises(DatabaseUnreleased, match=f"schema version {version} .* Nothing was changed. .*headway todo import"):
        kind(new_database_url)

    with closing(connect(new_database_url)) as connection:
        assert connection.read(read_all_rows) == before


def add_unreleased(tx: Transaction, version: int) -> None:
    tx.run("CREATE TABLE migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)")
    for number in range(1, version + 1):
        tx.run("INSERT INTO migrations VALUES (?, ?, 1)", number, f"{number:04}_{'ledger' if number == 1 else 'later'}.sql")
    tx.run("CREATE TABLE todos (id BIGINT PRIMARY KEY, subject TEXT NOT NULL)")
    tx.run("INSERT INTO todos VALUES (1, 'kept')")


def test_migrations_are_numbered_without_gaps() -> None:
    assert [one.number for one in list_migrations()] == list(range(1, len(list_migrations()) + 1))
    assert list_migrations()[0].name == FIRST_NAME
