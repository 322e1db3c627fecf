"""The outbox of jobs that wait: what is announced at once, what is repeated and when."""

import re
from typing import Any

import pytest

from headway.actions.runs import jobs
from headway.ledger.job import Job
from headway.storage.direct import DirectDatabase
from headway.storage.stores import installation, worker_leases
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Row, Transaction
from headway.testing import FixedClock, TenantHarness

KIND = "count"
SECOND_MS = 1_000


def create(tx: Transaction, tenant_id: int) -> Job:
    return jobs.create_job(tx, tenant_id, KIND, {})


def announce(tx: Transaction) -> list[str]:
    """Announce what is to be announced now, and return the ids."""
    job_ids = [job.job_id for job in job_store.lock_unannounced(tx, [KIND], 10)]
    if job_ids:
        job_store.mark_announced(tx, job_ids)
    return job_ids


def test_a_job_that_still_waits_is_announced_again_and_then_less_often(desk: TenantHarness, clock: FixedClock) -> None:
    job = desk.write(create)
    late_s = []
    for second in range(300):
        if desk.database.write(announce):
            late_s.append(second)
        clock.advance(1)
    assert late_s == [0, 8, 16, 32, 64, 124, 184, 244]
    assert desk.read(jobs.get_job, job.id) == job


def test_a_job_that_is_due_later_is_announced_at_once_and_again_after_its_due_time(desk: TenantHarness, clock: FixedClock) -> None:
    job = desk.write(create)
    desk.write(lambda tx, _: jobs.delay(tx, job, tx.now + 100 * SECOND_MS))
    late_s = []
    for second in range(130):
        if desk.database.write(announce):
            late_s.append(second)
        clock.advance(1)
    assert late_s == [0, 108, 116]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda tx, job: jobs.wake_job(tx, job.tenant_id, job.id), id="wake"),
        pytest.param(lambda tx, job: jobs.delay(tx, job, tx.now + 5), id="delay"),
        pytest.param(lambda tx, job: run_and(tx, job, jobs.requeue), id="requeue"),
        pytest.param(lambda tx, job: run_and(tx, job, lambda tx, _job: worker_leases.release_owner(tx, "one")), id="stop"),
        pytest.param(lambda tx, job: run_and(tx, job, lambda tx, job: job_store.requeue(tx, "one", [job.id])), id="no slot"),
        pytest.param(lambda tx, job: jobs.revive(tx, jobs.fail_permanently(tx, job, "why")), id="retry of a dead letter"),
        pytest.param(lambda tx, job: job_store.announce_again(tx, [job.id]), id="refused"),
    ],
)
def test_a_job_that_waits_again_is_announced_at_once(desk: TenantHarness, change: Any) -> None:
    job = desk.write(create)
    delayed = desk.write(lambda tx, _: jobs.delay(tx, job, tx.now + 3_600 * SECOND_MS))
    assert desk.database.write(announce) == [job.id]
    assert desk.database.write(announce) == []
    desk.write(lambda tx, _: change(tx, delayed))
    assert desk.database.write(announce) == [job.id]


def run_and(tx: Transaction, job: Job, change: Any) -> None:
    change(tx, jobs.move(tx, job._replace(owner="one"), "running"))


def test_jobs_that_run_have_ended_or_wait_for_a_person_are_not_announced(desk: TenantHarness) -> None:
    def create_all(tx: Transaction, tenant_id: int) -> None:
        jobs.create_job(tx, tenant_id, KIND, {}, owner="one")
        jobs.complete_job(tx, create(tx, tenant_id))
        jobs.delay(tx, create(tx, tenant_id))
        jobs.create_job(tx, tenant_id, "from the future", {})

    desk.write(create_all)
    assert desk.database.read(lambda tx: job_store.find_next_time(tx, [KIND])) is None
    assert desk.database.write(announce) == []


def test_a_job_that_was_made_due_without_an_announcement_is_found(desk: TenantHarness) -> None:
    job = desk.write(create)
    desk.write(lambda tx, _: jobs.delay(tx, job, tx.now + 3_600 * SECOND_MS))
    desk.database.write(announce)
    assert not desk.database.read(job_store.has_overlooked)
    desk.write(lambda tx, _: tx.run("UPDATE jobs SET due_at = ?", tx.now))
    assert desk.database.read(job_store.has_overlooked)
    desk.database.write(job_store.announce_overlooked)
    assert not desk.database.read(job_store.has_overlooked)
    assert desk.database.write(announce) == [job.id]


class ExplainingTransaction:
    """A transaction that returns query plans of SQLite instead of rows."""

    def __init__(self, tx: Transaction) -> None:
        self.now, self.drift, self.dialect = tx.now, tx.drift, tx.dialect
        self.explain = tx.all
        self.steps: list[str] = []

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        self.steps += [str(row[-1]) for row in self.explain(f"EXPLAIN QUERY PLAN {sql}", *parameters)]
        return []

    def one(self, sql: str, *parameters: Any) -> None:
        self.all(sql, *parameters)


def test_announcements_are_found_through_their_index(sqlite_url: str) -> None:
    def explain(tx: Transaction) -> list[str]:
        explaining: Any = ExplainingTransaction(tx)
        job_store.find_next_time(explaining, [KIND])
        job_store.lock_unannounced(explaining, [KIND], 10)
        return list(explaining.steps)

    with DirectDatabase(sqlite_url) as database:
        steps = database.read(explain)
    assert [re.sub(r" \(.*", "", step) for step in steps] == [
        "SEARCH jobs USING INDEX jobs_to_announce",
        "SEARCH jobs USING INDEX jobs_to_announce",
    ]


def test_all_processes_of_a_database_share_the_secret_of_a_dispatcher(database_url: str) -> None:
    with DirectDatabase(database_url) as first, DirectDatabase(database_url) as second:
        secrets = [
            database.write(lambda tx, service=service: installation.ensure_secret(tx, service))  # type: ignore[misc]
            for database in (first, second)
            for service in ("Headway", "Blue")
        ]
    assert secrets[:2] == secrets[2:]
    assert len({*secrets}) == 2
    assert {len(secret) for secret in secrets} == {64}
