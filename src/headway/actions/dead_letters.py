"""Dead letters: failed jobs that are kept until an operator retries them with the same context or drops them."""

from headway.actions import goals, halts, jobs, runs, turns
from headway.ledger.errors import Conflict
from headway.ledger.job import Job
from headway.ledger.run import Limits, Run
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction


def retry(tx: Transaction, tenant_id: int, job_id: str, limits: Limits = goals.DEFAULT_LIMITS) -> Job:
    """Retry a dead job. A turn continues under the same id from the end of its transcript, and a goal from its last checkpoint. A
    job that is waiting for a retry is retried now."""
    halts.check(tx)
    job = jobs.get_locked(tx, tenant_id, job_id)
    if job.retry_at:
        return jobs.requeue(tx, job)
    jobs.check_dead(job)
    jobs.record_decision(tx, job, "job.retry", {"state": "queued"})
    run = run_store.find(tx, tenant_id, job.id)
    if run is not None and run.is_main:
        return retry_goal(tx, run, limits)
    if run is not None and run.sub_goal_id is not None:
        raise Conflict(f"This sub-agent worked for goal #{run.goal_id}, which has replanned without it. See the goal instead.")
    job = jobs.revive(tx, job)
    if run is not None and run.ended:
        if run.parent_run_id is None:
            turns.revive(tx, run)
        else:
            runs.revive(tx, run)
    return job


def retry_goal(tx: Transaction, run: Run, limits: Limits) -> Job:
    assert run.goal_id is not None
    goals.resume(tx, run.tenant_id, run.goal_id, limits)
    return jobs.get(tx, run.tenant_id, run.id)
