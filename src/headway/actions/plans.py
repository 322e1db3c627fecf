"""A plan takes effect: its sub-goals and what each waits for, the old ones that stay, and those that are dropped."""

from collections.abc import Sequence

from headway.actions import goals, journal, runs, sub_goals
from headway.ledger.goal import OPEN, Goal, PlannedStep, SubGoal, frontier
from headway.ledger.run import Run
from headway.storage import goal_store, run_store
from headway.storage.transaction import Transaction


def key_of(one: SubGoal) -> str:
    """How a new plan names what is there already."""
    return f"#{one.id}"


def lay_out(tx: Transaction, goal: Goal, steps: Sequence[PlannedStep], why: str) -> Goal:
    """The first plan, or one that takes the place of the last: open sub-goals that it does not name are dropped."""
    known = goal_store.sub_goals(tx, goal.tenant_id, goal.id)
    named = {step.key for step in steps}
    dropped = [one for one in known if one.status in OPEN and key_of(one) not in named]
    for one in dropped:
        drop(tx, one, "The new plan does without it.")
    goal = goals.save(tx, goal._replace(plan_no=goal.plan_no + 1, replan_why=""))
    ids = {key_of(one): one.id for one in known}
    added = [step for step in steps if step.key not in ids]
    for step in added:
        ids[step.key] = goal_store.insert_sub_goal(tx, pending(goal, step))
    for step in steps:
        goal_store.put_edges(tx, ids[step.key], [ids[below] for below in step.depends_on])
    for one in goal_store.sub_goals(tx, goal.tenant_id, goal.id):
        if key_of(one) in named or one.plan_no == goal.plan_no:
            sub_goals.change(tx, one)
        if one.status == "in-progress":
            runs.let_go(tx, one.tenant_id, one.id)
    about = {
        "plan_no": goal.plan_no,
        "why": why,
        "added": [{"id": ids[step.key], "description": step.description[: sub_goals.TITLE]} for step in added],
        "kept": [ids[step.key] for step in steps if step not in added],
        "dropped": [one.id for one in dropped],
        "experience": [one.as_json() for one in goal_store.experience(tx, goal.tenant_id)],
    }
    journal.append(tx, goal.tenant_id, goal.id, "planned" if goal.plan_no == 1 else "replanned", about)
    return goal


def drop(tx: Transaction, one: SubGoal, reason: str) -> None:
    """Whoever works on it stops."""
    begun = one.status == "in-progress"
    sub_goals.skip(tx, one, reason)
    run = run_store.get(tx, one.tenant_id, one.run_id) if begun and one.run_id else None
    if run:
        free(tx, run)


def free(tx: Transaction, run: Run) -> None:
    """From a sub-goal that it need not work on any more: a main agent goes on to the next, a sub-agent was for nothing else."""
    if run.ended:
        return
    if run.is_main:
        if run.sub_goal_id is not None:
            runs.cancel_workers(tx, run.tenant_id, run.sub_goal_id)
        run_store.save(tx, run._replace(sub_goal_id=None, hint=""))
    else:
        runs.cancel_tree(tx, run)


def changes_nothing(known: Sequence[SubGoal], steps: Sequence[PlannedStep]) -> bool:
    """Whether a new plan leaves exactly the work to do that there was before."""
    by_key = {key_of(one): one for one in known}
    after = [by_key[step.key] if step.key in by_key else pending_like(step) for step in steps]
    return frontier(known) == frontier(after)


def pending_like(step: PlannedStep) -> SubGoal:
    return SubGoal(
        0, 0, 0, 0, *step[1:9], "pending", None, "", None, "", 0, None, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    )  # fmt: skip


def pending(goal: Goal, step: PlannedStep) -> SubGoal:
    return pending_like(step)._replace(tenant_id=goal.tenant_id, goal_id=goal.id, plan_no=goal.plan_no)
