"""What died is kept until somebody decides: run it anew with the same context, or drop it."""

from headway.actions import halts, jobs, runs, turns
from headway.ledger.job import Job
from headway.storage import run_store
from headway.storage.transaction import Transaction


def retry(tx: Transaction, tenant_id: int, job_id: str) -> Job:
    """A turn goes on with the same id, from where its transcript ends."""
    halts.check(tx)
    job = jobs.revive(tx, jobs.locked(tx, tenant_id, job_id))
    run = run_store.get(tx, tenant_id, job.id)
    if run is not None and run.ended:
        if run.parent_run_id is None:
            turns.revive(tx, run)
        else:
            runs.revive(tx, run)
    return job
