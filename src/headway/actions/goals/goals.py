"""Goals: set, planned, paused, decided, edited by people, proven and ended."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args
from uuid import uuid4

from headway.actions.access import audit, quotas, spending
from headway.actions.installation import halts
from headway.actions.runs import inbox, jobs, notices, runs, sub_goals, waiting
from headway.actions.todos.proof import store
from headway.actions.turns import turns
from headway.ledger import text
from headway.ledger.check import ReceiptDraft, describe_failures
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.goal import (
    OPEN_STATUSES,
    Decision,
    Goal,
    GoalSource,
    GoalStatus,
    PauseKind,
    PlannedStep,
    SubGoal,
    compute_frontier,
    name_sub_goal,
    normalize_description,
)
from headway.ledger.inbox import PersonRequest
from headway.ledger.job import Job
from headway.ledger.limits import Limits
from headway.ledger.money import to_dollars
from headway.ledger.run import Run, RunEnd, RunStatus
from headway.ledger.todo import UNSET, Unset
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import requests as request_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

JOB_KIND = "goal"  # the kind of a goal's job
OPEN_GOALS_LIMIT = 1_000  # per tenant
DESCRIPTION_LIMIT = 10_000
REPOSITORY_LIMIT = 1_000
LOWEST_PRIORITY = 1_000
DEFAULT_PRIORITY = 50
DEFAULT_LIMITS = Limits()
ROLE: Final = "index"  # of the main agent
NOT_FOUND_MESSAGE = "No goal #{}."
PROPOSAL_REASON = "An agent proposed this goal. Continue to start it, or abandon it to decline."


class NewGoal(NamedTuple):
    description: str
    success_criteria: str = ""
    priority: int = DEFAULT_PRIORITY
    budget: int = 0
    deadline_at: int = 0
    repository: str = ""  # a path inside the tenant's workspace, which the caller has checked
    checks: str = ""  # JSON: what must hold at its end
    repeat_of: int = 0  # the goal that is run again


def add_goal(
    tx: Transaction,
    tenant_id: int,
    new_goal: NewGoal,
    limits: Limits = DEFAULT_LIMITS,
    source: GoalSource = "operator-injected",
    evidence: str = "",
) -> Goal:
    """Store a goal and create its main agent, which starts to pursue it at once."""
    halts.check(tx)
    goal = insert_new_goal(tx, tenant_id, new_goal, source, "active", evidence)
    return begin_goal(tx, goal, limits)


def propose(tx: Transaction, tenant_id: int, new_goal: NewGoal, evidence: str) -> Goal:
    """Store a goal that an agent suggests. It waits for the operator's approval."""
    goal = insert_new_goal(tx, tenant_id, new_goal, "agent-discovered", "paused", evidence)
    quoted = text.to_one_line(evidence)[:300]
    question = f"An agent proposes goal #{goal.id}: {format_description(goal)} Evidence: {quoted} Continue, or abandon it?"
    ask_for_decision(tx, goal, "proposal", question)
    return goal


def validate(new_goal: NewGoal) -> NewGoal:
    """Check a new goal's texts and priority; nothing here depends on the time."""
    description = text.check_text(new_goal.description.strip(), "description", DESCRIPTION_LIMIT)
    if not description:
        raise Invalid("description must not be blank. Say what the goal should achieve.")
    if not 0 <= new_goal.priority <= LOWEST_PRIORITY:
        raise Invalid(f"priority must be between 0 (highest) and {LOWEST_PRIORITY:,}.")
    criteria = text.check_text(new_goal.success_criteria.strip(), "success_criteria", DESCRIPTION_LIMIT)
    repository = text.check_text(new_goal.repository, "repository", REPOSITORY_LIMIT)
    if repository.startswith("/") or ".." in repository.split("/"):
        raise Invalid("repository must be a path inside the workspace.")
    return new_goal._replace(description=description, success_criteria=criteria)


