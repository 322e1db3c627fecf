"""The query of KEDA's scaler counts the jobs that workers have or would claim, with a role that can read nothing else."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from headway.actions.runs import jobs
from headway.ledger.job import NEVER, Job
from headway.storage.direct import DirectDatabase
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.deploy.manifests import FOLDER, find

HOUR_MS = 3_600_000
KIND = "tool"
FORBIDDEN = (
    "SELECT payload FROM jobs",
    "SELECT tenant_id FROM jobs",
    "SELECT name FROM tenants",
    "SELECT hash FROM tokens",
    "SELECT data FROM events",
    "UPDATE jobs SET state = 'canceled'",
    "DELETE FROM machine_clocks",
)


@pytest.fixture
def ledger(postgres_url: str) -> Iterator[DirectDatabase]:
    with DirectDatabase(postgres_url) as database:
        yield database


@pytest.fixture
def scaler(postgres_server: str, postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the role that scaler.sql creates."""
    role, database = f"headway_scaler_{uuid4().hex[:12]}", psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    sql = (FOLDER / "scaler.sql").read_text(encoding="utf-8")
    sql = sql.replace("headway_scaler", role).replace("DATABASE headway ", f'DATABASE "{database}" ')
    with psycopg.connect(postgres_server, dbname=str(database), autocommit=True) as admin:
        admin.execute(sql.encode())
        try:
            with psycopg.connect(postgres_url, user=role, password="change-me", autocommit=True) as connection:
                yield connection
        finally:
            admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def count_jobs(scaler: psycopg.Connection[Any]) -> int:
    [trigger] = find("ScaledObject", "headway-worker")["spec"]["triggers"]
    row = scaler.execute(trigger["metadata"]["query"].encode()).fetchone()
    assert row is not None
    return int(row[0])


def count_claims(ledger: DirectDatabase) -> int:
    """The jobs that run, and those that a worker would claim now."""

    def count(tx: Transaction) -> int:
        return len(job_store.lock_due(tx, [KIND], 4, 1_000)) + len(job_store.list_running_ids(tx, "somewhere"))

    return ledger.write(count)


def add_job(tx: Transaction, tenant_id: int) -> Job:
    """Queue a job that has been due for an hour: a process knows the server's clock only approximately."""
    job = jobs.create_job(tx, tenant_id, KIND, {"name": "now", "arguments": {}})
    return jobs.move(tx, job, "queued", tx.now - HOUR_MS)


def run_job(tx: Transaction, tenant_id: int) -> Job:
    return jobs.move(tx, add_job(tx, tenant_id)._replace(owner="somewhere"), "running")


def delay_job(tx: Transaction, tenant_id: int, delay_ms: int | None) -> Job:
    return jobs.delay(tx, add_job(tx, tenant_id), NEVER if delay_ms is None else tx.now + delay_ms)


def end_job(tx: Transaction, tenant_id: int) -> Job:
    return jobs.complete_job(tx, add_job(tx, tenant_id))


def test_the_scaler_counts_what_workers_have_and_would_claim_of_all_tenants(
    ledger: DirectDatabase, scaler: psycopg.Connection[Any]
) -> None:
    assert count_jobs(scaler) == 0
    ours, theirs = TenantHarness(ledger), TenantHarness(ledger, "rival")
    for tenant in (ours, theirs):
        tenant.write(add_job)
        tenant.write(run_job)
        tenant.write(end_job)
        tenant.write(delay_job, -HOUR_MS)
        tenant.write(delay_job, HOUR_MS)
        tenant.write(delay_job, None)  # waits for something else than the time
    assert count_jobs(scaler) == count_claims(ledger) == 6


def test_the_scaler_follows_the_steady_clock(ledger: DirectDatabase, scaler: psycopg.Connection[Any], postgres_url: str) -> None:
    TenantHarness(ledger).write(delay_job, HOUR_MS)
    assert count_jobs(scaler) == 0
    ledger.write(lambda tx: tx.run("INSERT INTO machine_clocks (boot_id, ahead_ms) VALUES ('server', ?)", 2 * HOUR_MS))
    with DirectDatabase(postgres_url) as after:
        assert count_jobs(scaler) == count_claims(after) == 1


def test_the_scaler_is_bound_by_row_level_security(ledger: DirectDatabase, scaler: psycopg.Connection[Any]) -> None:
    TenantHarness(ledger).write(add_job)
    assert count_jobs(scaler) == 1
    assert scaler.execute("SELECT count(*) FROM jobs WHERE state = 'queued'").fetchone() == (0,)


def test_the_scaler_can_read_nothing_else_and_change_nothing(scaler: psycopg.Connection[Any]) -> None:
    for statement in FORBIDDEN:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            scaler.execute(statement.encode())
