"""Goals as JSON and text, for people to read: pages, drawings of the plan, runs and earlier plans."""

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, Final, Literal, NamedTuple, get_args

from headway.actions.goals import goals
from headway.actions.installation import halts
from headway.actions.runs import jobs, runs, sub_goals, waiting
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import NotFound
from headway.ledger.goal import Goal, GoalFilter, GoalSort, JournalEntry, PauseKind, SubGoal, list_ready
from headway.ledger.graph_layout import compute_layout
from headway.ledger.job import LEASE_MS, NEVER
from headway.ledger.limits import GoalLimits
from headway.ledger.money import to_dollars
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores import worker_leases
from headway.storage.stores.spending import GoalRun, SpendingTotal
from headway.storage.transaction import Transaction

MENTION_LIMIT = 5
GRAPH_COLUMNS = 6  # cards side by side in a drawing
SEARCH_BATCH = 500  # goals that a search reads at once,
SEARCH_LIMIT = 5_000  # and before it answers
CURSORS = CursorCodec("goals", (text.MAX_INTEGER,))  # the id
SORTED_CURSORS = {sort: CursorCodec(f"goals by {sort}", (text.MAX_INTEGER, text.MAX_INTEGER)) for sort in get_args(GoalSort)}
ALL_GOALS = GoalFilter()
DEFAULT_LIMITS = GoalLimits()

DrawnPlan = Literal["all", "current"]  # every sub-goal, or only the ones that no later plan has replaced


# By the reason of the pause: how the goal can continue.
DECIDE = "It needs a decision: continue, make a new plan, or abandon it."
NEXT_ACTIONS: dict[PauseKind, str] = {
    "budget": "It resumes automatically when there is money; raise the pool's limit to resume it now.",
    "operator": "It continues when it is resumed.",
    "fault": "Resume it when the fault is fixed.",
    "goal_budget": "Raise or remove its budget, or decide: continue without a budget, make a new plan, or abandon it.",
    "deadline": "Set a later deadline or none, or decide: continue without a deadline, make a new plan, or abandon it.",
    "proposal": "It needs a decision: start it, or decline it.",
}


class GoalPage(NamedTuple):
    goals: list[dict[str, Any]]
    next_cursor: str | None


def list_goals(tx: Transaction, tenant_id: int, chosen: GoalFilter | None, limit: int, cursor: str | None = None) -> GoalPage:
    """List goals with their progress, cost and tokens. A search reads a limited number of goals, and continues at the cursor."""
    chosen = chosen or ALL_GOALS
    waits = waiting.find_by_goal(tx, tenant_id)
    rows, next_cursor = select(tx, tenant_id, chosen, limit, cursor, waits)
    ids = [goal.id for goal in rows]
    costs = run_store.sum_goal_costs(tx, tenant_id, ids)
    totals = {total.name: total for total in spending_store.list_by_goal(tx, tenant_id, ids)}
    summaries = [
        {
            **sub_goals.build_summary(goal, costs.get(goal.id, 0)),
            "waiting_for": waits.get(goal.id),
            "usage": encode_usage(totals.get(str(goal.id))),
        }
        for goal in rows
    ]
    return GoalPage(summaries, next_cursor)


def select(
    tx: Transaction, tenant_id: int, chosen: GoalFilter, limit: int, cursor: str | None, waiting_ids: Iterable[int]
) -> tuple[list[Goal], str | None]:
    """Select the goals of a page. Returns them with the cursor of the next one."""
    codec: CursorCodec[Any] = CURSORS if chosen.sort == "newest" else SORTED_CURSORS[chosen.sort]
    keys = codec.decode(cursor)
    after = (keys[0], keys[-1])
    words = text.check_text(chosen.words, "q", text.SUBJECT_LIMIT).casefold().split()
    found: list[Goal] = []
    read = 0
    while True:
        batch_size = SEARCH_BATCH if words else limit + 1
        rows = goal_store.list_goal_page(tx, tenant_id, chosen, batch_size, after, waiting_ids)
        found += [goal for goal in rows if matches(goal, words)]
        read += len(rows)
        last = found[limit - 1] if len(found) > limit else rows[-1] if rows else None
        if last is None or (len(rows) < batch_size and len(found) <= limit):
            return found, None
        after = (goal_store.get_sort_key(last, chosen.sort), last.id)
        if len(found) > limit or read >= SEARCH_LIMIT:
            return found[:limit], codec.encode(after[-len(keys) :])


