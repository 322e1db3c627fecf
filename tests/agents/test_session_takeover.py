"""The session with the Postgres server: it hears commits and holds a lock, and a process whose lock is free is soon taken over."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from headway.actions.todos import todos
from headway.ledger.job import LEASE_MS, SESSION_LEASE_MS
from headway.ledger.todo import Draft
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase, connect
from headway.storage.postgres.announcements import AnnouncementListener
from headway.storage.server_session import SETTLING_S, ServerSession
from headway.storage.stores import jobs as job_store
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction, within_tenant
from headway.testing import TenantHarness
from tests.agents.timed_jobs import build_engine, enqueue
from tests.pooler import run_pooler
from tests.surfaces.server_harness import wait_until

LOCK = 4711
SECOND_MS = 1_000
SESSION_LOCKS = """locktype = 'advisory' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
LOCK_HOLDER = f"SELECT pid FROM pg_locks WHERE (classid::bigint << 32) + objid::bigint = %s AND {SESSION_LOCKS}"


@pytest.fixture
def ledger(postgres_url: str) -> Iterator[TenantHarness]:
    with DirectDatabase(postgres_url) as database:
        yield TenantHarness(database)
        database.write(lambda tx: tx.run("DROP TABLE IF EXISTS ran"))


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def leave_job(tx: Transaction, tenant_id: int, age_ms: int, session_lock: int) -> None:
    """Store a running job of another process, which recorded its last heartbeat this long ago."""
    (job,) = enqueue(tx, tenant_id, [""])
    job_store.save_job(tx, job._replace(state="running", owner="another"))
    worker_leases.record_heartbeat(tx, "another", session_lock)
    tx.run("UPDATE worker_leases SET beat_at = beat_at - ?", age_ms)


@pytest.mark.parametrize(
    ("age_ms", "session_lock", "is_held", "is_settled", "is_taken"),
    [
        pytest.param(SESSION_LEASE_MS + SECOND_MS, LOCK, False, True, True, id="killed"),
        pytest.param(SESSION_LEASE_MS + SECOND_MS, LOCK, True, True, False, id="frozen"),
        pytest.param(LEASE_MS + SECOND_MS, LOCK, True, True, True, id="frozen for long"),
        pytest.param(0, LOCK, False, True, False, id="alive, but its session was lost"),
        pytest.param(SESSION_LEASE_MS + SECOND_MS, LOCK, False, False, False, id="the server was restarted just now"),
        pytest.param(SESSION_LEASE_MS + SECOND_MS, 0, False, True, False, id="without a session"),
        pytest.param(LEASE_MS + SECOND_MS, 0, False, False, True, id="killed without a session"),
    ],
)
def test_a_process_is_taken_over_when_its_lock_is_free_and_its_last_heartbeat_is_old(
    ledger: TenantHarness,
    postgres_url: str,
    admin: psycopg.Connection[Any],
    *,
    age_ms: int,
    session_lock: int,
    is_held: bool,
    is_settled: bool,
    is_taken: bool,
) -> None:
    def leave_and_recover(tx: Transaction) -> int:
        session.open(LOCK + 1)
        session.opened_at -= SETTLING_S * is_settled
        leave_job(tx, ledger.tenant.id, age_ms, session_lock)
        return engine.takeover.recover(tx)  # in one transaction, because a lease that has not expired lasts only for seconds

    if is_held:
        admin.execute("SELECT pg_advisory_lock(%s)", (session_lock,))
    with closing(Database(postgres_url)) as database:
        engine = build_engine(database, "one")
        session = engine.runner.session = ServerSession()

        assert ledger.database.write(leave_and_recover) == is_taken


class Listener:
    """A listener, its session, and the tenants of the commits that it heard of."""

    def __init__(self, url: str, direct_url: str = "") -> None:
        self.session = ServerSession()
        self.heard: set[int] = set()
        self.listener = AnnouncementListener(url, direct_url, self.heard.update, self.session)

    def close(self) -> None:
        self.listener.close()

    def find_holder(self, admin: psycopg.Connection[Any]) -> int | None:
        """The server process that holds the lock of the session."""
        row = admin.execute(LOCK_HOLDER.encode(), (self.session.lock,)).fetchone()
        return int(row[0]) if row else None


def test_a_session_that_is_lost_is_opened_again_even_if_the_server_has_not_noticed_the_loss(
    postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    with closing(Listener(postgres_url)) as listener:
        wait_until(lambda: listener.session.is_open, "a session")
        first, lock = listener.find_holder(admin), listener.session.lock
        admin.execute("SELECT pg_terminate_backend(%s), pg_advisory_lock(%s)", (first, lock))  # as if it still held the lock
        wait_until(lambda: listener.session.lock not in (0, lock), "another lock")
        assert listener.find_holder(admin) is not None
    assert not listener.session.is_open


def test_behind_a_pooler_commits_are_heard_through_the_direct_url(ledger: TenantHarness, postgres_url: str) -> None:
    with run_pooler(postgres_url) as pooler_url, closing(Listener(pooler_url, postgres_url)) as listener:
        wait_until(lambda: listener.session.is_open, "a session")
        with closing(connect(pooler_url)) as writer:
            writer.write(within_tenant(ledger.tenant.id, lambda tx: todos.add_todo(tx, ledger.tenant.id, Draft("heard"))))
        wait_until(lambda: listener.heard == {ledger.tenant.id}, "the announcement")


def test_behind_a_pooler_without_a_direct_url_there_is_no_session(
    postgres_url: str, admin: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with run_pooler(postgres_url, rotates=False) as pooler_url, closing(Listener(pooler_url)) as listener:
        wait_until(lambda: "so Headway polls" in caplog.text, "the warning")
        assert not listener.session.is_open
        assert admin.execute(f"SELECT COUNT(*) FROM pg_locks WHERE {SESSION_LOCKS}".encode()).fetchone() == (0,)
