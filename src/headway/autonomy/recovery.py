"""Recovery of goals after a crash: mark interrupted sub-goals once, notify the operator, and restart the goals one by one."""

from collections.abc import Iterator, Sequence
from itertools import count

from headway.actions import jobs, journal, notices, sub_goals
from headway.actions.notices import NoticeSubject
from headway.ledger.events import Event, encode_json
from headway.ledger.goal import Goal
from headway.ledger.job import Job
from headway.ledger.run import Run
from headway.ledger.text import to_one_line
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

GOALS_LIMIT = 10


def recover_goals(tx: Transaction, taken: Sequence[Job], stagger_ms: int) -> None:
    """Recover the goals among jobs that the engine took over from a dead process. Restarts are staggered across all tenants."""
    line = count(tx.now, stagger_ms)
    for tenant_id in dict.fromkeys(job.tenant_id for job in taken):
        notify_tenant(tx, tenant_id, [job for job in taken if job.tenant_id == tenant_id], line)


def notify_tenant(tx: Transaction, tenant_id: int, taken: Sequence[Job], line: Iterator[int]) -> None:
    """Emit one event for the tenant's jobs, and send one notice if goals were among them."""
    runs = [run for job in taken if (run := run_store.find(tx, tenant_id, job.id))]
    affected = {run.goal_id for run in runs if run.goal_id is not None}
    known = [goal_store.find(tx, tenant_id, goal_id) for goal_id in affected]
    found = sorted((goal for goal in known if goal and not goal.ended), key=lambda goal: (goal.priority, goal.id))
    for goal in found:
        at_work = [run for run in runs if run.goal_id == goal.id]
        half_done = mark_interrupted(tx, goal, at_work)
        if goal.status == "active":
            requeue_goal(tx, goal, [run for run in at_work if run.sub_goal_id in half_done], next(line))
    data = {"runs": len(taken), "goals": len(found), "at": tx.now // 1000}
    tx.emit(Event(tenant_id, "recovered", encode_json(data)))
    if found:
        named = "; ".join(
            f"#{goal.id} “{to_one_line(goal.description)[:80]}” ({format_agents(runs, goal)})" for goal in found[:GOALS_LIMIT]
        )
        more = f" and {len(found) - GOALS_LIMIT} more" if len(found) > GOALS_LIMIT else ""
        about = NoticeSubject(goal_id=found[0].id if len(found) == 1 else None)
        notices.notify(tx, tenant_id, "recovered", f"Interrupted, resuming from the last checkpoint: {named}{more}.", about)


def mark_interrupted(tx: Transaction, goal: Goal, runs: Sequence[Run]) -> set[int]:
    """Record that the goal's cycle was interrupted, and mark its running sub-goals for review. Returns their ids."""
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "interrupted")
    at = {run.sub_goal_id for run in runs}
    half_done = [
        one for one in goal_store.list_sub_goals(tx, goal.tenant_id, goal.id) if one.status == "in-progress" and one.id in at
    ]
    for one in half_done:
        sub_goals.change(tx, one, interrupted=1)
    about = {"agents": [run.role for run in runs], "sub_goals": [one.id for one in half_done]}
    journal.append(tx, goal.tenant_id, goal.id, "interrupted", about)
    return {one.id for one in half_done}


def requeue_goal(tx: Transaction, goal: Goal, runs: Sequence[Run], due_at: int) -> None:
    """Queue the goal's pursuit at its place in the staggered restart, even if it was only waiting for sub-agents.

    Sub-agents on interrupted sub-goals wait for the review. Those that a sub-agent started without waiting continue.
    """
    for run in runs:
        if not run.is_main:
            jobs.delay(tx, jobs.get_locked(tx, run.tenant_id, run.id))
    pursuit = job_store.find_locked(tx, goal.tenant_id, goal.run_id or "")
    if pursuit and (pursuit.state == "queued" or (pursuit.state == "delayed" and not pursuit.attempts)):
        jobs.move(tx, pursuit, "queued", due_at)


def format_agents(runs: Sequence[Run], goal: Goal) -> str:
    """List which of the goal's agents were running."""
    return ", ".join("main agent" if run.is_main else run.role for run in runs if run.goal_id == goal.id)
