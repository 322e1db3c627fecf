"""Write src/headway/storage/schema.sql: what all migrations together create in a new SQLite database.

    make schema

tests/storage/test_migrations.py fails when it is out of date.
"""

import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

from headway.storage.direct import connect
from headway.storage.migrate import SCHEMA_FOLDER, SCHEMA_NAME, apply_missing, list_migrations
from headway.storage.transaction import Transaction

HEADER = "-- Written by scripts/write_schema.py from the migrations: `make schema`. Changes made here are lost.\n"
CREATED = """SELECT sql FROM sqlite_master
    WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name <> 'migrations' ORDER BY rowid"""


def describe_schema() -> str:
    """Apply the migrations to a new SQLite database, and return the statements that create the same one."""
    with tempfile.TemporaryDirectory() as folder, closing(connect(f"sqlite:///{folder}/schema.db")) as connection:
        connection.write(partial(apply_missing, migrations=list_migrations()[:-1]))
        connection.write(partial(apply_missing, migrations=list_migrations()))
        return connection.read(describe)


def describe(tx: Transaction) -> str:
    statements = [str(sql) for (sql,) in tx.all(CREATED)]
    tables = [str(name) for (name,) in tx.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'migrations'")]
    rows = [(table, row) for table in tables for row in tx.all(f"SELECT * FROM {table}")]
    statements += [f"INSERT INTO {table} VALUES ({', '.join(map(quote, row))})" for table, row in rows]
    return HEADER + "".join(f"\n{statement};\n" for statement in statements)


def quote(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


if __name__ == "__main__":
    Path(SCHEMA_FOLDER, SCHEMA_NAME).write_text(describe_schema(), encoding="utf-8")