def matches(goal: Goal, words: Sequence[str]) -> bool:
    """Whether a goal has all the words, in its texts or as its number."""
    if not words:
        return True
    searched = f"#{goal.id} {goal.description} {goal.success_criteria}".casefold()
    return all(word in searched for word in words)


def encode_usage(total: SpendingTotal | None) -> dict[str, int]:
    names = ("input_tokens", "cached_tokens", "output_tokens")
    return {name: getattr(total, name) if total else 0 for name in names}


def show_goal(tx: Transaction, tenant_id: int, goal_id: int, limits: GoalLimits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Return a goal with all its sub-goals, and the experience that the tenant's plans learn from."""
    goal_and_cost = goal_store.find_with_cost(tx, tenant_id, goal_id)
    if goal_and_cost is None:
        raise NotFound(goals.NOT_FOUND_MESSAGE.format(goal_id))
    return {
        **sub_goals.build_summary(*goal_and_cost),
        "waiting_for": waiting.find_by_goal(tx, tenant_id).get(goal_id),
        "usage": encode_usage(next(iter(spending_store.list_by_goal(tx, tenant_id, [goal_id])), None)),
        "changes": find_changes(tx, goal_and_cost[0]),
        "replan_limit": limits.replans,
        "sub_goals": [sub_goal.as_json() for sub_goal in goal_store.list_sub_goals(tx, tenant_id, goal_id)],
        "experience": [experience.as_json() for experience in goal_store.list_experience(tx, tenant_id)],
    }


def find_changes(tx: Transaction, goal: Goal) -> dict[str, Any] | None:
    """Return what the goal's agents changed in its repository."""
    run = run_store.find_run(tx, goal.tenant_id, goal.run_id) if goal.repository and goal.run_id else None
    return runs.load_changes(tx, run) if run else None


def build_graph(
    tx: Transaction, tenant_id: int, goal_id: int, plan: DrawnPlan = "all", columns: int = GRAPH_COLUMNS
) -> dict[str, Any]:
    """Return the positions of the sub-goals' cards, and the edges from each sub-goal to its dependants."""
    goals.get_goal(tx, tenant_id, goal_id)
    sub_goals = goal_store.list_sub_goals(tx, tenant_id, goal_id)
    drawn = [sub_goal for sub_goal in sub_goals if plan == "all" or not sub_goal.superseded_by]
    layout = compute_layout(
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
    goals.get_goal(tx, tenant_id, goal_id)
    return goal_store.list_entries(tx, tenant_id, goal_id, limit, before)


# Explanations of what a goal waits for


def explain(tx: Transaction, tenant_id: int, goal_id: int, sub_goal_id: int | None = None) -> str:
    """Explain in one paragraph what holds up a goal or one of its sub-goals, using stored rows only."""
    goal = goals.get_goal(tx, tenant_id, goal_id)
    sub_goals = goal_store.list_sub_goals(tx, tenant_id, goal_id)
    if sub_goal_id is None:
        return explain_goal(tx, goal, sub_goals)
    sub_goal = next((sub_goal for sub_goal in sub_goals if sub_goal.id == sub_goal_id), None)
    if sub_goal is None:
        raise NotFound(f"Goal #{goal_id} has no sub-goal #{sub_goal_id}.")
    return explain_sub_goal(tx, goal, sub_goals, sub_goal)


def explain_goal(tx: Transaction, goal: Goal, sub_goals: list[SubGoal]) -> str:
    count = f"{goal.done} of {goal.in_plan} sub-goals are done"
    if goal.status == "completed":
        return f"Goal #{goal.id} is completed: {count}."
    if goal.status == "abandoned":
        ended = f"{goal.done} of {goal.in_plan} sub-goals were done." if sub_goals else "It had no plan."
        return f"Goal #{goal.id} was abandoned: {goal.pause_reason.rstrip('.')}. {ended}"
    if goal.status == "paused":
        so_far = f"So far {count}." if sub_goals else "It has no plan yet."
        reason = " by the operator." if goal.pause_kind == "operator" else f": {goal.pause_reason}"
        return f"Goal #{goal.id} is paused{reason} {NEXT_ACTIONS.get(goal.pause_kind, DECIDE)} {so_far}"
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


def describe_blockers(tx: Transaction, goal: Goal) -> list[str]:
    """Describe obstacles that have nothing to do with the plan."""
    job = job_store.find_job(tx, goal.tenant_id, goal.run_id or "")
    if halts.find_active(tx):
        return ["Headway is halted."]
    if job is None:
        return []
    if not worker_leases.has_live_process(tx, LEASE_MS):
        return ["No process is running jobs. Start a server or a worker."]
    if job.state == "queued" and tx.now - job.due_at > 2_000:
        return ["No process has picked it up yet. If they are all busy, start another worker."]
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
    run = run_store.find_run(tx, sub_goal.tenant_id, sub_goal.run_id or "")
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


# The agent runs of a goal: who worked when, at what, and what that used.


RUNS_LIMIT: Final = 2_000


def list_runs(tx: Transaction, tenant_id: int, goal_id: int) -> dict[str, Any]:
    """Return the newest runs with their tokens, and the tokens of all."""
    goals.get_goal(tx, tenant_id, goal_id)
    rows = spending_store.list_goal_runs(tx, tenant_id, goal_id, RUNS_LIMIT)
    retry_times = jobs.retry_times(tx, tenant_id, [run.id for run in rows if not run.ended_at])
    totals = {total.name: total for total in spending_store.list_by_goal_run(tx, tenant_id, goal_id)}
    nothing = SpendingTotal("")
    return {
        "runs": [encode_run(run, totals.get(run.id, nothing), retry_times.get(run.id, 0)) for run in rows],
        "usage": encode_tokens(reduce(SpendingTotal.merge, totals.values(), nothing)),
        "omitted": spending_store.count_goal_runs(tx, tenant_id, goal_id) - len(rows),
    }


def encode_run(run: GoalRun, total: SpendingTotal, retry_at: int) -> dict[str, Any]:
    document = run._asdict()
    cost = document.pop("cost")
    times = {name: document[name] // 1000 for name in ("created_at", "updated_at", "ended_at")}
    exact_times = {"start_ms": run.created_at, "end_ms": run.ended_at}
    return {**document, **times, **exact_times, **encode_tokens(total), "cost_usd": to_dollars(cost), "retry_at": retry_at}


def encode_tokens(total: SpendingTotal) -> dict[str, int]:
    return {
        "input_tokens": total.input_tokens,
        "cached_tokens": total.cached_tokens,
        "output_tokens": total.output_tokens,
    }


# The plans of a goal: what each consisted of, and what it changed.


PLAN_CURSORS = CursorCodec("plans", (MAX_INTEGER,))  # the number of the journal entry


class PlanPage(NamedTuple):
    plans: list[dict[str, Any]]
    next_cursor: str | None


def list_plans(tx: Transaction, tenant_id: int, goal_id: int, limit: int, cursor: str | None = None) -> PlanPage:
    """List the plans of a goal, the one in force first."""
    (before,) = PLAN_CURSORS.decode(cursor)
    goal = goals.get_goal(tx, tenant_id, goal_id)
    entries = goal_store.list_plan_entries(tx, tenant_id, goal_id, limit + 1, before)
    sub_goals = goal_store.list_sub_goals(tx, tenant_id, goal_id)
    plans = [describe_plan(goal, entry, sub_goals) for entry in entries[:limit]]
    return PlanPage(plans, PLAN_CURSORS.encode_next(entries, limit, lambda entry: (entry.n,)))


def describe_plan(goal: Goal, entry: JournalEntry, sub_goals: Sequence[SubGoal]) -> dict[str, Any]:
    """Return a plan with its sub-goals. Sub-goals that were done before are part of it, because it builds on their outcomes."""
    data: dict[str, Any] = json.loads(entry.data)
    plan_no = int(data["plan_no"])
    members = [sub_goal for sub_goal in sub_goals if is_member(sub_goal, plan_no)]
    changed_ids = set(data.get("changed", ()))
    return {
        "plan": plan_no,
        "in_force": plan_no == goal.plan_no,
        "created_at": entry.at // 1000,
        "reason": data.get("why", ""),
        "sub_goals": [sub_goal.id for sub_goal in members],
        "total": len(members),
        "done": sum(sub_goal.is_done for sub_goal in members),
        "added": [describe_member(sub_goal) for sub_goal in sub_goals if sub_goal.plan_no == plan_no],
        "removed": [describe_member(sub_goal) for sub_goal in sub_goals if sub_goal.superseded_by == plan_no],
        "changed": [describe_member(sub_goal) for sub_goal in sub_goals if sub_goal.id in changed_ids],
    }


def is_member(sub_goal: SubGoal, plan_no: int) -> bool:
    return sub_goal.plan_no <= plan_no and not 0 < sub_goal.superseded_by <= plan_no


def describe_member(sub_goal: SubGoal) -> dict[str, Any]:
    return {"id": sub_goal.id, "title": sub_goal.name, "status": sub_goal.status, "divergence": sub_goal.divergence}
