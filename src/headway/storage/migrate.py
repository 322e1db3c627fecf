"""Numbered, forward-only migrations. Each process that opens the database applies the missing ones first.

They are applied in one transaction, except those with a file of the same name in `postgres/migrations`: on Postgres, its statements
replace them and run one by one, while other processes use the database (`postgres/online.py`). A new database gets all in one
transaction. A new SQLite database is created from `schema.sql`, the result of all migrations, which takes a sixth of the time.
`make schema` writes that file.
"""

import os
from contextlib import nullcontext
from functools import partial

from headway.ledger.errors import DatabaseTooNew
from headway.storage.postgres.row_security import protect_tables
from headway.storage.progress import MigrationProgress
from headway.storage.sqlite_connection import SqliteConnection
from headway.storage.transaction import Connection, Transaction, across_tenants, get_logger

MIGRATIONS_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
COPY_SUFFIX = ".before-"  # of the copy of an SQLite database, and the version that it was changed to
SCHEMA_FOLDER = os.path.dirname(__file__)
SCHEMA_NAME = "schema.sql"
ONLINE_FOLDER = os.path.join(os.path.dirname(__file__), "postgres", "migrations")
MIGRATION_LOCK = 0x4865_6164_7761_79
FIRST_PROTECTED = "_row_security.sql"  # from the migration of this name on, Postgres tables have row-level security
FIRST_WITH_CELLS = "_cells.sql"  # from the migration of this name on, tenants can be moved


def list_migrations() -> list[tuple[int, str]]:
    """List (number, name) of every known migration, in order."""
    names = sorted(name for name in os.listdir(MIGRATIONS_FOLDER) if name.endswith(".sql"))
    return [(int(name[:4]), name) for name in names]


def get_newest_version() -> int:
    return list_migrations()[-1][0]


def migrate(connection: Connection, direct_url: str = "") -> None:
    """Apply the missing migrations, under a lock, so that several processes can start at once. Those that run online use the direct
    URL, if there is one."""
    newest = get_newest_version()
    version, dialect = connection.read(lambda tx: (get_current_version(tx), tx.dialect.name))
    first, kept = version, copy_before(connection, newest) if 0 < version < newest else ""
    while version < newest:
        number, name = list_migrations()[version]
        if version and dialect == "postgresql" and has_online_part(name):
            apply_online_part(connection, number, name, direct_url)
            version = connection.read(get_current_version)
        else:
            with MigrationProgress("changing the schema in one transaction") if version else nullcontext():
                version = connection.write(partial(apply_missing, migrations=list_migrations()))
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


def has_online_part(name: str) -> bool:
    return os.path.exists(os.path.join(ONLINE_FOLDER, name))


def apply_online_part(connection: Connection, number: int, name: str, direct_url: str) -> None:
    from headway.storage.postgres.connection import PostgresConnection  # noqa: PLC0415  SQLite users do not load psycopg
    from headway.storage.postgres.online import apply_online  # noqa: PLC0415

    assert isinstance(connection, PostgresConnection)
    apply_online(
        direct_url or connection.url,
        read_statements(ONLINE_FOLDER, name),
        is_applied=lambda: connection.read(get_current_version) >= number,
        record=lambda: connection.write(across_tenants(partial(record_migration, number=number, name=name))),
    )


def get_current_version(tx: Transaction) -> int:
    table = tx.one(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
        if tx.dialect.name == "sqlite"
        else "SELECT 1 WHERE to_regclass(quote_ident(current_schema()) || '.migrations') IS NOT NULL"
    )
    row = tx.one("SELECT MAX(number) FROM migrations") if table else None
    return int(row[0]) if row and row[0] is not None else 0


def apply_missing(tx: Transaction, migrations: list[tuple[int, str]]) -> int:
    """Apply the missing migrations up to the first one that runs online. A new database has no other users, so it gets all."""
    tx.enter_all_tenants()
    is_postgres = tx.dialect.name == "postgresql"
    if is_postgres:  # on SQLite, BEGIN IMMEDIATE already takes the lock
        tx.run("SELECT pg_advisory_xact_lock(?)", MIGRATION_LOCK)
        tx.run("SELECT set_config('headway.moving', 'all', true)")  # the rows of a tenant that is being moved are changed, too
    tx.run("CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)")
    version = get_current_version(tx)
    is_new = version == 0
    if is_new and not is_postgres and migrations == list_migrations():
        return create_schema(tx, migrations)
    for number, name in migrations[version:]:
        is_online = is_postgres and has_online_part(name)
        if is_online and not is_new:
            break
        for statement in simplify_online_part(name) if is_online else read_statements(MIGRATIONS_FOLDER, name):
            tx.run(statement.replace("{id}", tx.dialect.primary_key))
        record_migration(tx, number, name)
        version = number
    if is_postgres and any(name.endswith(FIRST_PROTECTED) for _, name in migrations[:version]):
        protect_tables(tx)  # also those that a later migration adds or builds again
    if is_postgres and any(name.endswith(FIRST_WITH_CELLS) for _, name in migrations[:version]):
        from headway.storage.postgres.fence import fence_new_tables  # noqa: PLC0415  only a migration needs it

        fence_new_tables(tx)
    return version


def create_schema(tx: Transaction, migrations: list[tuple[int, str]]) -> int:
    """Create what all migrations together create, in a new SQLite database. Return its version."""
    for statement in read_statements(SCHEMA_FOLDER, SCHEMA_NAME):
        tx.run(statement)
    for number, name in migrations:
        record_migration(tx, number, name)
    return migrations[-1][0]


def hold_schema(tx: Transaction) -> None:
    """Let migrations of this Postgres database wait until the transaction ends."""
    tx.run("SELECT pg_advisory_xact_lock_shared(?)", MIGRATION_LOCK)


def simplify_online_part(name: str) -> list[str]:
    from headway.storage.postgres.online import simplify  # noqa: PLC0415  SQLite users do not load psycopg

    return simplify(read_statements(ONLINE_FOLDER, name))


def record_migration(tx: Transaction, number: int, name: str) -> None:
    tx.run("INSERT INTO migrations (number, name, applied_at) VALUES (?, ?, ?)", number, name, tx.now)


def read_statements(folder: str, name: str) -> list[str]:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return split_statements(file.read())


def split_statements(text: str) -> list[str]:
    """Split a migration into statements. Comments take whole lines, and no statement contains a semicolon."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return [statement.strip() for statement in code.split(";") if statement.strip()]
