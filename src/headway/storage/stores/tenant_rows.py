"""SQL over all tables of a tenant: to export its rows, and to delete them."""

from collections.abc import Iterator

from headway.storage.stores.retention import TODO_SIZE, Batch, delete_file_versions, delete_part
from headway.storage.transaction import Row, Transaction


def list_tables(tx: Transaction) -> dict[str, list[str]]:
    """Return the columns of every table that holds rows of tenants, by table."""
    rows = tx.all(
        """SELECT tables.name, columns.name FROM sqlite_master tables JOIN pragma_table_info(tables.name) columns
           WHERE tables.type = 'table' ORDER BY tables.name, columns.cid"""
        if tx.dialect.name == "sqlite"
        else """SELECT table_name, column_name FROM information_schema.columns NATURAL JOIN information_schema.tables
                WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY table_name, ordinal_position"""
    )
    tables: dict[str, list[str]] = {}
    for table, column in rows:
        tables.setdefault(str(table), []).append(str(column))
    return {name: columns for name, columns in tables.items() if "tenant_id" in columns or name == "tenants"}


def stream_rows(tx: Transaction, table: str, columns: list[str], tenant_id: int) -> Iterator[Row]:
    """Yield the tenant's rows of a table one by one."""
    names = ", ".join(f'"{column}"' for column in columns)
    owner = "id" if table == "tenants" else "tenant_id"
    return tx.stream(f"SELECT {names} FROM {table} WHERE {owner} = ?", tenant_id)


# Deletion


def stop_work(tx: Transaction, tenant_id: int) -> int:
    """Delete the tenant's tokens, schedules and webhooks, and cancel its jobs. Returns how many jobs were running."""
    for table in ("tokens", "schedules", "idempotency_keys", "webhooks"):
        tx.run(f"DELETE FROM {table} WHERE tenant_id = ?", tenant_id)
    running = tx.all("SELECT id FROM jobs WHERE tenant_id = ? AND state = 'running'", tenant_id)
    tx.run(
        """UPDATE jobs SET state = 'canceled', owner = '', updated_at = ?
           WHERE tenant_id = ? AND state IN ('queued', 'running', 'delayed', 'dead')""",
        tx.now,
        tenant_id,
    )
    return len(running)


def list_repositories(tx: Transaction, tenant_id: int) -> list[str]:
    """List the repositories that the tenant's runs worked in."""
    rows = tx.all("SELECT DISTINCT repository FROM runs WHERE tenant_id = ? AND repository <> '' ORDER BY repository", tenant_id)
    return [str(row[0]) for row in rows]


def list_unpruned_runs(tx: Transaction, tenant_id: int, limit: int) -> list[str]:
    sql = "SELECT id FROM runs WHERE tenant_id = ? AND pruned_at = 0 LIMIT ?"
    return [str(row[0]) for row in tx.all(sql, tenant_id, limit)]


def list_ids(tx: Transaction, table: str, tenant_id: int, limit: int) -> list[int]:
    return [int(row[0]) for row in tx.all(f"SELECT id FROM {table} WHERE tenant_id = ? ORDER BY id LIMIT ?", tenant_id, limit)]


def delete_events(tx: Transaction, tenant_id: int, batch: Batch) -> bool:
    return delete_part(tx, "events", ("seq",), "octet_length(data)", "1 = 1", (tenant_id,), batch)


def delete_todos(tx: Transaction, tenant_id: int, batch: Batch) -> bool:
    """Delete todos and the comments on them."""
    return delete_part(tx, "todos", ("uuid",), TODO_SIZE, "1 = 1", (tenant_id,), batch) and delete_part(
        tx, "comments", ("id",), "octet_length(text)", "1 = 1", (tenant_id,), batch
    )


def delete_files(tx: Transaction, tenant_id: int, batch: Batch) -> bool:
    return delete_file_versions(tx, "1 = 1", (tenant_id,), batch)
