"""A database with rows is migrated while other processes use it, and a migration that was interrupted continues."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway.storage.direct import DirectDatabase, connect
from headway.storage.migrate import FIRST_NAME, FOLDER, list_migrations, migrate
from headway.storage.postgres.online import run_statements
from headway.storage.progress import MigrationProgress
from headway.storage.stores.retention import list_tables
from headway.storage.transaction import POSTGRES, Row, Transaction
from headway.testing import TenantHarness
from tests.conftest import new_database
from tests.tenant_rows import fill_tenant, read_tenant_rows

SECOND = """CREATE UNIQUE INDEX todo_edges_both ON todo_edges (tenant_id, depends_on, todo_id);
"""
# What a migration of a large table consists of: an index, a column, foreign keys, another primary key, and the end of an index.
SECOND_ONLINE = """-- The same, while other processes use the database.
CREATE UNIQUE INDEX CONCURRENTLY todo_edges_both ON todo_edges (tenant_id, depends_on, todo_id);
CREATE UNIQUE INDEX CONCURRENTLY todos_new_key ON todos (tenant_id, id, uuid);
CREATE INDEX CONCURRENTLY events_by_kind ON events (tenant_id, kind, seq);
ALTER TABLE todos ADD COLUMN IF NOT EXISTS colour TEXT NOT NULL DEFAULT 'blue';
ALTER TABLE leases
    ADD CONSTRAINT leases_tenant_fk FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE todo_edges
    ADD CONSTRAINT todo_edges_tenant_fk FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE leases VALIDATE CONSTRAINT leases_tenant_fk;
ALTER TABLE todo_edges VALIDATE CONSTRAINT todo_edges_tenant_fk;
ALTER TABLE todo_edges
    DROP CONSTRAINT todo_edges_pkey,
    ADD CONSTRAINT todo_edges_both PRIMARY KEY USING INDEX todo_edges_both;
