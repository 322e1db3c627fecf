"""Migrations: numbered files that bring a database to this version, and a look at whether it has it."""

import os
from contextlib import nullcontext
from functools import partial
from typing import Final, NamedTuple

from headway.ledger.errors import DatabaseDamaged, DatabaseTooNew, DatabaseUnreleased
from headway.storage.progress import MigrationProgress
from headway.storage.sqlite_connection import SqliteConnection
from headway.storage.transaction import Connection, Dialect, Transaction, across_tenants, get_logger

FOLDER: Final = os.path.join(os.path.dirname(__file__), "migrations")
FIRST_NAME: Final = "0001_schema.sql"  # versions from before the first release had other names
ONLINE_SUFFIX: Final = ".online.sql"
COPY_SUFFIX: Final = ".before-"  # of the copy of an SQLite database, and the version that it was changed to
MIGRATION_LOCK: Final = 0x4865_6164_7761_79
MARKS: Final = {"sqlite": "-- sqlite", "postgresql": "-- postgres"}  # end the lines that are for one database


class Migration(NamedTuple):
    """A file with the statements of one schema version."""

    number: int
    name: str
    folder: str

    @property
    def has_online_part(self) -> bool:
        return os.path.exists(os.path.join(self.folder, self.online_name))

    @property
    def online_name(self) -> str:
        return self.name.removesuffix(".sql") + ONLINE_SUFFIX

    def read(self, dialect: Dialect) -> list[str]:
        return [text.replace("{id}", dialect.numbered) for text in read_statements(os.path.join(self.folder, self.name), dialect)]

    def read_online_part(self, dialect: Dialect) -> list[str]:
        return read_statements(os.path.join(self.folder, self.online_name), dialect)


