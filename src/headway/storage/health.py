"""Database health check."""

from headway.ledger.errors import DatabaseDamaged
from headway.storage.migrate import get_current_version
from headway.storage.transaction import Transaction


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
