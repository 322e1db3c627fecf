"""Goals as JSON and text, for people to read."""

from typing import Any, Literal, NamedTuple

from headway.actions import goals, halts, journal, runs
from headway.actions.people import waiting
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import NotFound
from headway.ledger.goal import Goal, GoalLimits, GoalStatus, JournalEntry, PauseKind, SubGoal, list_ready
from headway.ledger.graphs.grid_layout import compute_legible_layout
from headway.ledger.job import LEASE_MS, NEVER
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

MENTION_LIMIT = 5
GRAPH_COLUMNS = 6  # cards side by side in a drawing
CURSORS = CursorCodec("goals", (text.MAX_INTEGER,))  # the id
DEFAULT_LIMITS = GoalLimits()

DrawnPlan = Literal["all", "current"]  # every sub-goal, or those that no later plan has replaced


class GoalPage(NamedTuple):
    goals: list[dict[str, Any]]
    next_cursor: str | None


def list_page(tx: Transaction, tenant_id: int, status: GoalStatus | None, limit: int, cursor: str | None = None) -> GoalPage:
    """List goals with their progress, newest first."""
    (before,) = CURSORS.decode(cursor)
    rows = goal_store.list_page(tx, tenant_id, status, limit + 1, before)
    waits = waiting.find_by_goal(tx, tenant_id)
    summaries = [
        {**journal.build_summary(goal, run_store.sum_goal_cost(tx, tenant_id, goal.id)), "waiting_for": waits.get(goal.id)}
        for goal in rows[:limit]
    ]
    return GoalPage(summaries, CURSORS.encode_next(rows, limit, lambda goal: (goal.id,)))