def insert_new_goal(
    tx: Transaction, tenant_id: int, new_goal: NewGoal, source: GoalSource, status: GoalStatus, evidence: str
) -> Goal:
    new_goal = validate(new_goal)
    quotas.check_storage(tx, tenant_id)
    if new_goal.deadline_at and new_goal.deadline_at <= tx.now:
        raise Invalid("deadline must be in the future.")
    if goal_store.count_open(tx, tenant_id) >= OPEN_GOALS_LIMIT:
        raise Conflict(f"A tenant can have at most {OPEN_GOALS_LIMIT:,} open goals. Abandon one, or wait until one ends.")
    is_proposal = status == "paused"
    goal = goal_store.insert_goal(
        tx,
        Goal(
            id=0,
            tenant_id=tenant_id,
            source=source,
            description=new_goal.description,
            success_criteria=new_goal.success_criteria,
            evidence=text.check_text(evidence, "evidence", DESCRIPTION_LIMIT),
            status=status,
            priority=new_goal.priority,
            pause_kind="proposal" if is_proposal else "",
            pause_reason=PROPOSAL_REASON if is_proposal else "",
            replan_count=0,
            plan_no=0,
            replan_why="",
            run_id=None,
            budget=new_goal.budget,
            deadline_at=new_goal.deadline_at,
            created_at=tx.now,
            updated_at=tx.now,
            ended_at=0,
            repository=new_goal.repository,
            checks=new_goal.checks,
            proof="unproven" if new_goal.checks else "none",
            repeat_of=new_goal.repeat_of,
        ),
    )
    data = {"source": source, "description": goal.description, "success_criteria": goal.success_criteria, "evidence": evidence}
    entry = {**data, "repeat_of": goal.repeat_of} if goal.repeat_of else data
    sub_goals.append(tx, tenant_id, goal.id, "goal_proposed" if is_proposal else "goal_set", entry)
    return goal


def begin_goal(tx: Transaction, goal: Goal, limits: Limits) -> Goal:
    """Create the goal's main agent and the job that runs it."""
    run = Run(
        id=str(uuid4()),
        tenant_id=goal.tenant_id,
        conversation_id=0,
        turn_id=None,
        parent_run_id=None,
        role=ROLE,
        task=goal.description,
        depth=0,
        status="running",
        created_at=tx.now,
        updated_at=tx.now,
        limit=limits.sub_agent_iterations,
        goal_id=goal.id,
        repository=goal.repository,
    )
    run_store.insert_run(tx, run)
    enqueue(tx, goal, run.id, limits)
    runs.emit_run_changed(tx, run)
    return save_goal_and_emit(tx, goal._replace(run_id=run.id))


def set_repository(tx: Transaction, goal: Goal, run: Run, repository: str) -> None:
    """Let a goal that has no plan yet, and names no repository, use the one that its main agent's role names."""
    runs.set_repository(tx, run, repository)
    save_goal_and_emit(tx, goal._replace(repository=repository))


def enqueue(tx: Transaction, goal: Goal, run_id: str, limits: Limits) -> None:
    payload = {"goal_id": goal.id, "description": text.to_one_line(goal.description)[: text.SUBJECT_LIMIT]}
    jobs.create_job(tx, goal.tenant_id, JOB_KIND, payload, job_id=run_id, max_attempts=limits.attempts)


def save_goal_and_emit(tx: Transaction, goal: Goal) -> Goal:
    goal = goal._replace(updated_at=tx.now)
    goal_store.save_goal(tx, goal)
    sub_goals.emit_goal_at_commit(tx, goal.tenant_id, goal.id)
    return goal


