"""Statements that travel to Postgres in batches: values, errors, and what is known about a commit."""

import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import psycopg
import pytest

from headway.actions.todos import conversations, todos
from headway.actions.turns import turns
from headway.ledger.errors import StorageError
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase, connect
from headway.storage.postgres.announcements import AnnouncementListener
from headway.storage.postgres.connection import PostgresConnection
from headway.storage.postgres.opening import open_connection
from headway.storage.postgres.wire import Wire
from headway.storage.server_session import ServerSession
from headway.storage.transaction import Query, Transaction, across_tenants
from headway.testing import TenantHarness
from tests.sent_statements import trace_statements
from tests.surfaces.server_harness import wait_until

LONG = "x" * 3_000_000  # more than the sockets' buffers hold


@pytest.fixture
def connection(postgres_url: str) -> Iterator[PostgresConnection]:
    with closing(connect(postgres_url)) as connection:
        assert isinstance(connection, PostgresConnection)
        yield connection


def test_values_come_back_as_they_were(connection: PostgresConnection) -> None:
    values = ("naïve ☃ $1 ? %s", "", -(2**63), 2**63 - 1, 0.1, 1e300, b"\x00\xff", None)
    marks = "CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, ?, ?, CAST(? AS TEXT)"
    for _ in range(3):  # sent as text, then prepared, then by name
        assert connection.read(lambda tx: tx.one(f"SELECT {marks}", *values)) == values
    assert connection.read(lambda tx: tx.all("SELECT id FROM tenants WHERE id = ?", -1)) == []


def test_texts_longer_than_the_buffers_travel_in_both_directions(connection: PostgresConnection) -> None:
    def exchange(tx: Transaction) -> list[int]:
        rows = tx.fetch(*[Query("SELECT ? || ''", (LONG,)) for _ in range(4)])
        return [len(row[0]) for [row] in rows]

    assert connection.read(exchange) == [len(LONG)] * 4


def test_a_zero_byte_is_refused_and_cuts_no_text(connection: PostgresConnection) -> None:
    with pytest.raises(StorageError):
        connection.read(lambda tx: tx.one("SELECT ? || ''", "before\x00after"))
    assert connection.read(lambda tx: tx.one("SELECT ? || ''", "before")) == ("before",)


def test_a_batch_that_fails_changes_nothing_and_its_statements_can_be_used_again(
    connection: PostgresConnection, postgres_url: str
) -> None:
    with DirectDatabase(postgres_url) as database:
        tenant_id = TenantHarness(database).tenant.id
    name = "UPDATE tenants SET name = ? WHERE id = ?"

    def write(tx: Transaction, divisor: int, text: str) -> None:
        tx.run(name, text, tenant_id)
        tx.run("SELECT 1 / ?", divisor)
        tx.run(name, text + "!", tenant_id)

    for divisor in (0, 0, 1, 0):
        if divisor:
            connection.write(across_tenants(partial(write, divisor=divisor, text="stored")))
        else:
            with pytest.raises(StorageError, match="division by zero"):
                connection.write(across_tenants(partial(write, divisor=divisor, text="lost")))
    assert connection.read(across_tenants(lambda tx: tx.one("SELECT name FROM tenants WHERE id = ?", tenant_id))) == ("stored!",)


def test_rows_are_streamed_and_an_error_among_them_is_raised(connection: PostgresConnection) -> None:
    def stream(tx: Transaction, last: int) -> list[int]:
        return [int(row[0]) for row in tx.stream("SELECT 10 / (? - n) FROM generate_series(1, 5) AS n", last)]

    for _ in range(3):
        assert connection.read(lambda tx: stream(tx, 6)) == [2, 2, 3, 5, 10]
        with pytest.raises(StorageError, match="division by zero"):
            connection.read(lambda tx: stream(tx, 4))
    assert connection.read(lambda tx: tx.one("SELECT 1")) == (1,)