def show(tx: Transaction, tenant_id: int, goal_id: int, limits: GoalLimits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Return a goal with all its sub-goals, and the experience that the tenant's plans learn from."""
    goal_and_cost = goal_store.find_with_cost(tx, tenant_id, goal_id)
    if goal_and_cost is None:
        raise NotFound(goals.NOT_FOUND_MESSAGE.format(goal_id))
    return {
        **journal.build_summary(*goal_and_cost),
        "waiting_for": waiting.find_by_goal(tx, tenant_id).get(goal_id),
        "changes": find_changes(tx, goal_and_cost[0]),
        "replan_limit": limits.replans,
        "sub_goals": [sub_goal.as_json() for sub_goal in goal_store.list_sub_goals(tx, tenant_id, goal_id)],
        "experience": [experience.as_json() for experience in goal_store.list_experience(tx, tenant_id)],
    }


def find_changes(tx: Transaction, goal: Goal) -> dict[str, Any] | None:
    """Return what the goal's agents changed in its repository."""
    run = run_store.find(tx, goal.tenant_id, goal.run_id) if goal.repository and goal.run_id else None
    return runs.load_changes(tx, run) if run else None


def build_graph(
    tx: Transaction, tenant_id: int, goal_id: int, plan: DrawnPlan = "all", columns: int = GRAPH_COLUMNS
) -> dict[str, Any]:
    """Return the positions of the sub-goals' cards, and the edges from each sub-goal to those that depend on it."""
    goals.get(tx, tenant_id, goal_id)
    sub_goals = goal_store.list_sub_goals(tx, tenant_id, goal_id)
    drawn = [sub_goal for sub_goal in sub_goals if plan == "all" or not sub_goal.superseded_by]
    layout = compute_legible_layout(
        [sub_goal.id for sub_goal in drawn],
        [(dependency, sub_goal.id) for sub_goal in drawn for dependency in sub_goal.depends_on],
        columns,
    )
    return {
        "width": layout.width,
        "height": layout.height,
        "nodes": [position._asdict() for position in layout.positions],
        "edges": [{"from": curve.source, "to": curve.target, "path": curve.path} for curve in layout.paths],
    }


def list_entries(tx: Transaction, tenant_id: int, goal_id: int, limit: int, before: int = text.MAX_INTEGER) -> list[JournalEntry]:
    goals.get(tx, tenant_id, goal_id)
    return goal_store.list_entries(tx, tenant_id, goal_id, limit, before)


# Explanations of what a goal waits for


def explain(tx: Transaction, tenant_id: int, goal_id: int, sub_goal_id: int | None = None) -> str:
    """Explain in one paragraph what holds up a goal or one of its sub-goals, using stored rows only."""
    goal = goals.get(tx, tenant_id, goal_id)
    sub_goals = goal_store.list_sub_goals(tx, tenant_id, goal_id)
    if sub_goal_id is None:
        return explain_goal(tx, goal, sub_goals)
    sub_goal = next((sub_goal for sub_goal in sub_goals if sub_goal.id == sub_goal_id), None)
    if sub_goal is None:
        raise NotFound(f"Goal #{goal_id} has no sub-goal #{sub_goal_id}.")
    return explain_sub_goal(tx, goal, sub_goals, sub_goal)


def explain_goal(tx: Transaction, goal: Goal, sub_goals: list[SubGoal]) -> str:
    done = sum(sub_goal.status == "completed" for sub_goal in sub_goals)
    count = f"{done} of {len(sub_goals)} sub-goals are done"
    if goal.status == "completed":
        return f"Goal #{goal.id} is completed: {count}."
    if goal.status == "abandoned":
        ended = f"{done} of {len(sub_goals)} sub-goals were done." if sub_goals else "It had no plan."
        return f"Goal #{goal.id} was abandoned: {goal.pause_reason.rstrip('.')}. {ended}"
    if goal.status == "paused":
        so_far = f"So far {count}." if sub_goals else "It has no plan yet."
        return f"Goal #{goal.id} is paused: {goal.pause_reason} {describe_next_action(goal.id, goal.pause_kind)} {so_far}"
    sentences = [f"Goal #{goal.id} is active: {count}." if sub_goals else f"Goal #{goal.id} is active and has no plan yet."]
    if wait := waiting.find_by_goal(tx, goal.tenant_id).get(goal.id):
        sentences.append(f"An agent waits for a person: {wait['kind']} #{wait['id']}.")
    in_progress = [sub_goal for sub_goal in sub_goals if sub_goal.status == "in-progress"]
    sentences += [describe_progress(tx, sub_goal) for sub_goal in in_progress[:MENTION_LIMIT]]
    pending = [sub_goal for sub_goal in sub_goals if sub_goal.status == "pending"]
    sentences += [
        f"{format_name(sub_goal)} waits: {describe_obstacle(sub_goals, sub_goal)}" for sub_goal in pending[:MENTION_LIMIT]
    ]
    if len(pending) > MENTION_LIMIT:
        sentences.append(f"{len(pending) - MENTION_LIMIT} more wait.")
    if goal.replan_why:
        sentences.append(f"A new plan is due: {goal.replan_why}")
    return " ".join([*sentences, *describe_blockers(tx, goal)])


def describe_next_action(goal_id: int, kind: PauseKind | None) -> str:
    """Describe how a paused goal can continue."""
    match kind:
        case "budget":
            return "To resume it now, raise the limit with `PUT /v1/costs`."
        case "operator" | "fault":
            return f"Resume it with `headway goal resume {goal_id}`."
    return f"It needs a decision: `headway goal decide {goal_id} continue`, `replan --note …` or `abandon`."


def describe_blockers(tx: Transaction, goal: Goal) -> list[str]:
    """Describe obstacles that have nothing to do with the plan."""
    job = job_store.find(tx, goal.tenant_id, goal.run_id or "")
    if halts.find_active(tx):
        return ["Headway is halted. Lift the halt with `headway unhalt`."]
    if job is None:
        return []
    if not job_store.has_live_process(tx, LEASE_MS):
        return ["No process is running jobs. Start `headway serve` or `headway worker`."]
    if job.state == "queued" and tx.now - job.due_at > 2_000:
        return ["No process has picked it up yet. If they are all busy, start another `headway worker`."]
    if job.state == "delayed" and job.attempts and job.due_at < NEVER:
        delay_s = max(0, job.due_at - tx.now) // 1000
        return [f"The last attempt failed ({job.as_json()['error']}); the next one starts in {delay_s} s."]
    return []


def explain_sub_goal(tx: Transaction, goal: Goal, sub_goals: list[SubGoal], sub_goal: SubGoal) -> str:
    match sub_goal.status:
        case "in-progress":
            return describe_progress(tx, sub_goal)
        case "completed":
            outcome = sub_goal.as_json()["outcome"] or {}
            summary = text.to_one_line(str(outcome.get("summary", "")))[:500]
            return f"{format_name(sub_goal)} is completed: {summary} {describe_judgment(sub_goal)}"
        case "failed" | "skipped":
            dependants = [other for other in sub_goals if sub_goal.id in other.depends_on and other.status == "pending"]
            consequence = (
                f" {', '.join(format_name(other) for other in dependants[:MENTION_LIMIT])} cannot start because of it."
                if dependants
                else ""
            )
            return f"{format_name(sub_goal)} was {sub_goal.status}: {sub_goal.reason}{consequence}"
    stopped = "" if goal.status == "active" else f" The goal itself is {goal.status}: {goal.pause_reason}"
    return f"{format_name(sub_goal)} waits: {describe_obstacle(sub_goals, sub_goal)}{stopped}"


def describe_judgment(sub_goal: SubGoal) -> str:
    if sub_goal.divergence is None:
        return "Not evaluated yet."
    divergence = "no" if sub_goal.divergence == "none" else sub_goal.divergence
    return f"Evaluation: {divergence} divergence. {sub_goal.divergence_reason}".rstrip()


def describe_progress(tx: Transaction, sub_goal: SubGoal) -> str:
    run = run_store.find(tx, sub_goal.tenant_id, sub_goal.run_id or "")
    if run is None:
        return f"{format_name(sub_goal)} is in progress."
    worker = "the main agent" if sub_goal.mode == "inline" else f"a {sub_goal.role}"
    if run.status == "queued":
        return f"{format_name(sub_goal)} waits for a free slot among its goal's sub-agents."
    idle_s = (tx.now - run.updated_at) // 1000
    return f"{format_name(sub_goal)} is in progress, by {worker}: {run.iterations} steps, last active {idle_s} s ago."


def describe_obstacle(sub_goals: list[SubGoal], sub_goal: SubGoal) -> str:
    by_id = {other.id: other for other in sub_goals}
    dependencies = [by_id[number] for number in sub_goal.depends_on]
    missing = [other for other in dependencies if other.status != "completed" or other.divergence is None]
    if missing:
        return "; ".join(f"for {format_name(other)}, which is {format_stage(other)}" for other in missing[:MENTION_LIMIT]) + "."
    position = [other.id for other in list_ready(sub_goals)].index(sub_goal.id) + 1
    return f"it is ready, at position {position} in the queue."


def format_stage(sub_goal: SubGoal) -> str:
    return "being evaluated" if sub_goal.status == "completed" else sub_goal.status


def format_name(sub_goal: SubGoal) -> str:
    return f"#{sub_goal.id} “{text.to_one_line(sub_goal.description)[:80]}”"
