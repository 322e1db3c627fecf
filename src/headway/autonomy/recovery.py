"""What a process that died had been pursuing is found, marked once, and told to the operator."""

from collections.abc import Sequence

from headway.actions import journal, notices, sub_goals
from headway.ledger.events import Event, encode
from headway.ledger.goal import Goal
from headway.ledger.job import Job
from headway.ledger.run import Run
from headway.ledger.text import one_line
from headway.storage import goal_store, run_store
from headway.storage.transaction import Transaction

NAMED = 10


def recovered(tx: Transaction, tenant_id: int, jobs: Sequence[Job]) -> None:
    """The engine took these over: one event for all, and one message if goals were among what they are for."""
    runs = [run for job in jobs if (run := run_store.get(tx, tenant_id, job.id))]
    affected = {run.goal_id for run in runs if run.goal_id is not None}
    found = [goal for goal_id in sorted(affected) if (goal := goal_store.get(tx, tenant_id, goal_id)) and not goal.ended]
    for goal in found:
        mark(tx, goal, [run for run in runs if run.goal_id == goal.id])
    data = {"runs": len(jobs), "goals": len(found), "at": tx.now // 1000}
    tx.emit(Event(tenant_id, "recovered", encode(data)))
    if found:
        named = "; ".join(f"#{goal.id} “{one_line(goal.description)[:80]}” ({agents(runs, goal)})" for goal in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        goal_id = found[0].id if len(found) == 1 else None
        notices.notify(
            tx, tenant_id, "recovered", f"Interrupted, and going on from the last checkpoint: {named}{more}.", goal_id=goal_id
        )


def mark(tx: Transaction, goal: Goal, runs: Sequence[Run]) -> None:
    """Its planning cycle was interrupted; what was half done is looked at before it goes on."""
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "interrupted")
    ids = {run.id for run in runs}
    half_done = [
        one for one in goal_store.sub_goals(tx, goal.tenant_id, goal.id) if one.status == "in-progress" and one.run_id in ids
    ]
    for one in half_done:
        sub_goals.save(tx, one._replace(interrupted=1))
    about = {"agents": [run.role for run in runs], "sub_goals": [one.id for one in half_done]}
    journal.append(tx, goal.tenant_id, goal.id, "interrupted", about)


def agents(runs: Sequence[Run], goal: Goal) -> str:
    """Which of its agents were at work."""
    return ", ".join("main agent" if run.is_main else run.role for run in runs if run.goal_id == goal.id)
