"""Applies a plan to a goal: adds its sub-goals and dependencies, keeps those it names and drops the rest."""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.actions import goals, journal, runs, sub_goals
from headway.actions.people import waiting
from headway.ledger.goal import OPEN_STATUSES, Goal, PlannedStep, SubGoal, compute_frontier, normalize_description
from headway.ledger.run import Run
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction


def format_key(sub_goal: SubGoal) -> str:
    """Return the key by which a new plan refers to an existing sub-goal."""
    return f"#{sub_goal.id}"


def apply_plan(tx: Transaction, goal: Goal, steps: Sequence[PlannedStep], why: str) -> Goal:
    """Apply the first plan or a replacement. Open sub-goals that the plan does not name are dropped."""
    known = goal_store.list_sub_goals(tx, goal.tenant_id, goal.id)
    named_keys = {step.key for step in steps}
    dropped = [sub_goal for sub_goal in known if sub_goal.status in OPEN_STATUSES and format_key(sub_goal) not in named_keys]
    goal = goals.save(tx, goal._replace(plan_no=goal.plan_no + 1, replan_why=""))
    for sub_goal in dropped:
        drop(tx, sub_goal, "The new plan does not include it.", goal.plan_no)
    for sub_goal in known:
        if sub_goal.ended and not sub_goal.is_done and not sub_goal.superseded_by:
            sub_goals.change(tx, sub_goal, superseded_by=goal.plan_no)
    ids = {format_key(sub_goal): sub_goal.id for sub_goal in known}
    new_steps = [step for step in steps if step.key not in ids]
    for step in new_steps:
        ids[step.key] = goal_store.insert_sub_goal(tx, build_sub_goal(goal, step))
    for step in steps:
        goal_store.replace_edges(tx, goal.tenant_id, ids[step.key], [ids[dependency] for dependency in step.depends_on])
    for sub_goal in goal_store.list_sub_goals(tx, goal.tenant_id, goal.id):
        if format_key(sub_goal) in named_keys or sub_goal.plan_no == goal.plan_no:
            sub_goals.change(tx, sub_goal)
        if sub_goal.status == "in-progress":
            runs.release_workers(tx, sub_goal.tenant_id, sub_goal.id)
    data = {
        "plan_no": goal.plan_no,
        "why": why,
        "added": [describe_step(ids[step.key], step) for step in new_steps],
        "kept": [ids[step.key] for step in steps if step not in new_steps],
        "dropped": [sub_goal.id for sub_goal in dropped],
        "changed": list_changed(known, steps, ids),
        "experience": [experience.as_json() for experience in goal_store.list_experience(tx, goal.tenant_id)],
    }
    journal.append(tx, goal.tenant_id, goal.id, "planned" if goal.plan_no == 1 else "replanned", data)
    return goal


def describe_step(sub_goal_id: int, step: PlannedStep) -> dict[str, Any]:
    return {"id": sub_goal_id, "title": step.title, "description": step.description[: sub_goals.DESCRIPTION_LIMIT]}


def list_changed(known: Sequence[SubGoal], steps: Sequence[PlannedStep], ids: Mapping[str, int]) -> list[int]:
    """List the sub-goals that a plan keeps, but that depend on others than before."""
    dependencies_before = {sub_goal.id: set(sub_goal.depends_on) for sub_goal in known}
    return [
        ids[step.key]
        for step in steps
        if ids[step.key] in dependencies_before
        and {ids[dependency] for dependency in step.depends_on} != dependencies_before[ids[step.key]]
    ]


def drop(tx: Transaction, sub_goal: SubGoal, reason: str, plan_no: int) -> None:
    """Skip a sub-goal that a new plan does not include, and stop the run that works on it."""
    was_in_progress = sub_goal.status == "in-progress"
    sub_goals.skip(tx, sub_goal, reason, superseded_by=plan_no)
    run = run_store.find(tx, sub_goal.tenant_id, sub_goal.run_id) if was_in_progress and sub_goal.run_id else None
    if run:
        release_run(tx, run)


def release_run(tx: Transaction, run: Run) -> None:
    """Release a run from a dropped sub-goal. A main agent is free for the next one; a sub-agent, with no other work, is
    canceled."""
    if run.ended:
        return
    if run.is_main:
        if run.sub_goal_id is not None:
            runs.cancel_workers(tx, run.tenant_id, run.sub_goal_id)
        waiting.cancel_open(tx, run)
        run_store.save(tx, run._replace(sub_goal_id=None, hint=""))
    else:
        runs.cancel_tree(tx, run)


def is_unchanged(known: Sequence[SubGoal], steps: Sequence[PlannedStep]) -> bool:
    """Whether a new plan leaves exactly the same work to do as before."""
    by_key = {format_key(sub_goal): sub_goal for sub_goal in known}
    kept_sub_goals = [by_key[step.key] for step in steps if step.key in by_key]
    new_descriptions = {normalize_description(step.description) for step in steps if step.key not in by_key}
    return compute_frontier(known) == compute_frontier(kept_sub_goals) | new_descriptions


def build_sub_goal(goal: Goal, step: PlannedStep) -> SubGoal:
    return SubGoal(
        id=0,
        tenant_id=goal.tenant_id,
        goal_id=goal.id,
        plan_no=goal.plan_no,
        description=step.description,
        expected_outcome=step.expected_outcome,
        kind=step.kind,
        mode=step.mode,
        role=step.role,
        priority=step.priority,
        expected_value=step.expected_value,
        cost_limit=step.cost_limit,
        checks=step.checks,
        proof="unproven" if step.checks else "none",
        title=step.title,
    )
