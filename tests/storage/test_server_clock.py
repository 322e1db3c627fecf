"""The clock of a Postgres server jumps: delays, leases and heartbeats last as long as they were to last, or end early."""

from collections.abc import Iterator

import psycopg
import pytest

from headway.actions import claims, jobs
from headway.autonomy import check_ins
from headway.ledger.goal import GoalLimits
from headway.ledger.job import LEASE_MS, Job
from headway.storage.direct import DirectDatabase
from headway.storage.postgres.server_clock import ServerClock, ServerTime
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.goal_plans import sub_goal

HOUR = 3_600
FOUND_FIRST = "public, jumping, pg_catalog"  # the order in which functions are looked for


class JumpingServer:
    """A database whose function clock_timestamp() can be set ahead and back."""

    def __init__(self, url: str, admin: psycopg.Connection) -> None:
        self.url = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{FOUND_FIRST.replace(' ', '')}"
        self.admin = admin
        admin.execute("CREATE SCHEMA jumping")
        admin.execute("CREATE TABLE jumping.clock (ahead interval NOT NULL)")
        admin.execute("INSERT INTO jumping.clock VALUES ('0')")
        admin.execute(
            """CREATE FUNCTION jumping.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
               'SELECT pg_catalog.clock_timestamp() + ahead FROM jumping.clock'"""
        )

    def jump(self, seconds: int) -> None:
        """Set the clock, and end all connections: each new one reads the clock at once instead of within a second."""
        self.admin.execute("UPDATE jumping.clock SET ahead = ahead + %s * interval '1 second'", (seconds,))
        self.admin.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()"""
        )


@pytest.fixture
def server(postgres_url: str) -> Iterator[JumpingServer]:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        yield JumpingServer(postgres_url, admin)
        admin.execute("DROP SCHEMA jumping CASCADE")


@pytest.fixture
def desk(server: JumpingServer) -> Iterator[TenantHarness]:
    with DirectDatabase(server.url) as database:
        yield TenantHarness(database)


def delay_job(tx: Transaction, tenant_id: int) -> Job:
    return jobs.delay(tx, jobs.create(tx, tenant_id, "test", {}), tx.now + 60_000)


def list_due(desk: TenantHarness) -> list[str]:
    return [job.id for job in desk.database.write(lambda tx: job_store.lock_due(tx, ["test"], 4, 10))]


@pytest.mark.parametrize("jump", [-60, -HOUR, HOUR])
def test_delays_and_leases_end_in_time_when_the_clock_jumps(server: JumpingServer, desk: TenantHarness, jump: int) -> None:
    job = desk.write(delay_job)
    desk.add()
    desk.write(claims.claim, "ada", None, 60)
    running = desk.write(lambda tx, tenant_id: jobs.create(tx, tenant_id, "test", {}, owner="worker"))
    desk.database.write(lambda tx: job_store.record_heartbeat(tx, "worker"))

    server.jump(jump)

    if jump < 0:
        assert list_due(desk) == []
        assert 50_000 < desk.database.read(lambda tx: jobs.get(tx, desk.tenant.id, job.id).due_at - tx.now) <= 60_000
        assert desk.write(claims.claim, "bob") is None
        assert not desk.database.read(jobs.has_orphans)
        server.jump(LEASE_MS // 1000)
        assert [orphan.id for orphan in desk.database.write(lambda tx: job_store.lock_orphans(tx, LEASE_MS, 10))] == [running.id]
        server.jump(60)
    assert list_due(desk) == [job.id]
    assert desk.write(claims.claim, "bob") is not None


def test_a_clock_that_was_set_back_while_no_process_ran_is_noticed(server: JumpingServer) -> None:
    with DirectDatabase(server.url) as database:
        desk = TenantHarness(database)
        job = desk.write(delay_job)
        database.write(lambda tx: job_store.record_heartbeat(tx, "worker"))
    server.jump(-HOUR)

    with DirectDatabase(server.url) as database:
        another = TenantHarness(database, "another")
        assert list_due(another) == []
        server.jump(61)
        assert list_due(another) == [job.id]


def test_a_heartbeat_right_after_the_clock_was_set_back_is_not_old(server: JumpingServer, desk: TenantHarness) -> None:
    def beat(tx: Transaction) -> None:
        tx.one("SELECT 1")
        server.admin.execute("UPDATE jumping.clock SET ahead = '-1 hour'")
        job_store.record_heartbeat(tx, "worker")

    desk.database.write(beat)
    server.jump(0)

    assert desk.database.read(jobs.count_live_workers) == 1


class Machine:
    """The clocks of one process: the local one, and what it knows of the server's."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.local = 0
        self.clock = ServerClock(lambda: self.local)

    def read(self, passed_s: int = 0) -> ServerTime:
        self.local += passed_s * 1000
        return self.clock.now(lambda sql: self.connection.execute(sql.encode()).fetchone())


def test_all_processes_use_one_steady_clock(server: JumpingServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        first, second = Machine(connection), Machine(connection)
        before = first.read()
        assert abs(sum(before) - sum(second.read())) < 5_000
        for jump in (-HOUR, HOUR, -60):
            server.admin.execute("UPDATE jumping.clock SET ahead = ahead + %s * interval '1 second'", (jump,))
            steady = sum(first.read(2))
            assert abs(steady - sum(second.read(2))) < 5_000
            assert steady >= sum(before)
            assert abs(steady - sum(Machine(connection).read())) < 5_000  # one that starts later
        assert first.read().drift >= (HOUR + 60) * 1000 - 5_000


def test_a_check_in_that_seems_to_be_in_the_future_is_due() -> None:
    limits = GoalLimits()
    checked = sub_goal(checked_at=HOUR * 1000)

    assert check_ins.compute_due_at(checked, limits, HOUR * 1000) == HOUR * 1000 + limits.check_in_ms
    assert check_ins.compute_due_at(checked, limits, 1_000) == 1_000