def list_migrations(folder: str = FOLDER) -> list[Migration]:
    """List the known migrations, in order."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(".sql") and not name.endswith(ONLINE_SUFFIX))
    return [Migration(int(name[:4]), name, folder) for name in names]


def get_newest_version() -> int:
    return list_migrations()[-1].number


def migrate(connection: Connection, direct_url: str = "", folder: str = FOLDER) -> None:
    """Apply the missing migrations, under a lock, so that several processes can start at once. Online ones use the direct
    URL, if there is one."""
    migrations = list_migrations(folder)
    newest = len(migrations)
    version, dialect = connection.read(lambda tx: (get_current_version(tx), tx.dialect))
    first, kept = version, copy_before(connection, newest) if 0 < version < newest else ""
    while version < newest:
        migration = migrations[version]
        if version and dialect.name == "postgresql" and migration.has_online_part:
            apply_online_part(connection, migration, dialect, direct_url)
            version = connection.read(get_current_version)
        else:
            with MigrationProgress("changing the schema in one transaction") if version else nullcontext():
                version = connection.write(partial(apply_missing, migrations=migrations))
    if version > newest:
        raise DatabaseTooNew(
            f"The database is at schema version {version}; this Headway knows versions up to {newest}. Upgrade Headway."
        )
    if 0 < first < newest:
        get_logger().warning(
            "the database was changed from schema version %d to %d; an older Headway cannot open it any more%s", first, newest, kept
        )


def copy_before(connection: Connection, newest: int) -> str:
    """Keep a copy of an SQLite database before it is changed, and return how to say so. Operators of Postgres make backups."""
    if not isinstance(connection, SqliteConnection):
        return ""
    path = f"{connection.path}{COPY_SUFFIX}{newest}"
    return f"; a copy from before is {path}" if connection.copy_to(path) else "; the disk has no room for a copy from before"


def apply_online_part(connection: Connection, migration: Migration, dialect: Dialect, direct_url: str) -> None:
    from headway.storage.postgres.connection import PostgresConnection  # noqa: PLC0415  SQLite users do not load psycopg
    from headway.storage.postgres.online import apply_online  # noqa: PLC0415

    assert isinstance(connection, PostgresConnection)
    apply_online(
        direct_url or connection.url,
        migration.read_online_part(dialect),
        is_applied=lambda: connection.read(get_current_version) >= migration.number,
        record=lambda: connection.write(across_tenants(partial(record_migration, migration=migration))),
    )


def get_current_version(tx: Transaction) -> int:
    """Return the schema version, 0 for a new database. Raises DatabaseUnreleased for one from before the first release."""
    table = tx.one(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
        if tx.dialect.name == "sqlite"
        else "SELECT 1 WHERE to_regclass(quote_ident(current_schema()) || '.migrations') IS NOT NULL"
    )
    row = tx.one("SELECT MAX(number), MIN(name) FROM migrations") if table else None
    if not row or row[0] is None:
        return 0
    if row[1] != FIRST_NAME:
        raise DatabaseUnreleased(
            f"The database has schema version {row[0]} of a Headway from before the first release, which this one cannot read. "
            "Nothing was changed. To keep its todos, run `headway todo export todos.json` with the Headway that created it "
            "(`headway admin tenant export` archives everything else of a tenant), set HEADWAY_DATABASE_URL to a new database, and "
            "run `headway todo import todos.json` with this one."
        )
    return int(row[0])


def apply_missing(tx: Transaction, migrations: list[Migration]) -> int:
    """Apply the missing migrations up to the first one that runs online. A new database has no other users, so it gets all."""
    tx.enter_all_tenants()
    is_postgres = tx.dialect.name == "postgresql"
    if is_postgres:  # on SQLite, BEGIN IMMEDIATE already takes the lock
        tx.run("SELECT pg_advisory_xact_lock(?)", MIGRATION_LOCK)
        tx.run("SELECT set_config('headway.moving', 'all', true)")  # so that it may change the rows of a tenant that is being moved
    tx.run("CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)")
    version = get_current_version(tx)
    is_new = version == 0
    for migration in migrations[version:]:
        is_online = is_postgres and migration.has_online_part
        if is_online and not is_new:
            break
        for statement in simplify_online_part(migration, tx.dialect) if is_online else migration.read(tx.dialect):
            tx.run(statement)
        record_migration(tx, migration)
        version = migration.number
    if is_postgres:
        from headway.storage.postgres.fence import fence_new_tables, protect_tables  # noqa: PLC0415  only a migration needs it

        protect_tables(tx)
        fence_new_tables(tx)
    return version


def hold_schema(tx: Transaction) -> None:
    """Let migrations of this Postgres database wait until the transaction ends."""
    tx.run("SELECT pg_advisory_xact_lock_shared(?)", MIGRATION_LOCK)


def simplify_online_part(migration: Migration, dialect: Dialect) -> list[str]:
    from headway.storage.postgres.online import simplify  # noqa: PLC0415  SQLite users do not load psycopg

    return simplify(migration.read_online_part(dialect))


def record_migration(tx: Transaction, migration: Migration) -> None:
    tx.run("INSERT INTO migrations (number, name, applied_at) VALUES (?, ?, ?)", migration.number, migration.name, tx.now)


def read_statements(path: str, dialect: Dialect) -> list[str]:
    """Read the statements for a database. Comments take whole lines, and no statement contains a semicolon. A line that ends with
    the name of the other database in a comment is left out."""
    other_marks = tuple(mark for name, mark in MARKS.items() if name != dialect.name)
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip() for line in file if not line.lstrip().startswith("--")]
    code = "\n".join(line.removesuffix(MARKS[dialect.name]) for line in lines if not line.endswith(other_marks))
    return [statement.strip() for statement in code.split(";") if statement.strip()]


# Database health check.


def check_database(tx: Transaction) -> str:
    """Describe the database in one line, or raise an error that explains what is wrong with it."""
    if tx.dialect.name == "sqlite":
        problems = [str(row[0]) for row in tx.all("PRAGMA quick_check(3)")]
        if problems != ["ok"]:
            raise DatabaseDamaged(f"The database file is damaged ({problems[0][:200]}). Restore a backup.")
        name = tx.one("SELECT 'SQLite ' || sqlite_version()")
    else:
        name = tx.one("SELECT 'PostgreSQL ' || current_setting('server_version')")
    assert name is not None
    return f"{name[0]}, schema {get_current_version(tx)}"
