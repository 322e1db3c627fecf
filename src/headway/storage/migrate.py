"""Numbered, forward-only migrations. Each process that opens the database applies the missing ones first."""

import os
from functools import partial

from headway.ledger.errors import DatabaseTooNew
from headway.storage.postgres.row_security import protect_tables
from headway.storage.transaction import Connection, Transaction

MIGRATIONS_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
MIGRATION_LOCK = 0x4865_6164_7761_79
FIRST_PROTECTED = "_row_security.sql"  # from the migration of this name on, Postgres tables have row-level security


def list_migrations() -> list[tuple[int, str]]:
    """List (number, name) of every known migration, in order."""
    names = sorted(name for name in os.listdir(MIGRATIONS_FOLDER) if name.endswith(".sql"))
    return [(int(name[:4]), name) for name in names]


def get_newest_version() -> int:
    return list_migrations()[-1][0]


def migrate(connection: Connection) -> None:
    """Apply the missing migrations in one transaction, under a lock, so that several processes can start at once."""
    migrations = list_migrations()
    newest = get_newest_version()
    version = connection.read(get_current_version)
    if version < newest:
        version = connection.write(partial(apply_missing, migrations=migrations))
    if version > newest:
        raise DatabaseTooNew(
            f"The database is at schema version {version}; this Headway knows versions up to {newest}. Upgrade Headway."
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
    tx.enter_all_tenants()
    if tx.dialect.name == "postgresql":  # on SQLite, BEGIN IMMEDIATE already takes the lock
        tx.run("SELECT pg_advisory_xact_lock(?)", MIGRATION_LOCK)
    tx.run("CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)")
    version = get_current_version(tx)
    for number, name in migrations:
        if number > version:
            with open(os.path.join(MIGRATIONS_FOLDER, name), encoding="utf-8") as file:
                text = file.read()
            for statement in split_statements(text.replace("{id}", tx.dialect.primary_key)):
                tx.run(statement)
            tx.run("INSERT INTO migrations (number, name, applied_at) VALUES (?, ?, ?)", number, name, tx.now)
            version = number
    if tx.dialect.name == "postgresql" and any(name.endswith(FIRST_PROTECTED) for _, name in migrations):
        protect_tables(tx)  # also those that a later migration adds or builds again
    return version


def split_statements(text: str) -> list[str]:
    """Split a migration into statements. Comments take whole lines, and no statement contains a semicolon."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return [statement.strip() for statement in code.split(";") if statement.strip()]
