"""What people see of goals."""

import re
from typing import Any, NamedTuple

from headway.actions import goals, journal
from headway.ledger import text
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.goal import Goal, GoalLimits, GoalStatus, JournalEntry, PauseKind, SubGoal, ready
from headway.ledger.graph_layout import layout
from headway.ledger.job import LEASE_MS, NEVER
from headway.storage import goal_store, halt_store, job_store, run_store
from headway.storage.transaction import Transaction

MENTIONED = 5
CURSOR_PATTERN = r"^[0-9]{0,18}$"
DEFAULTS = GoalLimits()


class GoalPage(NamedTuple):
    goals: list[dict[str, Any]]
    next_cursor: str | None


def page(tx: Transaction, tenant_id: int, status: GoalStatus | None, limit: int, cursor: str | None = None) -> GoalPage:
    """The newest first, each with how far it got."""
    if not re.fullmatch(CURSOR_PATTERN, cursor or "", re.ASCII):
        raise Invalid("cursor must be the next_cursor of another page.")
    before = int(cursor) if cursor else text.MAX_INTEGER
    found = goal_store.page(tx, tenant_id, status, limit + 1, before)
    shown = [journal.summary(goal, run_store.cost_of_goal(tx, tenant_id, goal.id)) for goal in found[:limit]]
    return GoalPage(shown, str(found[limit - 1].id) if len(found) > limit else None)


def show(tx: Transaction, tenant_id: int, goal_id: int, limits: GoalLimits = DEFAULTS) -> dict[str, Any]:
    """A goal with all of its sub-goals, and what the tenant's plans have to learn from."""
    found = goal_store.with_cost(tx, tenant_id, goal_id)
    if found is None:
        raise NotFound(goals.UNKNOWN.format(goal_id))
    return {
        **journal.summary(*found),
        "replan_limit": limits.replans,
        "sub_goals": [one.as_json() for one in goal_store.sub_goals(tx, tenant_id, goal_id)],
        "experience": [one.as_json() for one in goal_store.experience(tx, tenant_id)],
    }


def graph(tx: Transaction, tenant_id: int, goal_id: int) -> dict[str, Any]:
    """Where the cards of its sub-goals stand, and the edges from each to those that wait for it."""
    goals.get(tx, tenant_id, goal_id)
    sub_goals = goal_store.sub_goals(tx, tenant_id, goal_id)
    drawn = layout([one.id for one in sub_goals], [(below, one.id) for one in sub_goals for below in one.depends_on])
    return {
        "width": drawn.width,
        "height": drawn.height,
        "nodes": [spot._asdict() for spot in drawn.spots],
        "edges": [{"from": curve.source, "to": curve.target, "path": curve.path} for curve in drawn.curves],
    }


def entries(tx: Transaction, tenant_id: int, goal_id: int, limit: int, before: int = text.MAX_INTEGER) -> list[JournalEntry]:
    goals.get(tx, tenant_id, goal_id)
    return goal_store.entries(tx, tenant_id, goal_id, limit, before)


# Why is it not further?


def why(tx: Transaction, tenant_id: int, goal_id: int, sub_goal_id: int | None = None) -> str:
    """What stands in the way of a goal, or of one of its sub-goals, in one paragraph and from rows alone."""
    goal = goals.get(tx, tenant_id, goal_id)
    sub_goals = goal_store.sub_goals(tx, tenant_id, goal_id)
    if sub_goal_id is None:
        return why_goal(tx, goal, sub_goals)
    one = next((one for one in sub_goals if one.id == sub_goal_id), None)
    if one is None:
        raise NotFound(f"Goal #{goal_id} has no sub-goal #{sub_goal_id}.")
    return why_sub_goal(tx, goal, sub_goals, one)


