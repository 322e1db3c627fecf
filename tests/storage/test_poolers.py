"""Postgres behind a pooler in transaction mode: every change is stored once, and nothing stays behind on its connections."""

import threading
from contextlib import ExitStack, closing

import psycopg
import pytest

from headway.actions.todos import todos
from headway.ledger.todo import Change, Draft
from headway.storage.direct import DirectDatabase, connect
from headway.storage.postgres import opening
from headway.storage.transaction import Transaction, within_tenant
from headway.testing import FixedClock, TenantHarness
from tests.pooler import run_pooler

LEFT_BEHIND = """
    SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'),
        COALESCE(current_setting('headway.tenant', true), ''), ARRAY(SELECT pg_listening_channels()),
        (SELECT COUNT(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')"""


def test_writers_behind_a_pooler_store_everything_once_and_leave_nothing_behind(postgres_url: str) -> None:
    threads, rounds, size = 4, 12, 2
    with run_pooler(postgres_url, size) as pooler_url, DirectDatabase(postgres_url) as database:
        desk = TenantHarness(database)

        def work(tx: Transaction) -> None:
            todo = todos.add_todo(tx, desk.tenant.id, Draft("written"))
            todos.change_todo(tx, desk.tenant.id, todo.id, Change(status="in_progress"))

        failures: list[Exception] = []

        def write_rounds() -> None:
            try:
                with closing(connect(pooler_url)) as connection:
                    for _ in range(rounds):
                        connection.write(within_tenant(desk.tenant.id, work))
                        connection.read(
                            within_tenant(desk.tenant.id, lambda tx: tx.all("SELECT id FROM todos WHERE status = ?", "pending"))
                        )
            except Exception as error:  # noqa: BLE001  a thread would swallow it
                failures.append(error)

        writers = [threading.Thread(target=write_rounds) for _ in range(threads)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()

        assert failures == []
        assert len(desk.subjects()) == threads * rounds
        assert [change for change, _ in desk.changes()].count("created") == threads * rounds
        with psycopg.connect(pooler_url, autocommit=True, prepare_threshold=None) as client:
            states = [client.execute(LEFT_BEHIND).fetchone() for _ in range(size)]
        assert states == [("0", "0", "", [], 0)] * size


def test_a_client_never_runs_a_statement_that_another_client_prepared(postgres_url: str, clock: FixedClock) -> None:
    with run_pooler(postgres_url, 2) as pooler_url, ExitStack() as stack:
        clients = {name: stack.enter_context(closing(connect(pooler_url, clock))) for name in ("ada", "bob", "eve")}
        order = ["ada", "bob"] * 3 + ["eve"] + ["ada", "bob"] * 3  # ada and bob prepare on one connection each, then change places
        answers = [clients[name].read(lambda tx, name=name: tx.one(f"SELECT '{name} ' || ?", "asks")) for name in order]  # type: ignore[misc]

    assert answers == [(f"{name} asks",) for name in order]


@pytest.mark.parametrize("rotates", [True, False])
def test_a_pooler_that_keeps_no_sessions_is_recognized(postgres_url: str, *, rotates: bool) -> None:
    with run_pooler(postgres_url, rotates=rotates) as pooler_url:
        refusal = (
            "leads to a pooler that does not keep sessions. Set HEADWAY_DATABASE_DIRECT_URL to the address of the server itself"
        )

        assert opening.check_session(pooler_url, "") == f"HEADWAY_DATABASE_URL {refusal}"
        if not rotates:  # the same takes a second
            assert opening.check_session(postgres_url, pooler_url) == f"HEADWAY_DATABASE_DIRECT_URL {refusal}"
            assert opening.check_session(pooler_url, postgres_url) == ""
            assert opening.check_session(postgres_url, "") == ""


def test_a_direct_url_of_another_database_is_recognized(postgres_url: str, new_postgres_url: str) -> None:
    problem = opening.check_session(postgres_url, new_postgres_url)

    assert problem == "HEADWAY_DATABASE_DIRECT_URL is not the address of the database that HEADWAY_DATABASE_URL leads to"