DROP INDEX CONCURRENTLY IF EXISTS todo_edges_back;
"""
INDEXES = """SELECT i.indexrelid, c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace ORDER BY 2"""
CONSTRAINTS = """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated FROM pg_constraint
    WHERE connamespace = current_schema()::regnamespace ORDER BY 1, 2"""
# Processes of the version before keep working.
STATEMENTS_BEFORE = (
    """INSERT INTO turns (id, tenant_id, conversation_id, status, started_at) VALUES ('t', 1, 1, 'running', 1)
       ON CONFLICT (tenant_id, id) DO NOTHING""",
    """INSERT INTO leases (todo_id, tenant_id, agent_id, token, expires_at) VALUES (1, 1, 'ada', 'x', 9)
       ON CONFLICT (tenant_id, todo_id) DO UPDATE SET token = excluded.token""",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The schema, and a migration that runs online."""
    shutil.copy(Path(FOLDER, FIRST_NAME), tmp_path)
    (tmp_path / "0002_second.sql").write_text(SECOND, encoding="utf-8")
    (tmp_path / "0002_second.online.sql").write_text(SECOND_ONLINE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def old_url(new_postgres_url: str) -> str:
    """A database of the version before, with a row that is referenced."""
    with DirectDatabase(new_postgres_url) as database:
        database.write(add_rows)
    return new_postgres_url


def open_and_migrate(url: str, folder: Path) -> None:
    with closing(connect(url)) as connection:
        migrate(connection, folder=str(folder))


def add_rows(tx: Transaction) -> None:
    tx.run("INSERT INTO tenants (id, name, created_at) VALUES (1, 'old', 1)")
    tx.run("INSERT INTO conversations (id, uuid, tenant_id, key, created_at, updated_at) VALUES (1, 'u', 1, 'k', 1, 1)")
    tx.run("INSERT INTO turns (id, tenant_id, conversation_id, status, started_at) VALUES ('t', 1, 1, 'running', 1)")
    tx.run("""INSERT INTO runs (id, tenant_id, turn_id, role, task, status, iteration_limit, created_at, updated_at)
              VALUES ('r', 1, 't', 'index', 'x', 'running', 10, 1, 1)""")
    for todo_id in (1, 2):
        tx.run(
            """INSERT INTO todos (id, uuid, tenant_id, agent_id, subject, description, completion_criteria, status, position,
               created_at, updated_at) VALUES (?, ?, 1, 'ada', 'x', '', '', 'pending', 1, 1, 1)""",
            todo_id,
            str(todo_id),
        )
    tx.run("INSERT INTO todo_edges (todo_id, depends_on, tenant_id) VALUES (2, 1, 1)")


@pytest.fixture
def admin(old_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(old_url, autocommit=True) as connection:
        connection.execute("SET headway.tenant = 'all'")
        yield connection


def read_schema(connection: psycopg.Connection[Any]) -> tuple[list[Row], list[Row]]:
    return [row[1:] for row in connection.execute(INDEXES).fetchall()], connection.execute(CONSTRAINTS).fetchall()


def test_a_migration_that_is_interrupted_after_any_statement_continues_there(
    old_url: str, admin: psycopg.Connection[Any], folder: Path, postgres_server: str
) -> None:
    statements = list_migrations(str(folder))[1].read_online_part(POSTGRES)
    progress = MigrationProgress("")
    built: dict[str, int] = {}
    for end in range(1, len(statements) + 1):
        run_statements(
            admin, statements[max(0, end - 2) : end] if end % 3 else statements[:end], progress
        )  # again, as after a restart
        for statement in STATEMENTS_BEFORE:
            admin.execute(statement.encode())  # old processes keep working
        built |= {name: oid for oid, name, _ in admin.execute(INDEXES).fetchall() if name not in built}
    open_and_migrate(old_url, folder)

    indexes = {name: oid for oid, name, _ in admin.execute(INDEXES).fetchall()}
    assert indexes.items() <= built.items(), "no index was built twice"
    with new_database(postgres_server) as new_url:
        open_and_migrate(new_url, folder)
        with psycopg.connect(new_url) as new:
            assert read_schema(admin) == read_schema(new)
    assert admin.execute("SELECT COUNT(*) FROM migrations").fetchone() == (2,)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):  # the foreign keys name the tenant
        admin.execute("INSERT INTO todo_edges (todo_id, depends_on, tenant_id) VALUES (1, 2, 2)")
    admin.execute("DELETE FROM tenants")
    assert admin.execute("SELECT (SELECT COUNT(*) FROM leases) + (SELECT COUNT(*) FROM todo_edges)").fetchone() == (0,)


def test_an_index_whose_build_was_interrupted_is_built_again(old_url: str, admin: psycopg.Connection[Any], folder: Path) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        admin.execute("CREATE UNIQUE INDEX CONCURRENTLY todos_new_key ON todos (tenant_id)")
    valid = "SELECT indisvalid, indnatts FROM pg_index WHERE indexrelid = 'todos_new_key'::regclass"
    assert admin.execute(valid.encode()).fetchone() == (False, 1)

    open_and_migrate(old_url, folder)

    assert admin.execute(valid.encode()).fetchone() == (True, 3)


def test_several_processes_migrate_once_and_a_reader_in_a_long_transaction_does_not_block_writers(
    old_url: str, admin: psycopg.Connection[Any], folder: Path
) -> None:
    """While the reader keeps its lock, the exclusive locks are given up again and again, and writers get through."""
    with psycopg.connect(old_url) as reader, ThreadPoolExecutor(4) as pool:
        reader.execute("SELECT 1 FROM todo_edges")
        opened = [pool.submit(open_and_migrate, old_url, folder) for _ in range(4)]
        waiting = threading.Event()
        while not waiting.is_set():
            row = admin.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'todo_edges'::regclass").fetchone()
            if row or any(future.done() for future in opened):
                waiting.set()
        for number in range(3, 13):
            admin.execute("UPDATE todo_edges SET depends_on = depends_on WHERE todo_id = %s", (number,))
        assert not any(future.done() for future in opened)
        reader.rollback()
        for future in opened:
            future.result(timeout=60)

    assert admin.execute("SELECT COUNT(*), MAX(number) FROM migrations").fetchone() == (2, 2)


def test_rows_of_two_tenants_may_have_the_same_ids(postgres_url: str) -> None:
    """As after the move of a tenant from another database, whose ids were given out separately."""
    with DirectDatabase(postgres_url) as database:
        desk = TenantHarness(database)
        fill_tenant(desk)
        before = read_tenant_rows(desk)
        tables = database.read(list_tables)
        del tables["tenants"], tables["audit"]
        database.write(lambda tx: tx.run("INSERT INTO tenants (id, name, created_at) VALUES (999999, 'moved', 1)"))
        with psycopg.connect(postgres_url) as connection:
            connection.execute("SET headway.tenant = 'all'")
            copy_rows(connection, tables, desk.tenant.id, 999999)
        copied = {table: len(rows) for table, rows in before.items() if table in tables}
        with psycopg.connect(postgres_url) as connection:
            connection.execute("SET headway.tenant = 'all'")
            counts = {
                table: connection.execute(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = 999999".encode()).fetchone()
                for table in copied
            }
            assert counts == {table: (count,) for table, count in copied.items()}
            connection.execute("DELETE FROM tenants WHERE id = 999999")
        assert read_tenant_rows(desk) == before


def copy_rows(connection: psycopg.Connection[Any], tables: dict[str, list[str]], source: int, target: int) -> None:
    """Copy all rows of a tenant, a table after those that it references."""
    left = set(tables)
    while left:
        rows = connection.execute(
            """SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
               WHERE contype = 'f' AND conrelid <> confrelid"""
        ).fetchall()
        for table in sorted(left - {child for child, parent in rows if parent in left}):
            # A token's hash and a conversation's UUID are random, and unique in a database.
            values = ", ".join(
                {"tenant_id": str(target), "hash": "hash || 'x'"}.get(column, f'"{column}"')
                if (table, column) != ("conversations", "uuid")
                else "uuid || 'x'"
                for column in tables[table]
            )
            names = ", ".join(f'"{column}"' for column in tables[table])
            connection.execute(f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} WHERE tenant_id = {source}".encode())
            left.remove(table)


MIGRATE = """
import sys
from headway.storage.direct import connect
from headway.storage.migrate import migrate

migrate(connect(sys.argv[1]), folder=sys.argv[2])
"""
BUILDING = "SELECT 1 FROM pg_stat_progress_create_index WHERE tuples_done > 100000"
VALIDATING = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE % VALIDATE %' AND state = 'active'"
LONGEST_WAIT = """SELECT COALESCE(MAX(EXTRACT(EPOCH FROM clock_timestamp() - l.waitstart)), 0)::float
    FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.locktype = 'relation'
    AND (a.query LIKE 'INSERT %' OR a.query LIKE 'UPDATE %')"""
MILLION = 1_000_000


@pytest.mark.torture
def test_a_million_rows_are_migrated_while_writers_wait_less_than_a_second_and_the_process_is_killed_twice(
    old_url: str, admin: psycopg.Connection[Any], folder: Path
) -> None:
    admin.execute(
        f"""INSERT INTO todos (id, uuid, tenant_id, agent_id, subject, description, completion_criteria, status, position,
                created_at, updated_at)
            SELECT 1000 + n, 'n' || n, 1, 'ada', 'x', '', '', 'pending', n, 1, 1 FROM generate_series(1, {MILLION}) n""".encode()
    )
    admin.execute(
        f"""INSERT INTO events (seq, tenant_id, kind, data, at) SELECT n, 1, 'x', '{{}}', 1
            FROM generate_series(1, {MILLION}) n""".encode()
    )
    admin.execute("INSERT INTO todo_edges SELECT id, 1, 1 FROM todos WHERE id > 1000 ORDER BY id")
    stop = threading.Event()

    def write(number: int) -> int:
        """Write as processes of the version before do, until the end. Returns how often."""
        count = 0
        with psycopg.connect(old_url, autocommit=True) as connection:
            connection.execute("SET headway.tenant = '1'")
            while not stop.is_set():
                connection.execute("UPDATE todos SET position = position + 1 WHERE tenant_id = 1 AND id = %s", (number,))
                for statement in STATEMENTS_BEFORE:
                    connection.execute(statement.encode())
                connection.execute(
                    "INSERT INTO todo_edges (todo_id, depends_on, tenant_id) VALUES (%s, %s, 1)", (number, 2000 + count)
                )
                count += 1
        return count

    def watch() -> float:
        longest = 0.0
        with psycopg.connect(old_url, autocommit=True) as connection:
            while not stop.is_set():
                row = connection.execute(LONGEST_WAIT).fetchone()
                longest = max(longest, row[0] if row else 0)
        return longest

    with ThreadPoolExecutor(3) as pool:
        writers, watcher = [pool.submit(write, number) for number in (1, 2)], pool.submit(watch)
        try:
            for moment in (BUILDING, VALIDATING):
                with subprocess.Popen([sys.executable, "-c", MIGRATE, old_url, str(folder)]) as process:
                    while admin.execute(moment.encode()).fetchone() is None and process.poll() is None:
                        assert not any(writer.done() for writer in writers)
                    assert process.poll() is None
                    process.kill()
            subprocess.run([sys.executable, "-c", MIGRATE, old_url, str(folder)], check=True)
        finally:
            stop.set()
        counts = [writer.result() for writer in writers]

    print(f"longest wait {watcher.result():.3f} s, writes {counts}")
    assert admin.execute("SELECT MAX(number) FROM migrations").fetchone() == (2,)
    assert min(counts) > 100
    assert watcher.result() < 1.0