def why_goal(tx: Transaction, goal: Goal, sub_goals: list[SubGoal]) -> str:
    done = sum(one.status == "completed" for one in sub_goals)
    count = f"{done} of {len(sub_goals)} sub-goals are done"
    if goal.status == "completed":
        return f"Goal #{goal.id} is completed: {count}."
    if goal.status == "abandoned":
        ended = f"{done} of {len(sub_goals)} sub-goals were done." if sub_goals else "It had no plan."
        return f"Goal #{goal.id} was abandoned: {goal.pause_reason.rstrip('.')}. {ended}"
    if goal.status == "paused":
        so_far = f"So far {count}." if sub_goals else "It has no plan yet."
        return f"Goal #{goal.id} is paused: {goal.pause_reason} {asked(goal.id, goal.pause_kind)} {so_far}"
    sentences = [f"Goal #{goal.id} is active: {count}." if sub_goals else f"Goal #{goal.id} is active and has no plan yet."]
    going = [one for one in sub_goals if one.status == "in-progress"]
    sentences += [at_work(tx, one) for one in going[:MENTIONED]]
    waiting = [one for one in sub_goals if one.status == "pending"]
    sentences += [f"{named(one)} waits: {obstacle(sub_goals, one)}" for one in waiting[:MENTIONED]]
    if len(waiting) > MENTIONED:
        sentences.append(f"{len(waiting) - MENTIONED} more wait.")
    if goal.replan_why:
        sentences.append(f"A new plan is due: {goal.replan_why}")
    return " ".join([*sentences, *held_up(tx, goal)])


def asked(goal_id: int, kind: PauseKind | None) -> str:
    """What lets a paused goal go on."""
    match kind:
        case "budget":
            return "It goes on by itself when the pool is raised or the day rolls."
        case "operator" | "fault":
            return f"`headway goal resume {goal_id}` lets it go on."
    return f"It waits for a decision: `headway goal decide {goal_id} continue`, `replan --note …` or `abandon`."


def held_up(tx: Transaction, goal: Goal) -> list[str]:
    """What has nothing to do with the plan."""
    job = job_store.get(tx, goal.tenant_id, goal.run_id or "")
    if halt_store.in_force(tx):
        return ["Everything is halted: `headway unhalt` lets it go on."]
    if job is None:
        return []
    if not job_store.anybody_alive(tx, LEASE_MS):
        return ["No process is at work: `headway serve` and `headway worker` go on with it."]
    if job.state == "queued" and tx.now - job.due_at > 2_000:
        return ["Nobody has taken it up yet: `headway serve` and `headway worker` do."]
    if job.state == "delayed" and job.attempts and job.due_at < NEVER:
        soon = max(0, job.due_at - tx.now) // 1000
        return [f"The last attempt failed ({job.as_json()['error']}); the next one comes in {soon} s."]
    return []


def why_sub_goal(tx: Transaction, goal: Goal, sub_goals: list[SubGoal], one: SubGoal) -> str:
    match one.status:
        case "in-progress":
            return at_work(tx, one)
        case "completed":
            told = one.as_json()["outcome"] or {}
            return f"{named(one)} is completed: {text.one_line(str(told.get('summary', '')))[:500]} {judgment(one)}"
        case "failed" | "skipped":
            behind = [other for other in sub_goals if one.id in other.depends_on and other.status == "pending"]
            after = f" {', '.join(named(other) for other in behind[:MENTIONED])} cannot start because of it." if behind else ""
            return f"{named(one)} was {one.status}: {one.reason}{after}"
    stopped = "" if goal.status == "active" else f" The goal itself is {goal.status}: {goal.pause_reason}"
    return f"{named(one)} waits: {obstacle(sub_goals, one)}{stopped}"


def judgment(one: SubGoal) -> str:
    if one.divergence is None:
        return "Not judged yet."
    return f"Judged: {'no' if one.divergence == 'none' else one.divergence} divergence. {one.divergence_reason}".rstrip()


def at_work(tx: Transaction, one: SubGoal) -> str:
    run = run_store.get(tx, one.tenant_id, one.run_id or "")
    if run is None:
        return f"{named(one)} is in progress."
    who = "the main agent itself" if one.mode == "inline" else f"a {one.role}"
    if run.status == "queued":
        return f"{named(one)} waits for a free slot among its goal's sub-agents."
    return f"{named(one)} is in progress, by {who}: {run.iterations} steps, last active {(tx.now - run.updated_at) // 1000} s ago."


def obstacle(sub_goals: list[SubGoal], one: SubGoal) -> str:
    by_id = {other.id: other for other in sub_goals}
    below = [by_id[number] for number in one.depends_on]
    missing = [other for other in below if other.status != "completed" or other.divergence is None]
    if missing:
        return "; ".join(f"for {named(other)}, which is {stage(other)}" for other in missing[:MENTIONED]) + "."
    place = [other.id for other in ready(sub_goals)].index(one.id) + 1
    return f"nothing is in its way, it is number {place} in line."


def stage(one: SubGoal) -> str:
    return "being evaluated" if one.status == "completed" else one.status


def named(one: SubGoal) -> str:
    return f"#{one.id} “{text.one_line(one.description)[:80]}”"
