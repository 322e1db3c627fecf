"""The clock of a Postgres server jumps: delays, leases and heartbeats last as long as they were to last, or end early."""

from collections.abc import Iterator

import psycopg
import pytest

from headway.actions.runs import jobs
from headway.actions.todos import claims
from headway.autonomy import check_ins
from headway.ledger.job import LEASE_MS, Job
from headway.ledger.limits import GoalLimits
from headway.storage.direct import DirectDatabase
from headway.storage.postgres.server_clock import ServerClock, ServerTime
from headway.storage.stores import jobs as job_store
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.goal_plans import sub_goal
from tests.jumping_server import JumpingServer, run_jumping_server

LEASES = worker_leases.Leases(LEASE_MS, LEASE_MS)

HOUR = 3_600


@pytest.fixture
def server(postgres_url: str) -> Iterator[JumpingServer]:
    with run_jumping_server(postgres_url) as jumping:
        yield jumping


@pytest.fixture
def desk(server: JumpingServer) -> Iterator[TenantHarness]:
    with DirectDatabase(server.url) as database:
        yield TenantHarness(database)


def delay_job(tx: Transaction, tenant_id: int) -> Job:
    """Delay a job for a minute from the last heartbeat of the worker."""
    worker_leases.record_heartbeat(tx, "worker")
    return jobs.delay(tx, jobs.create_job(tx, tenant_id, "test", {}), tx.now + 60_000)


def lock_due_ids(tx: Transaction) -> list[str]:
    return [job.id for job in job_store.lock_due(tx, ["test"], 4, 10)]


def list_due(desk: TenantHarness) -> list[str]:
    return desk.database.write(lock_due_ids)


@pytest.mark.parametrize("jump", [-60, -HOUR, HOUR])
def test_delays_and_leases_end_in_time_when_the_clock_jumps(server: JumpingServer, desk: TenantHarness, jump: int) -> None:
    job = desk.write(delay_job)
    desk.add()
    desk.write(claims.claim, "ada", None, 60)
    running = desk.write(lambda tx, tenant_id: jobs.create_job(tx, tenant_id, "test", {}, owner="worker"))

    def look(tx: Transaction, tenant_id: int) -> tuple[list[str], int, bool]:
        """In one transaction, in which no time passes."""
        return lock_due_ids(tx), jobs.get_job(tx, tenant_id, job.id).due_at - tx.now, jobs.has_orphans(tx)

    server.jump(jump)

    if jump < 0:
        due, left_ms, has_orphans = desk.write(look)
        assert (due, has_orphans) == ([], False)
        assert 50_000 < left_ms <= 60_000
        assert desk.write(claims.claim, "bob") is None
        server.jump(LEASE_MS // 1000)
        assert [orphan.id for orphan in desk.database.write(lambda tx: worker_leases.lock_orphans(tx, LEASES, 10))] == [running.id]
        server.jump(60)
    assert list_due(desk) == [job.id]
    assert desk.write(claims.claim, "bob") is not None


def test_a_clock_that_was_set_back_while_no_process_ran_is_noticed(server: JumpingServer) -> None:
    with DirectDatabase(server.url) as database:
        desk = TenantHarness(database)
        job = desk.write(delay_job)
    server.jump(-HOUR)

    with DirectDatabase(server.url) as database:
        another = TenantHarness(database, "another")
        assert list_due(another) == []
        server.jump(61)
        assert list_due(another) == [job.id]


def test_a_heartbeat_right_after_the_clock_was_set_back_is_not_old(server: JumpingServer, desk: TenantHarness) -> None:
    def beat(tx: Transaction) -> None:
        tx.one("SELECT 1")
        server.set_ahead(-HOUR)
        worker_leases.record_heartbeat(tx, "worker")

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
        return self.clock.now(lambda sql: self.connection.execute(sql.encode()).fetchall()[0])


def test_all_processes_use_one_steady_clock(server: JumpingServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        first, second = Machine(connection), Machine(connection)
        before = first.read()
        assert abs(sum(before) - sum(second.read())) < 5_000
        for jump in (-HOUR, HOUR, -60):
            server.set_ahead(jump)
            steady = sum(first.read(2))
            assert abs(steady - sum(second.read(2))) < 5_000
            assert steady >= sum(before)
            assert abs(steady - sum(Machine(connection).read())) < 5_000  # one that starts later
        assert first.read().drift >= (HOUR + 60) * 1000 - 5_000


def test_a_process_that_stood_still_while_it_asked_does_not_set_the_clock_ahead() -> None:
    local = [0]
    pauses = [4_000]

    def ask(_sql: str) -> tuple[int, int, int]:
        """The server answers at the end of a pause."""
        local[0] += pauses.pop() if pauses else 0
        return (1_000_000 + local[0], 0, 0)

    clock = ServerClock(lambda: local[0])
    for _ in range(3):
        assert clock.now(ask) == (1_000_000 + local[0], 0)
        local[0] += 2_000


def test_a_check_in_that_seems_to_be_in_the_future_is_due() -> None:
    limits = GoalLimits()
    checked = sub_goal(checked_at=HOUR * 1000)

    assert check_ins.compute_due_at(checked, limits, HOUR * 1000) == HOUR * 1000 + limits.check_in_ms
    assert check_ins.compute_due_at(checked, limits, 1_000) == 1_000
