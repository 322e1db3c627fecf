"""Random changes by random people, some of which fail half-way: the audit log has an entry for exactly those that were stored."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from headway.actions.access import audit, spending
from headway.actions.engine import dead_letters
from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.actions.todos import claims, todos
from headway.ledger.errors import Conflict, Halted, HeadwayError, NotFound
from headway.ledger.tenancy import AuditFilter
from headway.ledger.todo import Change
from headway.storage.stores import spending as spending_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.proofs import Proof

ACTIONS_PER_TRIAL = 25
PEOPLE = (("ada", "token 1"), ("bob", "token 2"), ("cli", "root"))
ALL = AuditFilter()


class Interrupted(HeadwayError):
    """The change was made, but something later in its transaction fails."""


class Installation:
    """What can be changed, and its present state by the names that entries use."""

    def __init__(self, desk: TenantHarness) -> None:
        self.desk, self.tenant_id = desk, desk.tenant.id
        self.todo_id = desk.add("leased").id
        assert desk.write(claims.claim, "worker-1", lease_s=3_600)
        self.job_id = desk.write(jobs.create_job, "tool", {}).id

    def read_state(self, tx: Transaction) -> dict[str, Any]:
        job = jobs.find_job(tx, self.tenant_id, self.job_id)
        return {
            "installation": halts.as_json(halts.find_active(tx)),
            "costs": spending_store.get_pool(tx, self.tenant_id).ceiling,
            f"todo:{self.todo_id}": todos.get_todo(tx, self.tenant_id, self.todo_id).subject,
            f"job:{self.job_id}": job and job.state,
        }

    def choose(self, random: Random) -> Callable[[Transaction], object]:
        tenant_id, number = self.tenant_id, random.randint(1, 3)
        return random.choice(
            [
                lambda tx: halts.halt(tx, f"reason {number}"),
                halts.unhalt,
                lambda tx: spending.set_limit(tx, tenant_id, number),
                lambda tx: todos.change_todo(tx, tenant_id, self.todo_id, Change(subject=f"subject {number}"), force=True),
                lambda tx: dead_letters.retry(tx, tenant_id, self.job_id),
                lambda tx: jobs.drop(tx, tenant_id, self.job_id),
            ]
        )

    def restore_job(self) -> None:
        """Let the job die, or replace one that was dropped: nobody decides that, so there is no entry."""
        if self.desk.read(jobs.find_job, self.job_id) is None:
            self.job_id = self.desk.write(jobs.create_job, "tool", {}).id
        self.desk.database.write(
            lambda tx: jobs.fail_permanently(tx, jobs.get_locked_job(tx, self.tenant_id, self.job_id), "No host.")
        )

    def list_new_entries(self, known: int) -> list[dict[str, Any]]:
        return self.desk.read(audit.list_after, ALL, known, 100)


def change(installation: Installation, random: Random) -> tuple[set[str], str]:
    """Make one change. Return what is different now, and who made it."""
    (actor, credential), work, fails = random.choice(PEOPLE), installation.choose(random), random.random() < 0.3

    def act(tx: Transaction) -> None:
        tx.actor, tx.credential = actor, credential
        work(tx)
        if fails:
            raise Interrupted

    before = installation.desk.database.read(installation.read_state)
    with suppress(Interrupted, Conflict, Halted, NotFound):
        installation.desk.database.write(act)
    after = installation.desk.database.read(installation.read_state)
    return {name for name, value in after.items() if value != before[name]}, f"{actor} ({credential})"


@pytest.mark.proof
def test_every_stored_change_has_one_entry_and_no_other_has_one(desk: TenantHarness, proof: Proof) -> None:
    installation = Installation(desk)
    for seed in proof.seeds(f"series of {ACTIONS_PER_TRIAL} audited changes, some of them interrupted", share=1, whole=150):
        random = Random(seed)
        for _ in range(ACTIONS_PER_TRIAL):
            if random.random() < 0.3:
                installation.restore_job()
            known = max((entry["seq"] for entry in desk.read(audit.list_audit_entries, ALL, 1)["entries"]), default=0)
            changed, person = change(installation, random)
            entries = installation.list_new_entries(known)
            assert {entry["target"] for entry in entries} == changed
            assert len(entries) == len(changed)
            assert {entry["who"] for entry in entries} <= {person}