def get_goal(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    goal = goal_store.find_goal(tx, tenant_id, goal_id)
    if goal is None:
        raise NotFound(NOT_FOUND_MESSAGE.format(goal_id))
    return goal


def get_locked_goal(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """Lock and return the goal, waiting for a step in progress. All writers lock its job first, which prevents deadlocks."""
    goal = get_goal(tx, tenant_id, goal_id)
    if goal.run_id:
        job_store.find_locked_job(tx, tenant_id, goal.run_id)
    locked = goal_store.find_locked_goal(tx, tenant_id, goal_id)
    assert locked is not None
    return locked


# Pausing


def pause(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """Pause the goal: nothing new starts. Running sub-agents finish their work, and their outcomes are kept."""
    goal = get_locked_goal(tx, tenant_id, goal_id)
    if goal.status != "active" and goal.pause_kind != "budget":  # a goal that waits for budget can be paused too
        raise Conflict(f"Goal #{goal_id} is {goal.status}; only an active goal can be paused.")
    return mark_paused(tx, goal, "operator", "Paused by the operator.")


def mark_paused(tx: Transaction, goal: Goal, kind: PauseKind, reason: str) -> Goal:
    """Pause the goal and delay its job."""
    if goal.run_id:
        job = job_store.find_locked_job(tx, goal.tenant_id, goal.run_id)
        if job and job.state in ("queued", "running", "delayed"):
            jobs.delay(tx, job)
        mark_run(tx, goal, "waiting")
    sub_goals.append(tx, goal.tenant_id, goal.id, "paused", {"kind": kind, "reason": reason})
    return save_goal_and_emit(tx, goal._replace(status="paused", pause_kind=kind, pause_reason=reason))


def escalate(tx: Transaction, goal: Goal, kind: PauseKind, reason: str) -> Goal:
    """Pause the goal and ask the operator for a decision."""
    goal = mark_paused(tx, goal, kind, reason)
    question = f"Goal #{goal.id} is paused: {format_description(goal)} {reason} Continue, replan with a note, or abandon it?"
    ask_for_decision(tx, goal, "decision", question)
    return goal


def pause_for_fault(tx: Transaction, goal: Goal, job: Job, reason: str) -> Goal:
    """Pause the goal because of a fault that replanning cannot fix. The job is marked dead; retrying it resumes the goal."""
    goal = mark_paused(tx, goal, "fault", reason)
    jobs.fail_permanently(tx, job, reason)
    what_happened = f"Goal #{goal.id} stopped because of a fault: {format_description(goal)} {reason}"
    ask_for_decision(tx, goal, "fault", f"{what_happened} Resume it when the fault is fixed, or abandon it.")
    return goal


def resume(tx: Transaction, tenant_id: int, goal_id: int, limits: Limits = DEFAULT_LIMITS) -> Goal:
    """Continue a paused goal where it stopped."""
    halts.check(tx)
    goal = get_locked_goal(tx, tenant_id, goal_id)
    if goal.status != "paused":
        raise Conflict(f"Goal #{goal_id} is {goal.status}; only a paused goal can be resumed.")
    return mark_active(tx, goal._replace(replan_count=0) if goal.pause_kind == "replans" else goal, limits)


def mark_active(tx: Transaction, goal: Goal, limits: Limits) -> Goal:
    """Continue the goal and clear the limits that it has hit: an expired deadline or an exhausted budget."""
    overdue = bool(goal.deadline_at) and goal.deadline_at <= tx.now
    overspent = bool(goal.budget) and run_store.sum_goal_cost(tx, goal.tenant_id, goal.id) >= goal.budget
    waits_for_money = overspent or goal.pause_kind == "goal_budget"
    sub_goals.append(tx, goal.tenant_id, goal.id, "resumed", {"after": goal.pause_kind})
    settle_decision(tx, goal, "continue")
    goal = goal._replace(
        status="active",
        pause_kind="",
        pause_reason="",
        deadline_at=0 if overdue else goal.deadline_at,
        budget=0 if overspent else goal.budget,
    )
    if goal.run_id is None:  # it was only proposed so far
        return begin_goal(tx, goal, limits)
    job = job_store.find_locked_job(tx, goal.tenant_id, goal.run_id)
    if job is None:  # the dead job was dropped
        enqueue(tx, goal, goal.run_id, limits)
    elif job.state in ("delayed", "dead"):
        jobs.move(tx, job, "queued", attempts=0, errors="[]")
    if waits_for_money:
        job_store.wake_waiting_runs(tx, goal.tenant_id)  # its sub-agents were waiting for budget
    mark_run(tx, goal, "running")
    return save_goal_and_emit(tx, goal)


# Deciding


def ask_for_decision(tx: Transaction, goal: Goal, notice_kind: str, question: str) -> None:
    """Put a paused goal into the inbox, and notify the operator."""
    settle_decision(tx, goal, None)  # it may be paused for another reason already
    notices.notify_about_goal(tx, goal, notice_kind, question)
    choices = json.dumps(get_args(Decision))
    asked = PersonRequest(0, goal.tenant_id, "decision", 0, None, None, goal.id, ROLE, question=question, choices=choices)
    waiting.begin_waiting(tx, asked._replace(created_at=tx.now))


def settle_decision(tx: Transaction, goal: Goal, action: Decision | None, note: str = "") -> None:
    """Take a goal out of the inbox: a person has decided or, without an action, no decision is needed any more."""
    notices.settle_goal(tx, goal.tenant_id, goal.id)
    request = request_store.find_open_decision(tx, goal.tenant_id, goal.id)
    if request and action:
        waiting.end_waiting(tx, request._replace(state="answered", answer=action, reason=note, decided_by=tx.actor))
    elif request:
        waiting.end_waiting(tx, request._replace(state="canceled", reason="A decision is no longer needed."))


def answer_decision(
    tx: Transaction, tenant_id: int, request_id: int, action: Decision, note: str = "", limits: Limits = DEFAULT_LIMITS
) -> PersonRequest:
    """Apply a person's answer to a request of the inbox. The same answer again changes nothing; another one raises Conflict."""
    goal = get_locked_goal(tx, tenant_id, inbox.get(tx, tenant_id, request_id, "decision").goal_id or 0)
    request = inbox.get(tx, tenant_id, request_id)
    if (request.answer, request.reason) == (action, note.strip()):
        return request
    if not request.is_open:
        raise Conflict(f"Decision #{request_id} was {f'made before: {request.answer}' if request.answer else request.state}.")
    decide_goal(tx, tenant_id, goal.id, action, note, limits)
    return inbox.get(tx, tenant_id, request_id)


def decide_goal(
    tx: Transaction, tenant_id: int, goal_id: int, action: Decision, note: str = "", limits: Limits = DEFAULT_LIMITS
) -> Goal:
    """Apply the operator's decision about a paused goal."""
    halts.check(tx)
    note = text.check_text(note.strip(), "note", DESCRIPTION_LIMIT)
    goal = get_locked_goal(tx, tenant_id, goal_id)
    if goal.status != "paused":
        raise Conflict(f"Goal #{goal_id} is {goal.status}; only a paused goal needs a decision.")
    sub_goals.append(tx, tenant_id, goal_id, "decided", {"action": action, "note": note})
    settle_decision(tx, goal, action, note)
    match action:
        case "abandon":
            return mark_abandoned(tx, goal, note or "The operator abandoned it.")
        case "replan":
            why = f"The operator asked for a new plan{f': {note}' if note else '.'}"
            room = max(0, goal.replan_count - 1)  # leaves room for the requested replan
            return mark_active(tx, goal._replace(replan_why=why if goal.plan_no else "", replan_count=room), limits)
        case "continue":
            if goal.pause_kind == "escalation":  # the operator accepts the divergences, so they no longer require a new plan
                goal_store.accept_divergences(tx, goal.tenant_id, goal.id)
                goal = goal._replace(replan_why="")
            return mark_active(tx, goal._replace(replan_count=0), limits)


def abandon(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
    """End the goal for good. Completed work is kept, and its agents stop."""
    goal = get_locked_goal(tx, tenant_id, goal_id)
    if goal.ended:
        raise Conflict(f"Goal #{goal_id} has already ended: {goal.status}.")
    return mark_abandoned(tx, goal, "The operator abandoned it.")


def mark_abandoned(tx: Transaction, goal: Goal, reason: str) -> Goal:
    sub_goals.append(tx, goal.tenant_id, goal.id, "abandoned", {"reason": reason})
    for sub_goal in goal_store.list_sub_goals(tx, goal.tenant_id, goal.id):
        if sub_goal.status in OPEN_STATUSES:
            sub_goals.skip(tx, sub_goal, "The goal was abandoned.")
    return end_goal(tx, goal._replace(pause_kind="", pause_reason=reason), "abandoned", "canceled")


def complete_goal(tx: Transaction, goal: Goal, summary: str) -> Goal:
    sub_goals.append(tx, goal.tenant_id, goal.id, "completed", {"summary": summary})
    return end_goal(tx, goal._replace(pause_kind="", pause_reason=""), "completed", "completed", summary)


def end_goal(tx: Transaction, goal: Goal, status: GoalStatus, run_status: RunStatus, summary: str = "") -> Goal:
    goal_store.end_cycle(tx, goal.tenant_id, goal.id, "completed")
    if goal.status == "paused":
        settle_decision(tx, goal, "abandon" if status == "abandoned" else None)
    run = run_store.find_run(tx, goal.tenant_id, goal.run_id) if goal.run_id else None
    if run and not run.ended:
        runs.cancel_descendants(tx, run)
        runs.end_child(tx, run, RunEnd(run_status, summary))
    return save_goal_and_emit(tx, goal._replace(status=status, replan_why="", ended_at=tx.now))


# Waiting for budget: the whole goal or turn waits when one of its runs finds the pool empty


def pause_run(tx: Transaction, run: Run, reason: str) -> None:
    """Pause the goal or turn of a run that finds the pool empty, and notify the operator. It resumes automatically."""
    if run.goal_id is not None:
        goal = pause_for_budget(tx, run.tenant_id, run.goal_id, reason)
        reason = f"Goal #{goal.id} is paused: {format_description(goal)} {reason}"
    elif run.turn_id is not None:
        turns.pause(tx, run, reason)
    notices.notify_once(tx, run, notices.BUDGET_KIND, reason)


def resume_run(tx: Transaction, run: Run) -> Run:
    """Continue a run whose pause is over, together with its goal or turn."""
    run = run._replace(status="running", updated_at=tx.now)
    if run.goal_id is not None:
        resume_after_budget(tx, run.tenant_id, run.goal_id)
    elif run.turn_id is not None:
        turns.resume(tx, run)
    if run.parent_run_id is not None or run.is_main:
        runs.emit_run_changed(tx, run)
    return run


def pause_for_budget(tx: Transaction, tenant_id: int, goal_id: int, reason: str) -> Goal:
    """Pause the goal unless it is paused or ended already."""
    goal = goal_store.find_locked_goal(tx, tenant_id, goal_id)
    if goal is None or goal.status != "active":
        return goal or get_goal(tx, tenant_id, goal_id)
    sub_goals.append(tx, tenant_id, goal_id, "paused", {"kind": "budget", "reason": reason})
    return save_goal_and_emit(tx, goal._replace(status="paused", pause_kind="budget", pause_reason=reason))


def can_spend(tx: Transaction, goal: Goal) -> bool:
    """Whether the goal's own budget has something left. If not, ask the operator to decide."""
    cost = run_store.sum_goal_cost(tx, goal.tenant_id, goal.id) if goal.budget else 0
    if not goal.budget or cost < goal.budget:
        return True
    if goal.status == "active":
        spent = f"${to_dollars(cost):.4f} of ${to_dollars(goal.budget):.4f}"
        escalate(tx, goal, "goal_budget", f"It has used up its budget: {spent}.")
    return False


def resume_after_budget(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    goal = goal_store.find_locked_goal(tx, tenant_id, goal_id)
    if goal and goal.status == "paused" and goal.pause_kind == "budget":
        sub_goals.append(tx, tenant_id, goal_id, "resumed", {"after": "budget"})
        notices.settle_goal(tx, tenant_id, goal_id)
        save_goal_and_emit(tx, goal._replace(status="active", pause_kind="", pause_reason=""))


# The main agent


def begin_inline(tx: Transaction, run: Run, sub_goal: SubGoal, message: str, limit: int) -> Run:
    """Let the main agent work on a sub-goal itself, starting with this message of its transcript."""
    n = run_store.get_next_message_number(tx, run.tenant_id, run.id)
    run_store.append_messages(tx, run.tenant_id, run.id, n, message)
    run = run._replace(sub_goal_id=sub_goal.id, begins_at=n, iterations=0, limit=limit, refusals=0, plan_mark="")
    run_store.save_run(tx, run)
    sub_goals.start_sub_goal(tx, sub_goal, run)
    return run


def end_inline(tx: Transaction, run: Run, end: RunEnd) -> Run:
    """End the sub-goal that the main agent works on, so that it is free for the next one."""
    waiting.cancel_open(tx, run)
    run = spending.release(tx, run)
    sub_goal = goal_store.find_sub_goal(tx, run.tenant_id, run.sub_goal_id or 0)
    if sub_goal and sub_goal.status == "in-progress":
        sub_goals.end_sub_goal(tx, sub_goal, run, end.as_result())
    run = run._replace(sub_goal_id=None, hint="")
    run_store.save_run(tx, run)
    return run


def mark_run(tx: Transaction, goal: Goal, status: RunStatus) -> None:
    """Set the visible status of the main agent, and release the budget reserved for its next model call."""
    run = run_store.find_run(tx, goal.tenant_id, goal.run_id or "")
    if run and not run.ended and (run.status != status or run.reserved):
        run = spending.release(tx, run)._replace(status=status, updated_at=tx.now)
        run_store.save_run(tx, run)
        runs.emit_run_changed(tx, run)


def format_description(goal: Goal) -> str:
    return f"“{text.to_one_line(goal.description)[:200]}”."


# Applies a plan to a goal: adds its sub-goals and dependencies, keeps the ones it names and drops the rest.


def format_key(sub_goal: SubGoal) -> str:
    """Return the key by which a new plan refers to an existing sub-goal."""
    return f"#{sub_goal.id}"


def apply_plan(tx: Transaction, goal: Goal, steps: Sequence[PlannedStep], why: str) -> Goal:
    """Apply the first plan or a replacement. Open sub-goals that the plan does not name are dropped."""
    known = goal_store.list_sub_goals(tx, goal.tenant_id, goal.id)
    named_keys = {step.key for step in steps}
    dropped = [sub_goal for sub_goal in known if sub_goal.status in OPEN_STATUSES and format_key(sub_goal) not in named_keys]
    goal = save_goal_and_emit(tx, goal._replace(plan_no=goal.plan_no + 1, replan_why=""))
    for sub_goal in dropped:
        drop(tx, sub_goal, "The new plan does not include it.", goal.plan_no)
    for sub_goal in known:
        if sub_goal.ended and not sub_goal.is_done and not sub_goal.superseded_by:
            sub_goals.change_sub_goal(tx, sub_goal, superseded_by=goal.plan_no)
    ids = {format_key(sub_goal): sub_goal.id for sub_goal in known}
    new_steps = [step for step in steps if step.key not in ids]
    for step in new_steps:
        ids[step.key] = goal_store.insert_sub_goal(tx, build_sub_goal(goal, step))
    for step in steps:
        goal_store.replace_edges(tx, goal.tenant_id, ids[step.key], [ids[dependency] for dependency in step.depends_on])
    for sub_goal in goal_store.list_sub_goals(tx, goal.tenant_id, goal.id):
        if format_key(sub_goal) in named_keys or sub_goal.plan_no == goal.plan_no:
            sub_goals.change_sub_goal(tx, sub_goal)
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
    sub_goals.append(tx, goal.tenant_id, goal.id, "planned" if goal.plan_no == 1 else "replanned", data)
    return goal


def describe_step(sub_goal_id: int, step: PlannedStep) -> dict[str, Any]:
    title = name_sub_goal(step.title, step.description)
    return {"id": sub_goal_id, "title": title, "description": step.description[: sub_goals.DESCRIPTION_LIMIT]}


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
    run = run_store.find_run(tx, sub_goal.tenant_id, sub_goal.run_id) if was_in_progress and sub_goal.run_id else None
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
        run_store.save_run(tx, run._replace(sub_goal_id=None, hint=""))
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
        urgency=step.urgency,
        expected_value=step.expected_value,
        cost_limit=step.cost_limit,
        checks=step.checks,
        proof="unproven" if step.checks else "none",
        title=step.title,
    )


# Changes by people after a goal was set, to its texts and limits. And running an ended goal again.


TEXTS = ("description", "success_criteria")
NEW_TEXT_REASON = "A person changed what the goal should achieve."
LABELS = {"success_criteria": "success criteria", "deadline_at": "deadline"}  # of fields whose names are not words


class GoalEdit(NamedTuple):
    """A partial update of a goal. Fields left UNSET stay as they are."""

    description: str | Unset = UNSET
    success_criteria: str | Unset = UNSET
    priority: int | Unset = UNSET
    budget: int | Unset = UNSET  # 0: only the pool limits it
    deadline_at: int | Unset = UNSET  # 0: none


def edit_goal(tx: Transaction, tenant_id: int, goal_id: int, edit: GoalEdit, limits: Limits = DEFAULT_LIMITS) -> Goal:
    """Change a goal that has not ended. Its next step follows the new limits, and a new text leads to a new plan.

    A goal that was paused because it had spent its budget or passed its deadline continues, if the new limit allows it.
    """
    goal = get_locked_goal(tx, tenant_id, goal_id)
    if goal.ended:
        raise Conflict(f"Goal #{goal_id} is {goal.status}, so it can no longer be changed. Run it again instead.")
    edited = goal._replace(**{name: value for name, value in edit._asdict().items() if value is not UNSET})
    checked = validate(NewGoal(edited.description, edited.success_criteria, edited.priority))
    edited = edited._replace(description=checked.description, success_criteria=checked.success_criteria)
    fields = [name for name in GoalEdit._fields if getattr(edited, name) != getattr(goal, name)]
    if not fields:
        return goal
    cost = run_store.sum_goal_cost(tx, tenant_id, goal_id)
    check_limits(tx, edited, fields, cost)
    if any(name in fields for name in TEXTS):
        quotas.check_storage(tx, tenant_id)
        edited = edited._replace(replan_why=NEW_TEXT_REASON if goal.plan_no else "")
    record_goal_edit(tx, goal, edited, fields)
    edited = save_goal_and_emit(tx, edited)
    if has_room_again(tx, edited, cost):
        edited = mark_active(tx, edited, limits)
    elif edited.status == "active" and edited.run_id:
        jobs.wake_job(tx, tenant_id, edited.run_id)  # it may rest until the old deadline
    sub_goals.emit_goal_at_commit(tx, tenant_id, goal_id, complete=True)
    return edited


def check_limits(tx: Transaction, edited: Goal, fields: list[str], cost: int) -> None:
    if "deadline_at" in fields and 0 < edited.deadline_at <= tx.now:
        raise Invalid("deadline must be in the future.")
    if "budget" in fields and 0 < edited.budget <= cost:
        raise Invalid(f"The goal has spent ${to_dollars(cost):.4f} already. Set a higher budget, or pause the goal to stop it.")


def record_goal_edit(tx: Transaction, old: Goal, new: Goal, fields: list[str]) -> None:
    """Record the change in the journal and in the audit log."""
    before, after = ({name: encode_field(goal, name) for name in fields} for goal in (old, new))
    labels = [LABELS.get(name, name) for name in fields]
    sub_goals.append(
        tx,
        new.tenant_id,
        new.id,
        "edited",
        {"fields": labels, "old": audit.shorten_value(before), "new": audit.shorten_value(after)},
    )
    audit.record_in_audit(tx, new.tenant_id, "goal.edit", f"goal:{new.id}", before, after)


def encode_field(goal: Goal, name: str) -> Any:
    match name:
        case "budget":
            return to_dollars(goal.budget) if goal.budget else None
        case "deadline_at":
            return goal.deadline_at // 1000
        case _:
            return getattr(goal, name)


def has_room_again(tx: Transaction, goal: Goal, cost: int) -> bool:
    """Whether a goal that is paused at one of its limits is below both of them now."""
    is_at_limit = goal.status == "paused" and goal.pause_kind in ("goal_budget", "deadline")
    is_within = (not goal.budget or cost < goal.budget) and (not goal.deadline_at or tx.now < goal.deadline_at)
    return is_at_limit and is_within


def build_repeat(tx: Transaction, tenant_id: int, goal_id: int) -> NewGoal:
    """Return an ended goal as a new one: the same texts, checks, repository and limits. It gets as much time as the old one had."""
    goal = get_goal(tx, tenant_id, goal_id)
    if not goal.ended:
        raise Conflict(f"Goal #{goal_id} is {goal.status}. It can be run again when it has ended.")
    deadline_at = tx.now + goal.deadline_at - goal.created_at if goal.deadline_at else 0
    new_goal = NewGoal(goal.description, goal.success_criteria, goal.priority, goal.budget, deadline_at)
    return new_goal._replace(repository=goal.repository, checks=goal.checks, repeat_of=goal.id)


def run_again(tx: Transaction, tenant_id: int, new_goal: NewGoal, limits: Limits = DEFAULT_LIMITS) -> Goal:
    """Start a goal from `build_repeat`. The old goal's journal names the new one."""
    goal = add_goal(tx, tenant_id, new_goal, limits)
    sub_goals.append(tx, tenant_id, new_goal.repeat_of, "repeated", {"goal_id": goal.id})
    return goal


# The results of the checks of a goal and its sub-goals.


def judge_sub_goal(tx: Transaction, goal: Goal, sub_goal: SubGoal, draft: ReceiptDraft) -> None:
    """Judge a sub-goal's outcome by its checks: it is as expected, or it diverges from the plan."""
    store(tx, goal.tenant_id, draft)
    proven = sub_goals.change_sub_goal(tx, sub_goal, proof="proven" if draft.ok else "broken")
    if draft.ok:
        sub_goals.judge(tx, goal, proven, "none", "All checks passed.", "checks")
    else:
        sub_goals.judge(tx, goal, proven, "major", describe_failures(draft.list_failures()), "checks")


def prove_goal(tx: Transaction, goal: Goal, draft: ReceiptDraft) -> Goal:
    """Record what the goal's checks found at its end. If one failed, a new plan is due."""
    store(tx, goal.tenant_id, draft)
    missing = describe_failures(draft.list_failures())
    sub_goals.append(tx, goal.tenant_id, goal.id, "goal_evaluated", {"met": draft.ok, "reason": missing, "by": "checks"})
    return save_goal_and_emit(tx, goal._replace(proof="proven" if draft.ok else "unproven", replan_why=missing))