def test_work_that_is_refused_before_it_reads_sends_nothing(connection: PostgresConnection) -> None:
    def refuse(tx: Transaction) -> None:
        tx.run("SELECT 1")
        raise StorageError("refused")

    connection.read(lambda tx: tx.one("SELECT 1"))
    with trace_statements() as sent, pytest.raises(StorageError, match="refused"):
        connection.write(refuse)
    assert sent.list_transactions() == []


def test_a_connection_that_the_server_ends_before_a_batch_of_writes_is_replaced(
    connection: PostgresConnection, postgres_url: str
) -> None:
    """The writes and COMMIT would travel together, but the connection is seen to be closed before they are sent."""
    with DirectDatabase(postgres_url) as database, psycopg.connect(postgres_url, autocommit=True) as admin:
        tenant_id = TenantHarness(database).tenant.id
        name = "UPDATE tenants SET name = name || ? WHERE id = ?"
        pid = connection.read(lambda tx: (tx.one("SELECT pg_backend_pid()") or (0,))[0])
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        connection.write(across_tenants(lambda tx: tx.run(name, "+", tenant_id)))
        found = database.read(lambda tx: tx.one("SELECT name FROM tenants WHERE id = ?", tenant_id))
    assert found == ("acme+",)


def test_after_an_error_at_the_end_of_a_batch_no_reply_is_taken_for_another(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("CREATE TABLE numbers (id INT PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")
        try:
            with closing(Wire(open_connection(postgres_url))) as wire:
                with pytest.raises(psycopg.OperationalError):
                    wire.fetch(Query("INSERT INTO numbers VALUES (1), (1)"))  # without BEGIN, the batch itself commits
                assert wire.closed
        finally:
            owner.execute("DROP TABLE numbers")


def test_a_process_hears_the_commits_of_others_and_not_its_own(postgres_url: str) -> None:
    heard: list[int] = []
    arrived = threading.Event()

    def hear(tenants: frozenset[int]) -> None:
        heard.extend(tenants)
        arrived.set()

    with DirectDatabase(postgres_url) as database:
        ours, theirs = TenantHarness(database, "ours"), TenantHarness(database, "theirs")
    listener = AnnouncementListener(postgres_url, "", hear, ServerSession(), "this-process")
    try:
        with closing(connect(postgres_url, source="this-process")) as own, closing(connect(postgres_url, source="other")) as other:
            while not arrived.is_set():  # until it listens
                write_todo(own, ours)
                write_todo(other, theirs)
                arrived.wait(0.05)
    finally:
        listener.close()
    assert set(heard) == {theirs.tenant.id}


def test_other_processes_hear_which_commits_may_have_made_a_job_due(postgres_url: str) -> None:
    heard: list[str] = []
    all_arrived = threading.Event()

    def hear(word: str) -> None:
        heard.append(word)
        if len(heard) == 4:
            all_arrived.set()

    with DirectDatabase(postgres_url) as database:
        desk = TenantHarness(database)
    session = ServerSession()
    on_commit, on_jobs = (lambda _tenants: hear("commit")), (lambda: hear("jobs"))
    listener = AnnouncementListener(postgres_url, "", on_commit, session, "this-process", on_jobs=on_jobs)
    try:
        wait_until(lambda: session.is_open, "a session")
        with closing(connect(postgres_url, source="other")) as other:
            for write in (write_todo, start_turn, write_todo):
                write(other, desk)
        assert all_arrived.wait(60)
    finally:
        listener.close()
    assert heard == ["commit", "commit", "jobs", "commit"]


def start_turn(connection: object, desk: TenantHarness) -> None:
    assert isinstance(connection, PostgresConnection)

    def start(tx: Transaction) -> None:
        conversation = conversations.add_conversation(tx, desk.tenant.id)
        turns.start_turn(tx, desk.tenant.id, conversation.id, turns.TurnRequest("Begin."))

    connection.write(across_tenants(start))


def write_todo(connection: object, desk: TenantHarness) -> None:
    assert isinstance(connection, PostgresConnection)
    connection.write(across_tenants(lambda tx: todos.add_todo(tx, desk.tenant.id, Draft("announced"))))
